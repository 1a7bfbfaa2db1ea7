#!/usr/bin/env bash
# The MSRV: the toolchain in use is the rust-version of the workspace or newer. With rustup and that very toolchain installed,
# everything is checked with it too (minutes); without, clippy's incompatible_msrv has looked for newer parts of std.
set -euo pipefail
cd "$(dirname "$0")/.."
msrv=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
here=$(rustc --version | cut -d' ' -f2)
oldest=$(printf '%s\n%s\n' "$msrv" "$here" | sort -V | head -n 1)
if [ "$oldest" != "$msrv" ]; then
    echo "rustc $here is older than the rust-version $msrv of Cargo.toml" >&2
    exit 1
fi
if [[ "$here" != "$msrv"* ]] && rustup toolchain list 2>/dev/null | grep -q "^$msrv"; then
    cargo "+$msrv" check --workspace --all-targets --target-dir target/msrv
fi
echo "rust-version $msrv, rustc $here"
