"""PyTorch's own allocator and Millpond in the full grade, on the same program: every figure, side by side.

    millpond sim -- python compare.py FOLDER        with the libraries that build.sh put into FOLDER
"""

import ctypes
import os
import pickle
import subprocess
import sys
import tempfile


def program(folder):
    import torch

    if folder:
        ctypes.CDLL(os.path.join(folder, "libmillpond_torch.so")).millpond_torch_install()
    assert torch.cuda.get_allocator_backend() == ("millpond" if folder else "native")
    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    observed, found = [], {}
    torch._C._cuda_attach_out_of_memory_observer(lambda *figures: observed.append(figures))

    side = torch.cuda.Stream()
    kept = [torch.empty(5 << 20, device="cuda")]
    with torch.cuda.stream(side):
        used = torch.empty(3 << 20, device="cuda")
    used.record_stream(torch.cuda.default_stream())
    del used
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = torch.zeros(1 << 20, device="cuda") + 1
    graph.replay()
    torch._C._cuda_getCheckpointState(0, graph.pool())
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept.append(torch.empty(1 << 20, device="cuda"))
    try:
        torch.empty(100 << 30, device="cuda")
    except torch.OutOfMemoryError as error:
        found["text of the out-of-memory error"] = str(error)
    found["what the observer saw"] = observed
    torch._C._accelerator_setAllocatorSettings("roundup_power2_divisions:4")
    kept.append(torch.empty(84 << 20, dtype=torch.uint8, device="cuda"))
    del inside
    torch.cuda.empty_cache()
    found["memory_stats"] = dict(torch.cuda.memory_stats())
    found["memory_summary"] = torch.cuda.memory_summary()
    snapshot = torch.cuda.memory._snapshot()
    entries = snapshot["device_traces"][0]
    found["trace"] = [(e["action"], e.get("addr"), e["size"], e["stream"], e["pool_id"]) for e in entries]
    found["stacks are there"] = all(entry["frames"] for entry in entries if entry["action"] == "alloc")
    for segment in snapshot["segments"]:
        segment.pop("frames", None)
        for block in segment["blocks"]:
            block.pop("frames", None)
            # What an inactive block was asked for is stale.
            if block["state"] == "inactive":
                block.pop("requested_size")
    found["segments"] = snapshot["segments"]
    found["settings"] = snapshot["allocator_settings"]
    return found


def run(folder, results):
    path = os.path.join(results, "found")
    subprocess.run([sys.executable, __file__, "--one", folder, path], check=True)
    with open(path, "rb") as file:
        return pickle.load(file)


def main():
    if sys.argv[1] == "--one":
        with open(sys.argv[3], "wb") as file:
            pickle.dump(program(sys.argv[2]), file)
        # PyTorch's threads may be at work still.
        sys.stdout.flush()
        os._exit(0)
    with tempfile.TemporaryDirectory() as results:
        own, ours = run("", results), run(sys.argv[1], results)
    for what in own:
        print(f"{what:<34} {'the same' if own[what] == ours[what] else 'DIFFERENT'}")
    sys.exit(own != ours)


if __name__ == "__main__":
    main()
