"""The full grade: the C++ shim that implements PyTorch's `CUDAAllocator`, compiled against the torch that is there."""

import ctypes
from types import ModuleType

from .. import _allocator
from . import _compile
from ._torch import InstallError

# The C++ interface changes between versions.
TORCH = "2.15"

STAYS = (
    "pinned host memory and its statistics",
    "tags of reserve classes, set from C++ (expandable_segments_reserve_by_class)",
    "the backend cudaMallocAsync",
)

REFUSED = ("sharing tensors between processes (CUDA IPC)",)


def install(torch: ModuleType) -> str:
    """Installs it; why it could be is the answer."""
    version = torch.__version__
    if version.split("+")[0].split(".")[:2] != TORCH.split("."):
        raise InstallError(f"the full grade is written for torch {TORCH}, and this is {version}")
    # The shim is bound to the library that is loaded already, which is the package's.
    _allocator.library()
    shim, how = _compile.shim(torch)
    try:
        ctypes.CDLL(str(shim)).millpond_torch_install()
    except OSError as error:
        raise InstallError(f"the shim does not load: {error}") from error
    if torch.cuda.is_available() and torch.cuda.get_allocator_backend() != "millpond":
        raise InstallError("PyTorch does not take the shim")
    return f"torch is {version}, and the shim {how}"
