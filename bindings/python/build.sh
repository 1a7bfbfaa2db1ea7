#!/usr/bin/env bash
# build.sh [OUT]: builds the wheel into the folder OUT (target/wheels). Needs maturin (MATURIN names another than that of the PATH),
# a Rust toolchain and a linker; about four minutes from nothing, half a minute once built.
#
# The wheel carries libmillpond.so, the program `millpond`, the simulated driver's libraries and the source of the C++ shim, laid
# out as an installation: python/millpond/_install/{bin,lib,lib/millpond,include,src}.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
built=${CARGO_TARGET_DIR:-$root/target}/release
out=${1:-${CARGO_TARGET_DIR:-$root/target}/wheels}
maturin=${MATURIN:-maturin}
command -v "$maturin" >/dev/null || { echo "build.sh: needs maturin (pip install maturin), or MATURIN with its path" >&2 && exit 2; }

cd "$root"
cargo build --release --quiet --locked \
    -p millpond-c -p millpond-cli -p millpond-shim-libcuda -p millpond-shim-libcudart -p millpond-shim-libnvml

install=$here/python/millpond/_install
rm -rf "$install"
mkdir -p "$install"/{bin,lib/millpond,include,src}
install -m 755 "$built/millpond" "$install/bin/millpond"
install -m 755 "$built/libmillpond_c.so" "$install/lib/libmillpond.so.0"
install -m 755 "$built"/libmillpond_lib{cuda,cudart,nvml}.so "$install/lib/millpond/"
install -m 644 bindings/c/include/millpond.h "$install/include/"
install -m 644 bindings/torch/millpond_torch.cpp "$install/src/"
strip --strip-debug "$install/bin/millpond" "$install"/lib/libmillpond.so.0 "$install"/lib/millpond/*.so

cd "$here"
"$maturin" build --release --locked --quiet --out "$out"
echo "$out"
