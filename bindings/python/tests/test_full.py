"""The full grade: the same program under PyTorch's own allocator and under Millpond, and every figure the same."""

import os
import subprocess

import pytest
from device import HERE, Ended, body, needs_torch, on_device, raised, run, same_as_pytorch

MIB = 1 << 20


def figures():
    """The statistics and the trace so far, as plain values."""
    import torch

    def plain(entry):
        keep = ("action", "addr", "size", "stream", "pool_id", "device_free", "user_metadata", "compile_context")
        return {key: entry[key] for key in keep if key in entry}

    snapshot = torch.cuda.memory._snapshot()
    for segment in snapshot["segments"]:
        segment.pop("frames", None)
        for block in segment["blocks"]:
            block.pop("frames", None)
            # What an inactive block was asked for is stale.
            if block["state"] == "inactive":
                block.pop("requested_size")
    return {
        "stats": dict(torch.cuda.memory_stats()),
        "summary": torch.cuda.memory_summary(),
        "trace": [plain(entry) for entry in snapshot["device_traces"][0]],
        "segments": snapshot["segments"],
        "settings": snapshot["allocator_settings"],
    }


@same_as_pytorch(conf="roundup_power2_divisions:8")
def test_side_streams_and_events():
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    sides = [torch.cuda.Stream() for _ in range(3)]
    kept = []
    for size in (1, 5, 11, 30):
        for side in sides:
            with torch.cuda.stream(side):
                block = torch.empty(size * MIB + 1, dtype=torch.uint8, device="cuda")
            block.record_stream(torch.cuda.default_stream())
            for other in sides:
                block.record_stream(other)
            if size != 5:
                kept.append(block)
            del block
    del kept[::2]
    torch.cuda.synchronize()
    kept.append(torch.empty(MIB, dtype=torch.uint8, device="cuda"))
    return figures()


@same_as_pytorch(events="manual")
def test_blocks_become_free_in_pytorchs_order():
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    sides = [torch.cuda.Stream() for _ in range(9)] + [torch.cuda.Stream(priority=-1) for _ in range(3)]
    blocks = [torch.empty(MIB, dtype=torch.uint8, device="cuda") for _ in sides]
    for block, side in zip(blocks, sides):
        block.record_stream(side)
    blocks.clear()
    del block
    torch.cuda.synchronize()
    torch.empty(MIB, device="cuda")
    return figures()


@same_as_pytorch(conf="expandable_segments:True", capacity="1GiB")
def test_expandable_segments_and_out_of_memory():
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    observed, found = [], {}
    torch._C._cuda_attach_out_of_memory_observer(lambda *what: observed.append(what))
    kept = [torch.empty(100 * MIB, dtype=torch.uint8, device="cuda") for _ in range(9)]
    del kept[3:5]
    kept.append(torch.empty(150 * MIB, dtype=torch.uint8, device="cuda"))
    found["error"] = raised(torch.empty, 900 * MIB, dtype=torch.uint8, device="cuda")
    found["observed"] = observed
    torch.cuda.empty_cache()
    return {**found, **figures()}


@same_as_pytorch()
def test_a_graph_its_pool_and_its_checkpoint():
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    static = torch.zeros(MIB, device="cuda")
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        middle = static + 1
        result = middle * 2
        del middle
    saved = torch._C._cuda_getCheckpointState(0, first.pool())
    with torch.cuda.graph(second, pool=first.pool()):
        other = result + 3
    first.replay()
    second.replay()
    before = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    # Both tensors lose their memory, and a new storage owns what of it the saved state knows.
    stale = [tensor.untyped_storage()._cdata for tensor in (result, other)]
    size = result.untyped_storage().nbytes()
    again = torch._C._construct_storage_from_data_pointer(result.data_ptr(), result.device, size)
    torch._C._cuda_setCheckpointPoolState(0, saved, stale, [again._cdata])
    after = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    live = sorted(
        block["address"]
        for segment in torch.cuda.memory_snapshot()
        if segment["segment_pool_id"] == first.pool()
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    )
    found = {"before": before, "after": after, "live": live, "result": result.data_ptr(), "other": other.data_ptr()}
    assert result.data_ptr() in live
    return {**found, **figures()}


