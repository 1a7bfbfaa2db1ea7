"""Matrix products without cuBLAS and cuDNN, for dry runs on the simulated device.

Those two libraries do not start there (they carry the vendor's runtime). What they would compute is garbage on a device that
computes nothing; what is wanted is memory of the right size and shape, and for that the operator's own shape function is enough.
"""

from typing import Any, List

from ._torch import InstallError

_OPERATORS = (
    "mm",
    "mm.out",
    "addmm",
    "addmm.out",
    "_addmm_activation",
    "bmm",
    "bmm.out",
    "baddbmm",
    "baddbmm.out",
    "addmv",
    "addmv.out",
    "dot",
    "vdot",
    "convolution",
    "convolution_backward",
)

_kept: List[Any] = []


def skip_products() -> None:
    """From now on, in this process, matrix products and convolutions on CUDA devices give empty tensors of the right shape.

    For `millpond sim` alone: values are lost. What cuBLAS and cuDNN take for their workspaces is not allocated, either. Attention
    goes to PyTorch's own kernels.
    """
    if _kept:
        return
    import torch

    if torch.version.cuda is None:
        raise InstallError(f"torch {torch.__version__} is built without CUDA")
    library = torch.library.Library("aten", "IMPL")
    for name in _OPERATORS:
        operator, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, operator)
        library.impl(name, _shape_only(torch, getattr(packet, overload or "default")), "CUDA", allow_override=True)
    torch.backends.cuda.enable_cudnn_sdp(False)
    _kept.append(library)


def _shape_only(torch: Any, operator: Any) -> Any:
    """The operator on tensors without data, and fresh memory of the shapes that come out."""
    from torch.utils._pytree import tree_map_only

    def meta(tensor: Any) -> Any:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")

    def run(*arguments: Any, out: Any = None, **keywords: Any) -> Any:
        tensors = [value for value in (*arguments, *keywords.values()) if isinstance(value, torch.Tensor)]
        device = next(tensor.device for tensor in tensors if tensor.is_cuda)
        if out is not None:
            shape = operator(*tree_map_only(torch.Tensor, meta, arguments), out=meta(out), **keywords)
            return out.resize_(shape.size()) if out.size() != shape.size() else out
        shapes = operator(*tree_map_only(torch.Tensor, meta, arguments), **tree_map_only(torch.Tensor, meta, keywords))

        def made(shape: Any) -> Any:
            return torch.empty_strided(shape.size(), shape.stride(), dtype=shape.dtype, device=device)

        return tree_map_only(torch.Tensor, made, shapes)

    return run
