"""What PyTorch's own tests document of its allocator (the law, section 13), in the full grade."""

from device import Ended, body, needs_torch, on_device, run

import pytest

MIB = 1 << 20


def thealloc(torch, *shape):
    return torch.empty(*shape, device="cuda")


def thefree(held):
    held.clear()


def frames_of(entry):
    return {frame["name"] for frame in entry.get("frames", [])}


@pytest.mark.parametrize("conf, last", [("", "segment_free"), ("expandable_segments:True", "segment_unmap")])
@needs_torch
def test_e1_the_last_entry_is_the_segment_that_went_back(conf, last):
    assert run(_e1, grade="full", conf=conf) == last


@body
def _e1():
    import torch

    torch.cuda.memory._record_memory_history("all")
    block = torch.empty(311, 411, device="cuda")
    del block
    torch.cuda.empty_cache()
    return torch.cuda.memory._snapshot()["device_traces"][0][-1]["action"]


@pytest.mark.parametrize("context, traced", [("all", [True, True]), ("alloc", [True, False]), ("state", [False, False])])
@needs_torch
def test_e2_stacks_are_in_the_trace_as_far_as_was_asked(context, traced):
    found = run(_e2, grade="full", environment={"CONTEXT": context})
    assert [found["alloc"], found["free"]] == traced
    assert found["live block"], "the state has them in every case"


@body
def _e2():
    import os

    import torch

    torch.cuda.memory._record_memory_history(context=os.environ["CONTEXT"])
    held = [thealloc(torch, 311, 411)]
    kept = thealloc(torch, 7)
    thefree(held)
    snapshot = torch.cuda.memory._snapshot()
    trace = snapshot["device_traces"][0]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    found = {
        "alloc": any("thealloc" in frames_of(entry) for entry in trace if entry["action"] == "alloc"),
        "free": any("thefree" in frames_of(entry) for entry in trace if entry["action"].startswith("free")),
        "live block": any("thealloc" in frames_of(block) for block in blocks if block["address"] == kept.data_ptr()),
    }
    return found


@on_device(grade="full")
def test_e3_the_snapshot_that_cpp_pickles_ends_with_the_last_request():
    import ctypes
    import os
    import pickle

    import torch

    torch.cuda.memory._record_memory_history(stacks="all", context="all")
    kept = torch.rand(311, 411, device="cuda")
    # std::string torch::cuda::_memory_snapshot_pickled(), whose value goes where the first argument says.
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so"))
    value = (ctypes.c_size_t * 4)()
    library["_ZN5torch4cuda24_memory_snapshot_pickledB5cxx11Ev"](ctypes.byref(value))
    snapshot = pickle.loads(ctypes.string_at(value[0], value[1]))
    last = snapshot["device_traces"][0][-1]
    assert (last["action"], last["size"]) == ("alloc", 311 * 411 * 4), last
    assert last["addr"] == kept.data_ptr()


@on_device(grade="full")
def test_e4_memory_that_is_not_cached_is_not_counted():
    import torch

    def grown_by(caching):
        torch.cuda.caching_allocator_enable(caching)
        before = torch.cuda.memory_stats()["requested_bytes.all.allocated"]
        block = torch.cuda.caching_allocator_alloc(MIB)
        torch.cuda.caching_allocator_delete(block)
        return torch.cuda.memory_stats()["requested_bytes.all.allocated"] - before

    torch.cuda.init()
    assert grown_by(False) == 0
    assert grown_by(True) == MIB


@on_device(grade="full")
def test_e5_rounding_is_turned_on_and_off_again():
    import torch

    torch.cuda.init()

    def grown_by(settings):
        torch.cuda.memory._set_allocator_settings(settings)
        before = torch.cuda.memory_stats()
        kept.append(torch.empty(84 * MIB, dtype=torch.uint8, device="cuda"))
        after = torch.cuda.memory_stats()
        return [after[key] - before[key] for key in ("active_bytes.all.current", "requested_bytes.all.current")]

    kept = []
    torch.empty(1, device="cuda")
    assert grown_by("roundup_power2_divisions:4") == [96 * MIB, 84 * MIB]
    assert grown_by("expandable_segments:False") == [84 * MIB, 84 * MIB]


@pytest.mark.parametrize("fraction", ["0.0", "0.5", "1.0"])
@needs_torch
def test_e6_a_fraction_of_the_environment_is_reported_back(fraction):
    assert run(_e6, grade="full", conf=f"per_process_memory_fraction:{fraction}") == float(fraction)


@pytest.mark.parametrize("fraction", ["-0.1", "1.1"])
@needs_torch
def test_e6_a_fraction_that_is_none_is_refused(fraction):
    with pytest.raises(Ended, match="per_process_memory_fraction is invalid, set it in \\[0.0, 1.0\\]"):
        run(_e6, grade="full", conf=f"per_process_memory_fraction:{fraction}")


@body
def _e6():
    import torch

    torch.empty(0, device="cuda")
    return torch.cuda.get_per_process_memory_fraction(0)


@on_device(grade="full")
def test_e7_segments_of_both_kinds_count_against_the_limit():
    import torch

    def block(size, expandable):
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{expandable}")
        return torch.empty(size, dtype=torch.uint8, device="cuda")

    torch.cuda.init()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 120 * MIB) / total)
    held = [block(40 * MIB, expandable) for expandable in (False, True, False)]
    try:
        block(40 * MIB, False)
        raise AssertionError("a fourth one fits")
    except torch.OutOfMemoryError:
        pass
    held.clear()
    block(120 * MIB, False)


@on_device(grade="full")
def test_e8_what_is_beyond_the_limit_is_rejected():
    import torch

    torch.cuda.init()
    # At run time, when the limit of the allocator itself does not move (R2.39).
    torch.cuda.memory._set_allocator_settings("per_process_memory_fraction:0.005,throw_on_cudamalloc_oom:True")
    size = int(torch.cuda.mem_get_info()[1] * 0.005) + MIB
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
        raise AssertionError("it fits")
    except torch.OutOfMemoryError as error:
        assert "preemptively rejected" in str(error), error
    stats = torch.cuda.memory_stats()
    assert stats["num_oom_rejections"] > 0 and stats["num_ooms"] == 0, stats
