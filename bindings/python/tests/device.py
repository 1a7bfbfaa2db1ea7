"""Tests whose bodies run in a process of their own on the simulated device.

    @on_device(grade="full", capacity="1GiB")
    def test_something():
        import torch
        ...

What the body returns, as JSON, is what the decorated function returns. CUDA is initialised once in a process, so each such test has
one; loading PyTorch takes most of its time.
"""

import functools
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import traceback

import pytest

from millpond import _paths

HERE = os.path.dirname(os.path.abspath(__file__))


def _torch_version():
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


HAS_TORCH = (_torch_version() or "").startswith("2.15.")
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason=f"needs torch 2.15; there is {_torch_version() or 'none'}")


class Ended(AssertionError):
    """The process ended otherwise than by the end of the body."""

    def __init__(self, returncode, errors):
        super().__init__(f"the process on the device ended with {returncode}:\n{errors}")
        self.returncode, self.errors = returncode, errors


def run(function, *, grade=None, capacity="80GiB", devices=1, events="immediate", conf="", environment=None):
    """Runs a function of a test module on the device; `grade` installs Millpond first."""
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer")
        job = {"module": function.__module__, "name": function.__qualname__, "grade": grade, "answer": answer}
        command = [_paths.PROGRAM, "sim", "--capacity", capacity, "--devices", str(devices), "--events", events, "--"]
        command += [sys.executable, os.path.abspath(__file__), json.dumps(job)]
        variables = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": conf, "TORCH_CPP_LOG_LEVEL": "ERROR"}
        done = subprocess.run(command, capture_output=True, text=True, env={**variables, **(environment or {})}, cwd=HERE)
        if not os.path.exists(answer):
            raise Ended(done.returncode, done.stderr)
        with open(answer) as file:
            return json.load(file)


def body(function):
    """A body that is called with `run`, and is no test by itself."""
    function.__wrapped__ = function
    return function


def on_device(**how):
    """The body runs on the device; its return value is what is returned."""

    def decorate(body):
        @functools.wraps(body)
        def test():
            found = run(body, **how)
            # pytest wants tests to return nothing.
            return None if body.__name__.startswith("test_") else found

        return needs_torch(test) if "grade" in how else test

    return decorate


def same_as_pytorch(**how):
    """The body runs under PyTorch's own allocator and under Millpond in the full grade, and must return the same."""

    def decorate(body):
        @functools.wraps(body)
        def test():
            own, ours = run(body, **how), run(body, grade="full", **how)
            assert ours == own

        return needs_torch(test)

    return decorate


def raised(function, *arguments, **keywords):
    """The type and the text of what a call raises."""
    try:
        function(*arguments, **keywords)
    except Exception as error:
        return [type(error).__name__, str(error).splitlines()[0]]
    return None


def _main():
    job = json.loads(sys.argv[1])
    code = 0
    try:
        if job["grade"]:
            import millpond.torch

            assert millpond.torch.install(job["grade"]).grade == job["grade"]
        body = importlib.import_module(job["module"])
        for name in job["name"].split("."):
            body = getattr(body, name)
        found = body.__wrapped__()
        with open(job["answer"], "w") as file:
            json.dump(found, file)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # A process that had PyTorch's backward threads may abort in its last moments, with any allocator.
    os._exit(code)


if __name__ == "__main__":
    _main()
