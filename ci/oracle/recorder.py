"""Runs request scripts on PyTorch's own allocator over the simulated device, and writes what it decided in the golden form.

Started by `millpond sim`. Jobs come as lines of JSON, {"name", "folder", "machine", "ops"}; each is run in a child process of
its own, since an allocator has no way back to its first state, and answered with a line: an empty one, or what went wrong.
"""

import ctypes
import json
import os
import random
import sys
import traceback
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402

VA_BASE = 0x200000000000
ALL = 1 << 62
CALLS = {
    "cuMemAlloc": "malloc",
    "cuMemFree": "free",
    "cuMemAddressReserve": "reserve",
    "cuMemAddressFree": "addrfree",
    "cuMemCreate": "create",
    "cuMemRelease": "release",
    "cuMemMap": "map",
    "cuMemUnmap": "unmap",
}


def line(value):
    return json.dumps(value, separators=(",", ":"))


class Program:
    """The program that makes the requests: one thread, as `docs/workload-format.md` says."""

    def __init__(self):
        self.sim = ctypes.CDLL("libcuda.so.1")
        self.sim.mpSimAdvance.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
        self.now = ctypes.c_uint64()
        torch.cuda.init()
        torch.cuda.memory._record_memory_history(context=None)
        self.streams = [torch.cuda.default_stream()]
        self.tensors, self.pools, self.scopes, self.graphs, self.events = {}, {}, {}, {}, []
        self.capturing = []
        self.lines = []

    def run(self, ops):
        # Handles keep the order of creation, so all streams are made first.
        top = max((op.get(key, 0) for op in ops for key in ("stream", "a", "b")), default=0)
        self.streams += [torch.cuda.Stream() for _ in range(top)]
        for self.request, op in enumerate(ops):
            torch.cuda.memory._set_memory_metadata(str(self.request))
            # A mark in the log of driver calls: those behind it belong to this request.
            self.sim.mpSimNow(ctypes.byref(self.now))
            getattr(self, op["op"])(**{key: value for key, value in op.items() if key != "op"})
        self.sim.mpSimNow(ctypes.byref(self.now))
        self.lines.append(line({"i": len(ops), "final_stats": self.stats()}))

    def stats(self):
        return {key: value for key, value in torch.cuda.memory_stats().items() if value}

    def alloc(self, id, size, stream=0, pool=None):
        outcome = {"i": self.request, "id": id}
        if pool is not None:
            scope = torch.cuda.use_mem_pool(self.pools[pool])
            scope.__enter__()
        try:
            with torch.cuda.stream(self.streams[stream]):
                tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
            self.tensors[id] = tensor
            outcome["va"] = tensor.data_ptr()
        except torch.OutOfMemoryError as error:
            outcome["oom"] = str(error)
        except RuntimeError as error:
            if "INTERNAL ASSERT FAILED" in str(error):
                # An assertion of its own: what it does from here on is not meant.
                raise
            outcome["error"] = f"RuntimeError: {error}".splitlines()[0]
        finally:
            if pool is not None:
                scope.__exit__(None, None, None)
        self.lines.append(outcome)

    def free(self, id):
        self.tensors.pop(id, None)

    def record_stream(self, id, stream):
        if id in self.tensors:
            self.tensors[id].record_stream(self.streams[stream])

    def work(self, id, stream=0):
        if id in self.tensors:
            with torch.cuda.stream(self.streams[stream]):
                self.tensors[id].fill_(1)

    def advance(self, n=1):
        self.sim.mpSimAdvance(n, None)

    def sync(self):
        self.sim.mpSimAdvance(ALL, None)

    def stream_sync(self, stream=0):
        self.streams[stream].synchronize()

    def fork_join(self, a, b):
        event = torch.cuda.Event()
        self.events.append(event)
        event.record(self.streams[a])
        event.wait(self.streams[b])

    def empty_cache(self):
        torch.cuda.empty_cache()

    def checkpoint(self):
        self.lines.append(line({"i": self.request, "stats": self.stats()}))

    def pool_create(self, pool, use_on_oom=False, no_split=False):
        self.pools[pool] = torch.cuda.MemPool(use_on_oom=use_on_oom, no_split=no_split)

    def pool_destroy(self, pool):
        del self.pools[pool]

    def pool_enter(self, pool):
        self.scopes[pool] = torch.cuda.use_mem_pool(self.pools[pool])
        self.scopes[pool].__enter__()

    def pool_leave(self, pool):
        self.scopes.pop(pool).__exit__(None, None, None)

    def set_fraction(self, fraction):
        torch.cuda.set_per_process_memory_fraction(fraction)

    def set_conf(self, conf):
        torch.cuda.memory._set_allocator_settings(conf)

    def capture_begin(self, graph, stream, share=None):
        self.graphs[graph] = torch.cuda.CUDAGraph()
        scope = torch.cuda.stream(self.streams[stream])
        scope.__enter__()
        pool = () if share in (None, graph) else (self.graphs[share].pool(),)
        self.graphs[graph].capture_begin(*pool, capture_error_mode="relaxed")
        self.capturing.append(scope)

    def capture_end(self, graph):
        self.graphs[graph].capture_end()
        self.capturing.pop().__exit__(None, None, None)

    def replay(self, graph):
        self.graphs[graph].replay()

    def graph_reset(self, graph):
        self.graphs[graph].reset()


