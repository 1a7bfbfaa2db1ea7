#!/usr/bin/env bash
# Licences, banned and duplicate packages, and where packages come from, by deny.toml. Seconds. cargo-deny takes minutes to
# build, so this is done where it is installed (cargo install cargo-deny --locked) and said to be left out elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
if cargo deny --version >/dev/null 2>&1; then
    cargo deny --offline check licenses bans sources
else
    echo "left out: cargo-deny is not installed"
fi
