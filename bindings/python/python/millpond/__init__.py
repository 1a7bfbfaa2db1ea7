"""PyTorch's CUDA caching allocator, written again.

- `millpond.torch.install()` puts it under PyTorch.
- `stats()`, `memory_summary()`, `dump_snapshot()` and the others ask the allocator of this process.
- `doctor()`, `replay()` and `sweep()` work on recorded snapshots and need no GPU.
"""

from ._allocator import (
    alloc,
    configure,
    device_count,
    dump_snapshot,
    empty_cache,
    free,
    memory_fraction,
    memory_summary,
    record_history,
    record_stream,
    reset_accumulated_stats,
    reset_peak_stats,
    set_memory_fraction,
    settings,
    stats,
    verify,
    version,
)
from ._native import MillpondError, OutOfMemoryError
from ._program import Diagnosis, ProgramError, doctor, replay, run, sweep

__version__ = version()

__all__ = [
    "Diagnosis",
    "MillpondError",
    "OutOfMemoryError",
    "ProgramError",
    "__version__",
    "alloc",
    "configure",
    "device_count",
    "doctor",
    "dump_snapshot",
    "empty_cache",
    "free",
    "memory_fraction",
    "memory_summary",
    "record_history",
    "record_stream",
    "replay",
    "reset_accumulated_stats",
    "reset_peak_stats",
    "run",
    "set_memory_fraction",
    "settings",
    "stats",
    "sweep",
    "verify",
    "version",
]
