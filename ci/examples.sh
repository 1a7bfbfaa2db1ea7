#!/usr/bin/env bash
# The examples for readers, those of the libraries, run and end with status 0. Seconds once built.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo metadata --format-version 1 --no-deps --offline | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] not in ("millpond", "millpond-elastic"):
        continue
    for target in package["targets"]:
        if target["kind"] == ["example"]:
            print(package["name"], target["name"])
' | while read -r package example; do
    echo "example $example of $package"
    cargo run --quiet -p "$package" --example "$example" </dev/null >/dev/null
done
