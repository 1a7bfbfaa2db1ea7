"""The package without PyTorch: the allocator of the process, the program, the stubs."""

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from device import on_device

import millpond
from millpond import _allocator, _native, _paths

MIB = 1 << 20
EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_library_is_the_packages_own():
    library = _allocator.library()
    assert Path(library.path) == _paths.LIBRARY
    assert millpond.version() == millpond.__version__ == library.version
    assert library.address("mp_alloc") != 0
    with pytest.raises(AttributeError):
        library.address("mp_no_such_function")


def test_another_file_is_no_library():
    with pytest.raises(ImportError, match="cannot load"):
        _native.Library(str(EXAMPLES / "oom.pickle"))


def test_without_a_driver_the_error_says_so():
    code = "import millpond\ntry: millpond.device_count()\nexcept millpond.MillpondError as e: print(e.status, e)"
    environment = {**os.environ, "MILLPOND_LIBCUDA": "/no/such/libcuda.so.1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    # MP_NO_DRIVER.
    assert done.stdout.startswith("64 ") and "/no/such/libcuda.so.1" in done.stdout, done


@on_device()
def _figures():
    import millpond

    assert millpond.device_count() == 1
    with pytest.raises(millpond.MillpondError) as caught:
        millpond.stats(7)
    # MP_INVALID_ARGUMENT.
    assert caught.value.status == 66 and caught.value.driver_code == 0
    millpond.configure("max_split_size_mb:128")
    with pytest.raises(millpond.MillpondError, match="max_split"):
        millpond.configure("max_split_size:128")
    with pytest.raises(ValueError, match="NUL"):
        millpond.configure("a\0b")
    millpond.set_memory_fraction(0.5)
    millpond.reset_peak_stats()
    millpond.reset_accumulated_stats()
    block = millpond.alloc(3 * MIB)
    assert millpond.record_stream(block, 0) and not millpond.record_stream(block + 512, 0)
    with pytest.raises(millpond.OutOfMemoryError, match="Tried to allocate") as caught:
        millpond.alloc(1 << 50)
    assert caught.value.status == 1
    assert millpond.stats()["requested_bytes.all.current"] == 3 * MIB
    millpond.free(block)
    with pytest.raises(millpond.MillpondError) as caught:
        millpond.free(block)
    # MP_UNKNOWN_ADDRESS.
    assert caught.value.status == 5
    millpond.empty_cache()
    millpond.record_history(0)
    millpond.verify()
    return [millpond.settings()["max_split_size_mb"], millpond.memory_fraction(), millpond.stats()["num_ooms"]]


def test_the_allocator_of_the_process_answers():
    assert _figures() == ["128 MiB", 0.5, 1]


def test_a_snapshot_is_replayed():
    answer = millpond.replay(EXAMPLES / "oom.pickle")
    assert answer["schema"] == 1 and answer["ooms"] == 1
    more = millpond.replay(EXAMPLES / "oom.pickle", capacity="1.1G", conf="expandable_segments:True")
    assert more["ooms"] == 0 and more["peak_allocated"] >= answer["peak_allocated"]


def test_a_snapshot_is_diagnosed():
    found = millpond.doctor(EXAMPLES / "pinned.pickle")
    assert found["schema"] == 1
    (device,) = found["devices"]
    account = device["account"]
    held = account["allocated"] + account["pending"] + sum(cause["bytes"] for cause in account["causes"])
    assert held == account["reserved"]
    assert device["verdict"]["kind"] == "fragmentation"
    assert "Fragmentation ② pinned inside segments" in str(found)
    assert found._repr_html_().startswith("<pre>")


def test_what_the_program_refuses_is_an_error_with_its_text():
    with pytest.raises(millpond.ProgramError, match="no-such-file") as caught:
        millpond.replay("no-such-file")
    assert caught.value.returncode == 2


def test_the_stubs_say_what_is_there():
    stubs = ast.parse((Path(_native.__file__).parent / "_native.pyi").read_text())
    [library] = [node for node in stubs.body if isinstance(node, ast.ClassDef) and node.name == "Library"]
    said = {node.name: node for node in library.body if isinstance(node, ast.FunctionDef) and node.name != "__new__"}
    there = {name for name in vars(_native.Library) if not name.startswith("__")}
    assert set(said) == there
    for name, node in said.items():
        member = vars(_native.Library)[name]
        if callable(member):
            assert [argument.arg for argument in node.args.args] == list(inspect.signature(member).parameters), name


def test_all_names_are_there():
    assert all(hasattr(millpond, name) for name in millpond.__all__)
