"""Where the package keeps what is not Python: `bindings/python/build.sh` lays it out as an installation."""

from pathlib import Path

_INSTALL = Path(__file__).parent / "_install"

PROGRAM = _INSTALL / "bin" / "millpond"
LIBRARY = _INSTALL / "lib" / "libmillpond.so.0"
INCLUDE = _INSTALL / "include"
SHIM_SOURCE = _INSTALL / "src" / "millpond_torch.cpp"
