"""`install`: when it refuses, what it says, and that PyTorch is then as it was."""

import os
import tempfile

import pytest
from device import body, needs_torch, on_device, run


@on_device(grade="full")
def test_the_report_says_the_grade_and_what_stays():
    import millpond.torch

    report = millpond.torch.installed()
    text = str(report)
    assert report.grade == "full" and "full grade: torch is 2.15" in text, text
    assert "pinned host memory" in text and "cudaMallocAsync" in text, text
    assert millpond.torch.install() is report, "a second call is told the same"


@on_device(grade="plain")
def test_a_grade_stays():
    import millpond.torch

    assert millpond.torch.install().grade == "plain"
    with pytest.raises(millpond.torch.InstallError, match="in the plain grade already"):
        millpond.torch.install("full")


@body
def _late():
    import torch

    import millpond.torch

    kept = torch.empty(1, device="cuda")
    with pytest.raises(millpond.torch.InstallError, match="CUDA is initialised already"):
        millpond.torch.install()
    return [torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated(), kept.numel()]


@needs_torch
def test_after_cuda_was_initialised_it_refuses():
    assert run(_late) == ["native", 512, 1]


@body
def _other_version():
    import torch

    import millpond.torch

    torch.__version__ = "2.16.0+cu140"
    with pytest.raises(millpond.torch.InstallError, match="is written for torch 2.15, and this is 2.16.0"):
        millpond.torch.install("full")
    before = torch.cuda.get_allocator_backend()
    report = millpond.torch.install()
    torch.empty(1, device="cuda")
    return [before, report.grade, report.why]


@needs_torch
def test_another_torch_gets_the_plain_grade():
    before, grade, why = run(_other_version)
    assert (before, grade) == ("native", "plain")
    assert why == "the full one cannot be had, as the full grade is written for torch 2.15, and this is 2.16.0+cu140"


@body
def _why():
    import millpond.torch

    report = millpond.torch.install()
    return [report.grade, report.why]


@needs_torch
def test_without_a_compiler_it_is_the_plain_grade():
    with tempfile.TemporaryDirectory() as empty:
        grade, why = run(_why, environment={"CXX": "no-such-compiler", "MILLPOND_CACHE": empty})
    assert grade == "plain" and "there is no C++ compiler (no-such-compiler" in why


@needs_torch
def test_it_is_compiled_once():
    with tempfile.TemporaryDirectory() as cache:
        first = run(_why, environment={"MILLPOND_CACHE": cache})
        assert first[0] == "full" and "the shim was compiled in" in first[1], first
        again = run(_why, environment={"MILLPOND_CACHE": cache})
        assert again[0] == "full" and "was compiled before" in again[1], again
        assert len(os.listdir(cache)) == 1


@needs_torch
def test_a_cache_that_cannot_be_written_is_a_reason():
    grade, why = run(_why, environment={"MILLPOND_CACHE": "/proc/no/such"})
    assert grade == "plain" and "MILLPOND_CACHE names another" in why


@body
def _async():
    import millpond.torch

    with pytest.raises(millpond.torch.InstallError, match="backend:cudaMallocAsync"):
        millpond.torch.install()


@needs_torch
def test_the_backend_cuda_malloc_async_is_left_alone():
    run(_async, conf="backend:cudaMallocAsync")


@needs_torch
def test_an_unknown_grade_is_refused():
    import millpond.torch

    with pytest.raises(millpond.torch.InstallError, match="'full', 'plain' and 'auto'"):
        millpond.torch.install("best")