class Ranges:
    """What the driver has granted, numbered in order."""

    def __init__(self):
        self.live, self.granted = {}, 0

    def follow(self, call, addr, size):
        if call in ("malloc", "reserve"):
            self.live[addr] = (self.granted, size)
            self.granted += 1
        elif call in ("free", "addrfree"):
            self.live.pop(addr, None)

    def find(self, addr):
        for base, (number, size) in self.live.items():
            if base <= addr < base + size:
                return {"seg": number, "off": addr - base, "va": addr - VA_BASE}
        raise ValueError(f"{addr:#x} lies in nothing that the driver granted")


def driver_calls(path):
    """[request, call, address, size, error?] from the log of calls; the marks number the requests."""
    request, calls = -1, []
    with open(path) as log:
        for text in log:
            call = json.loads(text)
            if call["call"] == "mpSimNow":
                request += 1
            for change in call.get("memory", ()):
                name = CALLS.get(change["call"])
                if name and request >= 0:
                    addr = change["addr"] - VA_BASE if change["addr"] else 0
                    code = [change["code"]] if change["code"] else []
                    calls.append([request, name, addr, change["bytes"], *code])
    return calls


def traced(entry, streams):
    is_oom = entry["action"] == "oom"
    addr = 0 if is_oom else entry["addr"] - VA_BASE
    event = [int(entry["user_metadata"]), entry["action"], addr, entry["size"], streams[entry["stream"]]]
    if entry["pool_id"] != (0, 0):
        event.append(entry["pool_id"])
    if is_oom:
        event.append({"device_free": entry["device_free"]})
    return event


def recorded_segment(segment, ranges, streams):
    base = segment["address"]
    blocks = [[b["address"] - base, b["size"], b["requested_size"], b["state"]] for b in segment["blocks"]]
    return {
        **ranges.find(base),
        "size": segment["total_size"],
        "alloc": segment["allocated_size"],
        "active": segment["active_size"],
        "req": segment["requested_size"],
        "stream": streams[segment["stream"]],
        "type": segment["segment_type"],
        "pool": segment["segment_pool_id"],
        "exp": segment["is_expandable"],
        "blocks": blocks,
    }


def record(job):
    """One script, from the first CUDA call of this process on."""
    machine, base = job["machine"], os.path.join(job["folder"], job["name"])
    log = base + ".calls"
    os.environ.update(
        MILLPOND_SIM_CAPACITY=machine["capacity"],
        MILLPOND_SIM_EVENTS=machine["events"],
        MILLPOND_SIM_LOG=log,
        PYTORCH_CUDA_ALLOC_CONF=machine["config"],
    )
    open(log, "w").close()
    program = Program()
    program.run(job["ops"])
    snapshot = torch.cuda.memory._snapshot()
    streams = {stream.cuda_stream: ordinal for ordinal, stream in enumerate(program.streams)}
    calls = driver_calls(log)
    os.remove(log)
    header = {
        "scenario": job["name"],
        "config_name": "c",
        "config": machine["config"],
        "capacity": machine["capacity"],
        "events": machine["events"],
        "torch": torch.__version__,
        "va_base": VA_BASE,
    }
    lines, ranges, follow = [line(header)], Ranges(), iter(calls + [[ALL]])
    call = next(follow)
    for text in program.lines:
        if isinstance(text, dict):
            while call[0] <= text["i"]:
                if len(call) == 4:
                    ranges.follow(call[1], call[2] + VA_BASE, call[3])
                call = next(follow)
            if "va" in text:
                text.update(ranges.find(text["va"]))
            text = line(text)
        lines.append(text)
    while call[0] < ALL:
        if len(call) == 4:
            ranges.follow(call[1], call[2] + VA_BASE, call[3])
        call = next(follow)
    segments = sorted(snapshot["segments"], key=lambda segment: segment["address"])
    lines += [line({"segment": recorded_segment(segment, ranges, streams)}) for segment in segments]
    lines += [line({"t": traced(entry, streams)}) for entry in snapshot["device_traces"][0]]
    lines += [line({"d": call}) for call in calls]
    with open(base + ".req.jsonl", "w") as file:
        file.writelines(line(op) + "\n" for op in job["ops"])
    with open(base + "__c.out.jsonl", "w") as file:
        file.writelines(text + "\n" for text in lines)


def in_a_child(job):
    """Runs a job in a child of this process, which has PyTorch loaded and no device yet. What went wrong, or nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            record(job)
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-3000:])
        finally:
            # No destructors: what they would do belongs to no request.
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else f"{text}\nended with status {status}"


def pierce(heap):
    """Leaves holes of all small sizes in the heap of the C library, elsewhere for every number: 0 leaves it as it is."""
    rng, libc = random.Random(heap), ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    held = [libc.malloc(rng.randint(16, 512)) for _ in range(20_000 if heap else 0)]
    for address in held:
        if rng.random() < 0.5:
            libc.free(address)


if __name__ == "__main__":
    pierce(int(os.environ.get("ORACLE_HEAP", "0")))
    for text in sys.stdin:
        print(json.dumps(in_a_child(json.loads(text))), flush=True)
