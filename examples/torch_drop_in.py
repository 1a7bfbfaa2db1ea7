"""PyTorch on Millpond: what a program does with CUDA memory, and the same under PyTorch's own allocator beside it.

    millpond sim -- python examples/torch_drop_in.py        on a simulated device
    python examples/torch_drop_in.py                        on a real one

It allocates, frees, uses side streams, captures a graph, uses a MemPool, takes and restores a checkpoint, runs out of memory, prints
`memory_summary()` and dumps a snapshot for `millpond replay`. In the full grade a second process does the same with PyTorch's own
allocator, and a table compares every figure; the exit status is 1 if one differs. `--grade plain` does what that grade can.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

MIB = 1 << 20


def blocks_and_streams(torch):
    """Allocates and frees, on several streams, and tells the allocator of blocks that two streams use."""
    sides = [torch.cuda.Stream() for _ in range(3)]
    kept = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (1, 3, 8, 25)]
    for index, side in enumerate(sides):
        with torch.cuda.stream(side):
            work = torch.zeros((index + 2) * MIB, device="cuda") + 1
        work.record_stream(torch.cuda.default_stream())
        del work
    del kept[1]
    torch.cuda.synchronize()
    kept.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))
    return kept


def graph_and_checkpoint(torch):
    """Captures a graph, saves the state of its pool, captures another into it, and goes back."""
    graph, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = torch.zeros(MIB, device="cuda") + 1
    saved = torch._C._cuda_getCheckpointState(0, graph.pool())
    with torch.cuda.graph(second, pool=graph.pool()):
        more = result * 2
    graph.replay()
    grown = torch.cuda.memory_allocated()
    # Both tensors lose their memory, and a new storage owns what of it the saved state knows.
    stale = [tensor.untyped_storage()._cdata for tensor in (result, more)]
    size = result.untyped_storage().nbytes()
    again = torch._C._construct_storage_from_data_pointer(result.data_ptr(), result.device, size)
    torch._C._cuda_setCheckpointPoolState(0, saved, stale, [again._cdata])
    return (graph, second, result, more, again), grown - torch.cuda.memory_allocated()


def memory_pool(torch):
    """Memory of its own for a part of the program."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    return pool, inside


def out_of_memory(torch):
    """Asks for more than there is."""
    observed = []
    torch._C._cuda_attach_out_of_memory_observer(lambda device, asked, *_: observed.append(asked))
    try:
        torch.empty(2 * torch.cuda.mem_get_info()[1], dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        return str(error), observed
    raise SystemExit("twice the device's memory was there")


def full_program(snapshot):
    """All of it; answers the figures that are compared."""
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history()
    kept = blocks_and_streams(torch)
    graphs, gone = graph_and_checkpoint(torch)
    pool = memory_pool(torch)
    text, observed = out_of_memory(torch)
    torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
    kept.append(torch.empty(84 * MIB, dtype=torch.uint8, device="cuda"))
    stats = dict(torch.cuda.memory_stats())
    summary = torch.cuda.memory_summary()
    state = torch.cuda.memory._snapshot()
    # After the state was taken: a snapshot is itself an entry of the trace.
    if snapshot:
        print(summary)
        torch.cuda.memory._dump_snapshot(snapshot)
    trace = state["device_traces"][0]
    figures = {f"memory_stats: {name}": value for name, value in stats.items()}
    figures["memory_summary, every character"] = summary
    figures["text of the out-of-memory error"] = text
    figures["what its observer saw"] = observed
    figures["bytes that the checkpoint took back"] = gone
    figures["segments, their pools and their blocks"] = [
        [segment["total_size"], segment["segment_pool_id"], [[block["size"], block["state"]] for block in segment["blocks"]]]
        for segment in state["segments"]
    ]
    figures["trace: actions, sizes and pools"] = [[entry["action"], entry["size"], entry["pool_id"]] for entry in trace]
    # The frames in C++ have the allocator's own functions among them, which differ.
    figures["trace: Python's functions in the stacks"] = [
        [frame["name"] for frame in entry.get("frames", []) if frame["filename"].endswith(".py")] for entry in trace
    ]
    del graphs, pool
    return figures


def plain_program(snapshot):
    """What the plain grade can."""
    import torch

    import millpond

    torch.cuda.init()
    millpond.record_history()
    kept = blocks_and_streams(torch)
    print(millpond.memory_summary())
    millpond.verify()
    millpond.dump_snapshot(snapshot)
    try:
        torch.cuda.memory_stats()
    except RuntimeError as error:
        print(f"As PyTorch says in this grade: {error}")
    del kept


def own_figures():
    """The same under PyTorch's own allocator, in a second process."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        subprocess.run([sys.executable, os.path.abspath(__file__), "--own", path], check=True)
        with open(path) as file:
            return json.load(file)


def compared(own, ours):
    """Prints the table; whether all is the same."""

    def shown(value):
        return f"{value:,}" if isinstance(value, int) else f"{len(value)} characters" if isinstance(value, str) else f"{len(value)} entries"

    names = list(own) + [name for name in ours if name not in own]
    width = max(map(len, names))
    print(f"{'figure':<{width}} {'PyTorch':>17} {'Millpond':>17}")
    different = 0
    for name in names:
        a, b = own.get(name, ""), ours.get(name, "")
        different += a != b
        print(f"{name:<{width}} {shown(a):>17} {shown(b):>17}{'' if a == b else '   DIFFERENT'}")
    print(f"{len(names) - different} of {len(names)} figures are the same")
    return different == 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--grade", choices=("auto", "full", "plain"), default="auto")
    arguments.add_argument("--snapshot", default="torch_drop_in.pickle", help="where the snapshot goes")
    arguments.add_argument("--own", help=argparse.SUPPRESS)
    options = arguments.parse_args()

    if options.own:
        with open(options.own, "w") as file:
            json.dump(full_program(None), file)
        return 0
    import millpond.torch

    report = millpond.torch.install(options.grade)
    print(report, end="\n\n")
    same = True
    if report.grade == "full":
        # Through JSON, as the other's come.
        ours = json.loads(json.dumps(full_program(options.snapshot)))
        same = compared(own_figures(), ours)
    else:
        plain_program(options.snapshot)
    print(f"\nThe snapshot: millpond replay {options.snapshot}")
    return 0 if same else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # PyTorch's threads may be at work still, and its graphs must not outlive the device.
    os._exit(status)
