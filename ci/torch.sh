#!/usr/bin/env bash
# The Python package under PyTorch 2.15 on the simulated device: builds the wheel, runs its tests (PyTorch's documented behaviours, the
# same figures as PyTorch's own allocator, what the plain grade refuses) and the examples. Six minutes from nothing, three once built.
# PYTHON names a Python that has torch 2.15; without one that has, 3 GB are installed from PyPI into target/torch. MATURIN names
# maturin; without one it is installed there, too. Needs g++.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}/torch
python=${PYTHON:-python3}
mkdir -p "$target"
if ! "$python" -c 'import torch; assert torch.__version__.startswith("2.15.")' 2>/dev/null; then
    [ -x "$target/venv/bin/python" ] || "$python" -m venv "$target/venv"
    python=$target/venv/bin/python
    "$python" -c 'import torch' 2>/dev/null || "$python" -m pip install --quiet 'torch==2.15.*'
fi
# Beside the Python that was named, and not into it.
[ -d "$target/tools" ] || "$python" -m pip install --quiet --target "$target/tools" maturin pytest ipython
rm -rf "$target/wheels" "$target/site"
MATURIN=${MATURIN:-$target/tools/bin/maturin} bindings/python/build.sh "$target/wheels"
"$python" -m pip install --quiet --no-deps --no-index --target "$target/site" "$target"/wheels/millpond-*.whl
export PYTHONPATH=$target/site:$target/tools MILLPOND_CACHE=$target/cache TORCH_CPP_LOG_LEVEL=ERROR
millpond=$target/site/millpond/_install/bin/millpond

"$python" -m pytest --quiet -p no:cacheprovider bindings/python/tests "$@"

cd "$target"
examples=$OLDPWD/examples
"$millpond" sim -- "$python" "$examples/torch_drop_in.py" --grade full
"$millpond" replay --quiet --assert 'ooms == 1' torch_drop_in.pickle >/dev/null
"$millpond" sim -- "$python" "$examples/torch_drop_in.py" --grade plain
"$millpond" replay --quiet torch_drop_in.pickle >/dev/null
"$millpond" sim --capacity 2G -- "$python" "$examples/dry_run.py"
"$millpond" sim --capacity 2G -- "$python" "$examples/dry_run.py" --millpond
echo "all good"
