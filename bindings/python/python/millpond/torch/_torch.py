"""The PyTorch that is there, and whether its allocator can be changed now."""

from types import ModuleType


class InstallError(RuntimeError):
    """Why Millpond cannot be put under PyTorch."""


def cuda_torch() -> ModuleType:
    """PyTorch with CUDA, before CUDA is initialised."""
    try:
        import torch
    except ImportError as error:
        raise InstallError(f"PyTorch cannot be imported: {error}") from error
    if getattr(torch.version, "cuda", None) is None:
        raise InstallError(f"torch {torch.__version__} is built without CUDA")
    if torch.cuda.is_initialized():
        raise InstallError(
            "CUDA is initialised already, and PyTorch's own allocator serves it; call millpond.torch.install() before the first "
            "use of a CUDA device"
        )
    if torch.cuda.is_available() and torch.cuda.get_allocator_backend() != "native":
        raise InstallError(
            f"PyTorch's allocator is '{torch.cuda.get_allocator_backend()}' and not its native one: something else was installed, or "
            "PYTORCH_CUDA_ALLOC_CONF asks for backend:cudaMallocAsync"
        )
    return torch