@same_as_pytorch(capacity="1GiB")
def test_memory_pools():
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    pool = torch.cuda.MemPool()
    lender = torch.cuda.MemPool(use_on_oom=True)
    whole = torch.cuda.MemPool(no_split=True)
    kept, found = [], {}
    for each in (pool, lender, whole):
        with torch.cuda.use_mem_pool(each):
            kept.append(torch.empty(30 * MIB, dtype=torch.uint8, device="cuda"))
            gone = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
            del gone
    found["use counts"] = [each.use_count() for each in (pool, lender, whole)]
    found["snapshots"] = [len(each.snapshot()) for each in (pool, lender, whole)]
    # The lender's cached block serves what finds none elsewhere.
    kept.append(torch.empty(290 * MIB, dtype=torch.uint8, device="cuda"))
    found["error"] = raised(torch.empty, 900 * MIB, dtype=torch.uint8, device="cuda")
    kept.clear()
    del pool, lender, whole
    torch.cuda.empty_cache()
    return {**found, **figures()}


FOREIGN = """
#include <stddef.h>
int cudaMalloc(void **block, size_t size);
int cudaFree(void *block);
void *foreign_alloc(size_t size, int device, void *stream) {
    void *block = NULL;
    return cudaMalloc(&block, size) ? NULL : block;
}
void foreign_free(void *block, size_t size, int device, void *stream) { cudaFree(block); }
"""


@body
def _foreign():
    import os
    import subprocess
    import tempfile

    import torch

    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "foreign.so")
        plain = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
        compiled = ["g++", "-x", "c", "-shared", "-fPIC", "-", "-o", library]
        subprocess.run(compiled, input=FOREIGN, text=True, check=True, env=plain)
        foreign = torch.cuda.memory.CUDAPluggableAllocator(library, "foreign_alloc", "foreign_free")
    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    pool = torch.cuda.MemPool(foreign.allocator())
    with torch.cuda.use_mem_pool(pool):
        kept = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
        error = raised(torch.empty, 1100 * MIB, dtype=torch.uint8, device="cuda")
    [segment] = pool.snapshot()
    assert segment["address"] == kept.data_ptr()
    found = {"error": error, "segment": segment["total_size"], **figures()}
    del kept, pool
    return found


@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
@needs_torch
def test_a_pool_of_a_foreign_allocator(conf):
    own, ours = [run(_foreign, grade=grade, capacity="1GiB", conf=conf) for grade in (None, "full")]
    assert ours == own
    assert "The custom allocator backing this MemPool returned nullptr" in own["error"][1]


@body
def _pages_go_back_in_pieces():
    import torch

    def block(size):
        return torch.empty(size * MIB, dtype=torch.uint8, device="cuda")

    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        whole = block(100)
        del whole
        pages = [block(20) for _ in range(5)]
    del pages[4], pages[2], pages[0]
    del pool
    held = torch.cuda.memory_reserved() // MIB
    pages.clear()
    torch.cuda.empty_cache()
    return [held, torch.cuda.memory_reserved()]


@needs_torch
def test_r4_21_a_pool_whose_pages_go_back_in_pieces_ends_pytorch_and_not_millpond():
    """PyTorch counts one for five pages that come together, and takes away one for each of three ranges that go."""
    how = {"capacity": "1GiB", "conf": "expandable_segments:True"}
    with pytest.raises(Ended, match="cudaMalloc_count > 0 INTERNAL ASSERT FAILED"):
        run(_pages_go_back_in_pieces, **how)
    assert run(_pages_go_back_in_pieces, grade="full", **how) == [40, 0]


@on_device(grade="full", capacity="1GiB", conf="expandable_segments:True")
def test_r4_21_a_pool_outlives_the_page_that_came_with_its_live_block():
    """PyTorch counts one for two pages and takes it away with the second: its pool goes, and the block is freed into nothing."""
    import torch

    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        whole = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
        del whole
        kept = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    del pool
    assert torch.cuda.memory_reserved() == 20 * MIB
    del kept
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


@on_device(grade="full", capacity="1GiB")
def test_a_pool_whose_allocator_is_millpond_itself_is_refused():
    import torch

    from millpond import _paths

    plug = torch.cuda.memory.CUDAPluggableAllocator(_paths.LIBRARY, "mp_torch_alloc", "mp_torch_free")
    pool = torch.cuda.MemPool(plug.allocator())
    with torch.cuda.use_mem_pool(pool):
        for size in (1, 30 * MIB):
            kind, text = raised(torch.empty, size, dtype=torch.uint8, device="cuda")
            assert kind == "RuntimeError" and "asks for memory of the pool that it serves" in text, text
    kept = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["allocation.all.current"] == 1, kept
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    del pool


