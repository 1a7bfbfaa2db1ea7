"""The plain grade: `CUDAPluggableAllocator`. PyTorch asks for memory, gives it back, and tells of side streams; nothing else."""

from types import ModuleType

from .. import _allocator
from ._torch import InstallError

STAYS = (
    "pinned host memory and its statistics",
    "the snapshots that PyTorch takes; use millpond.stats(), millpond.memory_summary(), millpond.dump_snapshot()",
)

REFUSED = (
    "memory_stats and what is made from it, memory fractions that are read, history, snapshots, observers, trace trackers",
    "MemPool, use_mem_pool, CUDA graphs in a pool, checkpoints, sharing tensors between processes",
    "an OutOfMemoryError: PyTorch takes the null pointer of a failed request for memory, and a kernel that uses it fails",
)

# What PyTorch can be told of beside allocating and freeing: its setter, and the function. Older versions know fewer.
_PLUGS = {
    "set_init_fn": "mp_torch_init",
    "set_reset_fn": "mp_torch_reset",
    "set_memory_fraction_fn": "mp_torch_memory_fraction",
    "set_base_alloc_fn": "mp_torch_base_alloc",
    "set_record_stream_fn": "mp_torch_record_stream",
}


def install(torch: ModuleType) -> None:
    library = _allocator.library()
    plug = torch.cuda.memory.CUDAPluggableAllocator(library.path, "mp_torch_alloc", "mp_torch_free")
    for setter, function in _PLUGS.items():
        if hasattr(plug._allocator, setter):
            getattr(plug._allocator, setter)(library.address(function))
    try:
        torch.cuda.memory.change_current_allocator(plug)
    except RuntimeError as error:
        raise InstallError(f"PyTorch refuses another allocator: {error}") from error
