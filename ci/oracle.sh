#!/usr/bin/env bash
# The live oracle: random request scripts on PyTorch 2.15's own allocator over the simulated device, recorded in the golden form and
# held against Millpond's decisions; a difference is shrunk and kept in ci/oracle/found. 1,000 scripts: 50 ms each to record,
# 1 ms to compare, with two minutes to build and half a minute for what is looked at twice. PYTHON names a Python that has
# torch 2.15; without one that has, 3 GB are installed from PyPI into target/oracle. More: ci/oracle.sh --help.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
if ! "$python" -c 'import torch; assert torch.__version__.startswith("2.15.")' 2>/dev/null; then
    [ -x target/oracle/bin/python ] || python3 -m venv target/oracle
    python=target/oracle/bin/python
    "$python" -c 'import torch' 2>/dev/null || "$python" -m pip install --quiet 'torch==2.15.*'
fi
cargo build --release --quiet -p millpond-cli -p millpond-shim-libcuda -p millpond-shim-libcudart -p millpond-shim-libnvml
# PyTorch warns of each page that a full device does not give.
TORCH_CPP_LOG_LEVEL=ERROR exec "$python" ci/oracle/oracle.py "$@"