@same_as_pytorch()
def test_history_and_metadata():
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    torch.cuda.memory._set_memory_metadata("step 1")
    kept = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    found = {"metadata": torch.cuda.memory._get_memory_metadata()}
    torch.cuda.memory._set_memory_metadata("")
    del kept
    found["enabled"] = torch._C._cuda_isHistoryEnabled()
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    found["frames"] = [[frame["name"] for frame in entry["frames"][:1]] for entry in entries]
    return {**found, **figures()}


@same_as_pytorch()
def test_annotations():
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history(global_record_annotations=True)
    with torch.profiler.record_function("step"):
        kept = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.memory._annotate_tensor(kept, "weights")
    found = {"unknown": raised(torch._C._cuda_annotateMemory, 0x1234, "nothing")}
    annotations = torch.cuda.memory._snapshot()["external_annotations"]
    found["annotations"] = [{key: value for key, value in entry.items() if key != "time_us"} for entry in annotations]
    found["allocated by"] = [frame["name"] for frame in torch._C._cuda_allocationTraceback(kept.data_ptr())][:1]
    assert [entry["name"] for entry in found["annotations"]] == ["step", "step"] and found["allocated by"]
    return {**found, **figures()}


@body
def _attached():
    import ctypes
    import os

    import torch

    attached = ctypes.CDLL(os.environ["ATTACHED"])
    attached.tracked.restype, attached.hold.argtypes = ctypes.c_char_p, [ctypes.c_size_t]
    torch.cuda.init()
    attached.track()
    torch.cuda.memory._record_memory_history()
    torch.cuda.memory._set_memory_metadata("step 1")
    kept = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    attached.hold(800 * MIB)
    # There is room for this once the callback has let go.
    more = torch.empty(700 * MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.memory._annotate_tensor(more, "more")
    error = raised(torch.empty, 700 * MIB, dtype=torch.uint8, device="cuda")
    del kept, more
    torch.cuda.empty_cache()
    return {"tracked": attached.tracked().decode(), "error": error, **figures()}


@needs_torch
def test_trackers_and_callbacks_of_cpp_programs(tmp_path):
    import torch

    from millpond.torch import _compile

    source, library = os.path.join(HERE, "attached.cpp"), str(tmp_path / "attached.so")
    flags = [*_compile._FLAGS, *_compile._includes(torch), source, *_compile._libraries(torch)]
    compiled = subprocess.run(["g++", *flags, "-o", library], capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    how = {"capacity": "1GiB", "environment": {"ATTACHED": library}}
    own, ours = run(_attached, **how), run(_attached, grade="full", **how)
    assert ours == own
    assert own["tracked"].count("\n") > 10 and "step 1" in own["tracked"] and own["error"][0] == "OutOfMemoryError"


@same_as_pytorch()
def test_limits_caches_and_the_accelerator_interface():
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    torch.cuda.set_per_process_memory_fraction(0.01)
    found = {"fraction": torch.cuda.get_per_process_memory_fraction()}
    found["error"] = raised(torch.empty, 1 << 30, dtype=torch.uint8, device="cuda")
    found["stats"] = dict(torch.accelerator.memory_stats())
    found["segments for"] = torch.cuda.memory.list_gpu_processes() is not None
    kept = torch.empty(7 * MIB, dtype=torch.uint8, device="cuda")
    torch.accelerator.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    raw = torch.cuda.caching_allocator_alloc(5 * MIB)
    torch.cuda.caching_allocator_delete(raw)
    found["unknown"] = raised(torch.cuda.caching_allocator_delete, 0x1234)
    assert kept.numel() == 7 * MIB
    return {**found, **figures()}


@same_as_pytorch(devices=2)
def test_two_devices():
    import torch

    kept = [torch.empty((3 + index) * MIB, dtype=torch.uint8, device=f"cuda:{index}") for index in (0, 1)]
    moved = kept[0].to("cuda:1")
    # Freed while another device is current.
    with torch.cuda.device(1):
        kept.pop(0)
    return [dict(torch.cuda.memory_stats(index)) for index in (0, 1)] + [moved.numel()]


@same_as_pytorch()
def test_a_backward_pass_on_its_own_thread():
    import torch

    weights = torch.randn(1000, 1000, device="cuda", requires_grad=True)
    for _ in range(3):
        loss = (weights.tanh() * weights.sigmoid()).sum()
        loss.backward()
    pinned = torch.empty(MIB, pin_memory=True)
    return [dict(torch.cuda.memory_stats()), pinned.is_pinned()]
