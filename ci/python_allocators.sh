#!/usr/bin/env bash
# The examples of RMM and CuPy run on the simulated device. Half a minute once built; from nothing also the wheel, and 2 GB from PyPI
# into target/allocators: RMM, CuPy 12 (the last that links CUDA's runtime, where later ones hold it) and the libraries of CUDA 12
# that it wants to be there. RMM_PYTHON and CUPY_PYTHON name Pythons that have them; PYTHON (python3, at most 3.12 for CuPy 12) makes
# the environments. MATURIN names maturin.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}/allocators
python=${PYTHON:-python3}
mkdir -p "$target"

# environment NAME PACKAGES…: the Python of an environment that has them.
environment() {
    local folder=$target/$1
    shift
    if [ ! -e "$folder/done" ]; then
        "$python" -m venv "$folder"
        "$folder/bin/python" -m pip install --quiet "$@" >&2
        touch "$folder/done"
    fi
    echo "$folder/bin/python"
}
rmm=${RMM_PYTHON:-$(environment rmm rmm-cu13)}
cupy=${CUPY_PYTHON:-$(environment cupy 'cupy-cuda12x<13' \
    nvidia-{cublas,cuda-nvrtc,cufft,curand,cusolver,cusparse,nvjitlink,nvtx}-cu12)}

rm -rf "$target/wheels" "$target/site"
MATURIN=${MATURIN:-$(dirname "$(environment tools maturin)")/maturin} bindings/python/build.sh "$target/wheels"
"$python" -m pip install --quiet --no-deps --no-index --target "$target/site" "$target"/wheels/millpond-*.whl
export PYTHONPATH=$target/site
millpond=$target/site/millpond/_install/bin/millpond

echo "== RMM $("$rmm" -c 'import importlib.metadata as m; print(m.version("rmm-cu13"))')"
"$millpond" sim -- "$rmm" examples/rmm_callback.py

libraries=$("$cupy" -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib")))')
echo "== CuPy $("$cupy" -c 'import importlib.metadata as m; print(m.version("cupy-cuda12x"))')"
LD_LIBRARY_PATH=$libraries "$millpond" sim --backing -- "$cupy" examples/cupy_functions.py
echo "all good"
