"""The plain grade: what works, and what PyTorch refuses in it, with PyTorch's texts."""

from device import on_device, raised

MIB = 1 << 20


@on_device(grade="plain")
def test_it_allocates_frees_and_tells_its_figures():
    import torch

    import millpond

    side = torch.cuda.Stream()
    kept = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(side):
        used = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    used.record_stream(torch.cuda.default_stream())
    del used
    gone = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    del gone
    stats = millpond.stats()
    assert stats["requested_bytes.all.allocated"] == 9 * MIB, stats
    assert stats["allocated_bytes.all.current"] == 5 * MIB, stats
    assert "Allocated memory" in millpond.memory_summary()
    millpond.verify()
    torch.cuda.empty_cache()
    assert millpond.stats()["reserved_bytes.all.current"] == 20 * MIB
    assert kept.numel() == 5 * MIB
    assert torch.cuda.get_allocator_backend() == "pluggable"


@on_device(grade="plain", conf="roundup_power2_divisions:4")
def test_the_settings_of_the_environment_are_millponds():
    import torch

    import millpond

    kept = torch.empty(84 * MIB, dtype=torch.uint8, device="cuda")
    assert millpond.settings()["roundup_power2_divisions"] != "off"
    assert millpond.stats()["active_bytes.all.current"] == 96 * MIB, kept.numel()


@on_device(grade="plain")
def test_a_snapshot_is_dumped_that_can_be_replayed():
    import os
    import tempfile

    import torch

    import millpond

    millpond.record_history()
    kept = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (1, 2, 30)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        millpond.dump_snapshot(path)
        answer = millpond.replay(path)
    assert answer["peak_allocated"] == 33 * MIB and len(kept) == 3, answer


@on_device(grade="plain")
def test_a_fraction_is_taken_and_not_read_back():
    import torch

    import millpond

    torch.cuda.init()
    torch.cuda.set_per_process_memory_fraction(0.25)
    assert millpond.memory_fraction() == 0.25
    assert raised(torch.cuda.get_per_process_memory_fraction) == [
        "RuntimeError",
        "CUDAPluggableAllocator does not yet support getMemoryFraction. If you need it, please file an issue describing your use case.",
    ]


@on_device(grade="plain", capacity="1GiB")
def test_a_failed_request_is_a_null_pointer_to_pytorch():
    import torch

    import millpond

    block = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    assert block.data_ptr() == 0
    assert millpond.stats()["num_ooms"] == 1


@on_device(grade="plain")
def _refused():
    import torch

    torch.cuda.init()
    kept = torch.empty(MIB, dtype=torch.uint8, device="cuda")

    def graph():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.empty(MIB, device="cuda")

    def pool():
        with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
            torch.empty(MIB, device="cuda")

    memory = torch.cuda.memory
    calls = {
        "memory_stats": torch.cuda.memory_stats,
        "memory_allocated": torch.cuda.memory_allocated,
        "reset_peak_memory_stats": torch.cuda.reset_peak_memory_stats,
        "reset_accumulated_memory_stats": torch.cuda.reset_accumulated_memory_stats,
        "memory_snapshot": torch.cuda.memory_snapshot,
        "_snapshot": memory._snapshot,
        "_record_memory_history": memory._record_memory_history,
        "_cuda_attach_out_of_memory_observer": lambda: torch._C._cuda_attach_out_of_memory_observer(lambda *_: None),
        "MemPool": pool,
        "_cuda_getCheckpointState": lambda: torch._C._cuda_getCheckpointState(0, (0, 0)),
        "_share_cuda_": kept.untyped_storage()._share_cuda_,
        # Last, as it leaves a capture behind that has failed.
        "graph": graph,
    }
    return {name: raised(call) for name, call in calls.items()}


def _not_yet(name, allocator="CUDAPluggableAllocator"):
    text = f"{allocator} does not yet support {name}. If you need it, please file an issue describing your use case."
    return ["RuntimeError", text]


REFUSED = {
    "memory_stats": _not_yet("getDeviceStats"),
    "memory_allocated": _not_yet("getDeviceStats"),
    "reset_peak_memory_stats": _not_yet("resetPeakStats"),
    "reset_accumulated_memory_stats": _not_yet("resetAccumulatedStats"),
    "memory_snapshot": _not_yet("snapshot"),
    "_snapshot": _not_yet("snapshot"),
    "_record_memory_history": _not_yet("recordHistory"),
    "_cuda_attach_out_of_memory_observer": _not_yet("attachOutOfMemoryObserver"),
    "MemPool": _not_yet("createOrIncrefPool", "pluggable"),
    "_cuda_getCheckpointState": _not_yet("getCheckpointState"),
    "_share_cuda_": _not_yet("shareIPcHandle"),
    # The capture begins, but PyTorch tells the plug nothing of its pool, and there is no memory for it.
    "graph": ["AcceleratorError", "CUDA error: operation failed due to a previous error during capture"],
}


def test_what_pytorch_refuses_has_pytorchs_text():
    assert _refused() == REFUSED
