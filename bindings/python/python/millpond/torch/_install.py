"""`install`: which grade, and what it means."""

import threading
from dataclasses import dataclass
from typing import Optional, Tuple

from . import _full, _plain
from ._torch import InstallError, cuda_torch

GRADES = ("auto", "full", "plain")


@dataclass(frozen=True)
class Installed:
    """What was installed; as text, a report for a person."""

    grade: str
    """`full` or `plain`."""
    why: str
    """Why this grade."""
    stays: Tuple[str, ...]
    """What stays with PyTorch's own code."""
    refused: Tuple[str, ...]
    """What PyTorch does not do in this grade."""

    def __str__(self) -> str:
        lines = [f"Millpond serves PyTorch in the {self.grade} grade: {self.why}."]
        lines += [f"  stays with PyTorch: {what}" for what in self.stays]
        lines += [f"  not in this grade: {what}" for what in self.refused]
        return "\n".join(lines)


_lock = threading.Lock()
_installed: Optional[Installed] = None


def installed() -> Optional[Installed]:
    """What was installed in this process; nothing before `install`."""
    return _installed


def install(grade: str = "auto") -> Installed:
    """Makes PyTorch allocate CUDA memory with Millpond, in this process and from now on.

    To be called before CUDA is initialised: before the first tensor on a device. `grade` is "full", "plain", or "auto" for the full
    one where it can be had. A second call answers what the first did.

    An `InstallError` says why it cannot be done, and leaves PyTorch as it was.
    """
    global _installed
    if grade not in GRADES:
        raise InstallError(f"there is no grade '{grade}'; there are 'full', 'plain' and 'auto'")
    with _lock:
        if _installed is not None:
            if grade not in ("auto", _installed.grade):
                raise InstallError(
                    f"Millpond is installed in the {_installed.grade} grade already, and stays as it is until the process ends"
                )
            return _installed
        torch = cuda_torch()
        why = "as asked for"
        if grade != "plain":
            try:
                _installed = Installed("full", _full.install(torch), _full.STAYS, _full.REFUSED)
                return _installed
            except InstallError as error:
                if grade == "full":
                    raise
                why = f"the full one cannot be had, as {error}"
        _plain.install(torch)
        _installed = Installed("plain", why, _plain.STAYS, _plain.REFUSED)
        return _installed
