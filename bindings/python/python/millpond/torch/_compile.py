"""Compiling the shim, once: what was compiled stays in a cache folder under a name that says from what.

The folder is `$MILLPOND_CACHE`, else `millpond` in `$XDG_CACHE_HOME` or `~/.cache`.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Dict, List, Tuple

from .. import _paths
from ._torch import InstallError

_FLAGS = ["-std=c++20", "-O2", "-fPIC", "-shared"]


def shim(torch: ModuleType) -> Tuple[Path, str]:
    """The compiled shim, and how it was come by."""
    compiler = _compiler()
    command = [compiler, *_FLAGS, *_includes(torch), str(_paths.SHIM_SOURCE), *_libraries(torch)]
    target = _cache() / f"millpond_torch-{_key(torch, command)}.so"
    if target.exists():
        return target, f"was compiled before: {target}"
    started = time.monotonic()
    _compile(command, target)
    return target, f"was compiled in {time.monotonic() - started:.1f} s: {target}"


def _compiler() -> str:
    asked = os.environ.get("CXX")
    for name in [asked] if asked else ["g++", "c++"]:
        found = shutil.which(name)
        if found:
            return found
    raise InstallError(f"there is no C++ compiler ({asked or 'g++'}; CXX names another)")


def _packages(torch: ModuleType) -> Path:
    return Path(torch.__file__).parent.parent


def _found(what: str, folders: List[Path], file: str) -> Path:
    for folder in folders:
        if (folder / file).exists():
            return folder
    looked = ", ".join(map(str, folders))
    raise InstallError(f"{what} are missing: no {file} in {looked}")


def _cuda(torch: ModuleType) -> List[Path]:
    """Where CUDA may be: the packages of torch, then an installation."""
    major = torch.version.cuda.split(".")[0]
    folders = [_packages(torch) / "nvidia" / f"cu{major}", Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))]
    return folders


def _includes(torch: ModuleType) -> List[str]:
    cuda = _found("CUDA's headers", [folder / "include" for folder in _cuda(torch)], "cuda_runtime_api.h")
    # PyTorch's packages for CUDA leave these out, and triton, which it needs, has them.
    crt = [cuda, _packages(torch) / "triton" / "backends" / "nvidia" / "include"]
    crt_folder = _found("CUDA's crt headers (packages triton or nvidia-cuda-crt)", crt, "crt/host_defines.h")
    folders = [_packages(torch) / "torch" / "include", cuda, crt_folder, _paths.INCLUDE]
    return [argument for folder in folders for argument in ("-isystem", str(folder))]


def _libraries(torch: ModuleType) -> List[str]:
    """All are loaded before the shim is, so it needs no path to them."""
    major = torch.version.cuda.split(".")[0]
    runtime = f"libcudart.so.{major}"
    folders = [folder / lib for folder in _cuda(torch) for lib in ("lib", "lib64")]
    cuda = _found("CUDA's runtime", folders, runtime)
    torch_lib = _packages(torch) / "torch" / "lib"
    return [f"-L{torch_lib}", "-lc10_cuda", "-lc10", str(cuda / runtime), str(_paths.LIBRARY)]


def _key(torch: ModuleType, command: List[str]) -> str:
    """From what it is compiled: torch's build, the sources, the compiler and its command."""
    digest = hashlib.sha256()
    version = _run([command[0], "-dumpfullversion", "-dumpversion"]).stdout
    for part in [torch.__version__, str(torch.version.git_version), version, *command]:
        digest.update(part.encode() + b"\0")
    for file in (_paths.SHIM_SOURCE, _paths.INCLUDE / "millpond.h"):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    named = os.environ.get("MILLPOND_CACHE")
    folder = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millpond"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InstallError(f"the cache folder cannot be made ({error}); MILLPOND_CACHE names another") from error
    return folder


def _environment() -> Dict[str, str]:
    """Without what `millpond sim` preloads for the program that it runs."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}


def _run(command: List[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())


def _compile(command: List[str], target: Path) -> None:
    """Compiled beside its place and moved there: another process finds it whole or not at all."""
    try:
        handle, made = tempfile.mkstemp(dir=target.parent, suffix=".so.part")
    except OSError as error:
        raise InstallError(f"the cache folder cannot be written ({error}); MILLPOND_CACHE names another") from error
    os.close(handle)
    try:
        done = _run([*command, "-o", made])
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            first = next((line for line in lines if "error" in line), lines[-1] if lines else "no message")
            raise InstallError(f"the shim does not compile: {first}")
        os.replace(made, target)
    finally:
        if os.path.exists(made):
            os.unlink(made)
