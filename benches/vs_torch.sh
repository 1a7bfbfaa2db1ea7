#!/usr/bin/env bash
# vs_torch.sh [--json FILE] [CASE…]: the cases of `millpond bench` on PyTorch 2.15's own allocator, on libmillpond over its C interface
# and on the Rust library, in turn in one run, on one simulated device. PYTHON names a Python that has torch 2.15; only its
# headers and libraries are used. Needs g++ and CUDA's `crt` headers, which come with triton ($CRT names the folder otherwise).
# More: benches/vs_torch.sh --help.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
version=$("$python" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || echo none)
case $version in
2.15.*) ;;
*) echo "vs_torch.sh: needs torch 2.15, and $python has $version; PYTHON names another" >&2 && exit 2 ;;
esac
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
crt=${CRT:-$packages/triton/backends/nvidia/include}
[ -f "$crt/crt/host_defines.h" ] || { echo "vs_torch.sh: $crt has no crt/host_defines.h: install triton, or set CRT" >&2 && exit 2; }
cargo build --release --quiet --locked -p millpond-benches --example vs_torch
cargo build --release --quiet --locked -p millpond-c -p millpond-cli -p millpond-shim-libcuda -p millpond-shim-libcudart \
    -p millpond-shim-libnvml
built=${CARGO_TARGET_DIR:-target}/release
g++ -std=c++20 -O2 -fPIC -shared -Wall -isystem "$packages/torch/include" -isystem "$packages/nvidia/cu13/include" -isystem "$crt" \
    benches/torch_side.cpp -o "$built/libtorch_side.so" -L"$packages/torch/lib" -Wl,-rpath,"$packages/torch/lib" -lc10_cuda -lc10
exec "$built/millpond" sim --capacity 1TiB -- "$built/examples/vs_torch" "$built/libtorch_side.so" "$built/libmillpond_c.so" "$@"
