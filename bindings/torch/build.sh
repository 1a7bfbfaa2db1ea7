#!/usr/bin/env bash
# build.sh PYTHON OUT: builds libmillpond_torch.so against the torch 2.15 of PYTHON, with libmillpond.so beside it in the folder OUT.
# Needs g++ and CUDA's `crt` headers, which come with triton (or $CRT names the folder that holds crt/). About 8 seconds.
set -euo pipefail
python=${1:?usage: build.sh PYTHON OUT} out=${2:?usage: build.sh PYTHON OUT}
here=$(cd "$(dirname "$0")" && pwd)
version=$("$python" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || echo none)
case $version in
2.15.*) ;;
*) echo "build.sh: the full grade is written for torch 2.15, and $python has $version" >&2 && exit 2 ;;
esac
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
crt=${CRT:-$packages/triton/backends/nvidia/include}
[ -f "$crt/crt/host_defines.h" ] || { echo "build.sh: $crt has no crt/host_defines.h: install triton, or set CRT" >&2 && exit 2; }
(cd "$here/../.." && cargo build --release --quiet -p millpond-c)
mkdir -p "$out"
cp "${CARGO_TARGET_DIR:-$here/../../target}/release/libmillpond_c.so" "$out/libmillpond.so.0"
g++ -std=c++20 -O2 -fPIC -shared -Wall -isystem "$packages/torch/include" -isystem "$packages/nvidia/cu13/include" -isystem "$crt" \
    -I"$here/../c/include" "$here/millpond_torch.cpp" -o "$out/libmillpond_torch.so" -Wl,-rpath,'$ORIGIN' \
    -L"$packages/torch/lib" -L"$packages/nvidia/cu13/lib" -lc10_cuda -lc10 -l:libcudart.so.13 "$out/libmillpond.so.0"
