"""The allocators of this process: one for each device, made when they are first asked for.

Where nothing else is said a device is its index, 0 by default, sizes are bytes, and an error is a `MillpondError` whose `status`
is its number in millpond.h.
"""

import functools
import json
import os
import warnings
from typing import Dict, Union

from . import _paths
from ._native import Library


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """The packaged `libmillpond.so`; nothing of CUDA is loaded yet."""
    return Library(str(_paths.LIBRARY))


def version() -> str:
    """The version of the library."""
    return library().version


def device_count() -> int:
    """How many devices the driver has."""
    return library().device_count()


def settings() -> Dict[str, str]:
    """The settings in force: each key with its value as it is written."""
    return json.loads(library().settings())["settings"]


def configure(text: str, *, as_torch: bool = False) -> None:
    """Changes settings; the allocators act on them from their next call.

    `text` is in Millpond's grammar, in which an unknown key is an error, or with `as_torch` is read with all the tolerance of
    PyTorch. What PyTorch would warn of is a `UserWarning`.
    """
    for line in library().configure(text, as_torch).splitlines():
        warnings.warn(line, stacklevel=2)


def alloc(size: int, device: int = 0, stream: int = 0) -> int:
    """The address of at least so many bytes for work on a stream (a `CUstream` as a number); 0 for a size of 0."""
    return library().alloc(device, size, stream)


def free(addr: int, device: int = 0, stream: int = 0) -> None:
    """Gives a block back; `stream` is the calling thread's current one. 0 does nothing."""
    library().free(device, addr, stream)


def record_stream(addr: int, stream: int, device: int = 0) -> bool:
    """Records that work on another stream uses a block, which is then not handed out again before that work is done.

    The answer is whether a live block starts there.
    """
    return library().record_stream(device, addr, stream)


def stats(device: int = 0) -> Dict[str, int]:
    """The statistics of a device, under the names of `torch.cuda.memory_stats`."""
    return json.loads(library().stats(device))["stats"]


def memory_summary(device: int = 0, *, abbreviated: bool = False) -> str:
    """The table of `torch.cuda.memory_summary`."""
    return library().memory_summary(device, abbreviated)


def reset_peak_stats(device: int = 0) -> None:
    """Peaks start again from what is held now."""
    library().reset_peak_stats(device)


def reset_accumulated_stats(device: int = 0) -> None:
    """Accumulated figures start again from 0."""
    library().reset_accumulated_stats(device)


def set_memory_fraction(fraction: float, device: int = 0) -> None:
    """Limits the allocator to a fraction of the device's memory, between 0 and 1; 1 removes the limit."""
    library().set_memory_fraction(device, fraction)


def memory_fraction(device: int = 0) -> float:
    """The limit as a fraction; 1 without one."""
    return library().memory_fraction(device)


def record_history(max_entries: int = 1_000_000, device: int = 0) -> None:
    """Starts a history of at most so many entries, without stacks; 0 stops and clears it.

    In the full grade `torch.cuda.memory._record_memory_history` does this with Python's stacks.
    """
    library().record_history(device, max_entries)


def empty_cache(device: int = 0) -> None:
    """Gives all cached memory back that no live block holds fast."""
    library().empty_cache(device)


def dump_snapshot(path: Union[str, "os.PathLike[str]"] = "dump_snapshot.pickle") -> None:
    """Writes what all allocators hold, and their histories, as `torch.cuda.memory._dump_snapshot` does."""
    library().dump_snapshot(os.fspath(path))


def verify(device: int = 0) -> None:
    """Recounts everything from the blocks; an error names all that does not add up, and is a fault of Millpond."""
    library().verify(device)
