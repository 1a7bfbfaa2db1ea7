"""The packaged program `millpond`, from Python.

Replay and diagnosis run in a process of their own: they have an allocator and a device of their own, and need memory that goes
back to the system.
"""

import functools
import html
import json
import os
import subprocess
import sys
from typing import Any, Callable, Dict, NoReturn, Optional, Sequence, Union

from . import _paths

Path = Union[str, "os.PathLike[str]"]


class ProgramError(RuntimeError):
    """The program refused what it was given: `returncode` 2, or it ended otherwise. The text is the program's own."""

    def __init__(self, text: str, returncode: int) -> None:
        super().__init__(text)
        self.returncode = returncode


def main() -> NoReturn:
    """The command `millpond`."""
    os.execv(_paths.PROGRAM, [str(_paths.PROGRAM), *sys.argv[1:]])


def run(*arguments: Union[str, "os.PathLike[str]"]) -> "subprocess.CompletedProcess[str]":
    """Runs the program with the arguments, and catches what it writes."""
    command = [str(_paths.PROGRAM), *map(os.fspath, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _answer(verb: str, path: Path, options: Dict[str, Optional[object]], flags: Sequence[str] = ()) -> str:
    arguments = [verb, "--quiet", *flags]
    for name, value in options.items():
        if value is not None:
            arguments += [f"--{name}", str(value)]
    done = run(*arguments, "--", os.fspath(path))
    # 1 is an answer, too: "no".
    if done.returncode not in (0, 1) or not done.stdout:
        raise ProgramError(done.stderr.strip(), done.returncode)
    return done.stdout


def _json(verb: str, path: Path, options: Dict[str, Optional[object]]) -> Dict[str, Any]:
    return json.loads(_answer(verb, path, options, ["--json"]))


class Diagnosis(Dict[str, Any]):
    """Why a program ran out of memory: the answer of `millpond doctor --json`. As a text, and in a notebook, it is the report."""

    def __init__(self, answer: Dict[str, Any], tell: Callable[[], str]) -> None:
        super().__init__(answer)
        self._tell = tell

    @functools.cached_property
    def report(self) -> str:
        """The report as the program tells it: everything is replayed once more when it is first asked for."""
        return self._tell()

    def __str__(self) -> str:
        return self.report

    def __repr__(self) -> str:
        kinds = ", ".join(device["verdict"]["kind"] for device in self["devices"])
        return f"<Diagnosis: {kinds}; print() tells the report>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.report)}</pre>"


def replay(
    path: Path,
    *,
    conf: Optional[str] = None,
    capacity: Union[int, str, None] = None,
    events: Optional[str] = None,
    until: Optional[int] = None,
    others: Union[int, str, None] = None,
    device: Optional[int] = None,
) -> Dict[str, Any]:
    """Replays a workload or a snapshot on a simulated device: the answer of `millpond replay --json`.

    `conf` are other settings, `capacity` and `others` sizes ("24GiB", or bytes), `events` immediate or manual, `until` the last
    request, `device` which device of a snapshot.
    """
    options = {
        "conf": conf,
        "capacity": capacity,
        "events": events,
        "until": until,
        "others": others,
        "device-index": device,
    }
    return _json("replay", path, options)


def sweep(path: Path, *, device: Optional[int] = None) -> Dict[str, Any]:
    """The same requests under many settings: the answer of `millpond sweep --json`."""
    return _json("sweep", path, {"device-index": device})


def doctor(
    path: Path,
    *,
    conf: Optional[str] = None,
    capacity: Union[int, str, None] = None,
    device: Optional[int] = None,
) -> Diagnosis:
    """Why the program of a snapshot ran out of memory, and which settings would have fitted, by replay.

    `conf` stands for the recorded settings, `capacity` for the device's memory, `device` is one of several in the file.
    """
    options = {"conf": conf, "capacity": capacity, "device-index": device}
    return Diagnosis(_json("doctor", path, options), lambda: _answer("doctor", path, options))
