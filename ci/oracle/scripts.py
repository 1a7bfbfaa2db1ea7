"""Random request scripts: the same seed, the same script. Each is a machine and a list of requests in the workload format."""

import random

# A change that makes another script of some seed gets another number here: seeds are kept together with it.
GENERATOR = 1

MIB = 1 << 20

CONFIGS = [
    "",
    "",
    "expandable_segments:True",
    "expandable_segments:True",
    "graph_capture_record_stream_reuse:True",
    "graph_capture_record_stream_reuse:True,expandable_segments:True",
    "max_split_size_mb:32",
    "max_split_size_mb:64,max_non_split_rounding_mb:48",
    "max_split_size_mb:64,expandable_segments:True",
    "garbage_collection_threshold:0.5,per_process_memory_fraction:0.8",
    "garbage_collection_threshold:0.7,per_process_memory_fraction:0.9,max_split_size_mb:40",
    "per_process_memory_fraction:0.6,expandable_segments:True",
    "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.7",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:2,8:4,32:8,>:2],expandable_segments:True",
    "large_segment_size_mb:12,expandable_segments:True",
    "large_segment_size_mb:32",
    "expandable_segments:True,expandable_segments_reserve:0.2",
]
CAPACITIES = ["256M", "1G", "4G", "80G"]
CHANGES = [
    "expandable_segments:True",
    "expandable_segments:False",
    "max_split_size_mb:48",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.6",
    "",
]
EDGES = [1, 512, 513, MIB, MIB + 1, 2 * MIB, 10 * MIB - 1, 10 * MIB, 20 * MIB, 32 * MIB, 64 * MIB]


def make(seed):
    """(machine, requests) of a seed."""
    script = _Script(random.Random(seed))
    return script.machine, script.make()


class _Script:
    def __init__(self, rng):
        self.rng = rng
        self.machine = {
            "config": rng.choice(CONFIGS),
            "capacity": rng.choice(CAPACITIES),
            "events": rng.choice(["immediate", "manual"]),
        }
        self.ops = []
        self.streams = rng.choice([1, 1, 2, 3, 4])
        self.top = rng.choice([MIB, 24 * MIB, 24 * MIB, 220 * MIB])
        self.live, self.ids = [], 0
        self.pools, self.entered, self.pool_ids = [], [], 0
        self.graphs, self.graph_ids = [], 0
        # Of a capture under way: its graph, its stream, and all streams that have joined.
        self.capture = None
        self.captures = rng.random() < 0.5
        self.works = rng.random() < 0.7
        self.changes = rng.random() < 0.15

    def make(self):
        for _ in range(self.rng.randint(40, 400)):
            self.step()
        if self.capture:
            self.end_capture()
        return self.ops

    def put(self, op, **fields):
        self.ops.append({"op": op, **fields})

    def step(self):
        rng, roll = self.rng, self.rng.random()
        # More is freed the more is live, so that a script neither starves nor only grows.
        if roll < 0.40 and rng.random() < 60 / (60 + len(self.live)):
            self.alloc()
        elif roll < 0.72:
            self.free()
        elif roll < 0.80:
            self.other_stream()
        elif roll < 0.86:
            self.progress()
        elif roll < 0.91:
            self.pool()
        elif roll < 0.97:
            self.graph()
        else:
            self.rare()

    def size(self):
        rng = self.rng
        if rng.random() < 0.15:
            return rng.choice(EDGES)
        return int(2 ** rng.uniform(8, self.top.bit_length() - 1)) + rng.randint(0, 600)

    def stream(self):
        if self.capture and self.rng.random() < 0.9:
            return self.rng.choice(sorted(self.capture["streams"]))
        return self.rng.randrange(self.streams)

    def alloc(self):
        fields = {"id": self.ids, "size": self.size(), "stream": self.stream()}
        if self.pools and not self.capture and self.rng.random() < 0.25:
            fields["pool"] = self.rng.choice([pool for pool in self.pools])
            if fields["pool"] in self.entered:
                del fields["pool"]
        self.put("alloc", **fields)
        self.live.append((self.ids, fields["stream"]))
        self.ids += 1
        if self.works and self.rng.random() < 0.5:
            self.put("work", id=fields["id"], stream=fields["stream"])

    def free(self):
        if self.live:
            at = self.rng.randrange(len(self.live)) if self.rng.random() < 0.7 else -1
            self.put("free", id=self.live.pop(at)[0])

    def other_stream(self):
        """A block is used on a second stream, mostly as a careful program does it."""
        if not self.live or (self.streams == 1 and not self.capture):
            return
        block, own = self.rng.choice(self.live)
        if self.capture:
            own = self.rng.choice(sorted(self.capture["streams"]))
        other = self.rng.randrange(max(self.streams, 2))
        if other == own or (self.capture and other == 0):
            return
        if self.capture or self.rng.random() < 0.6:
            self.fork_join(own, other)
        self.put("record_stream", id=block, stream=other)
        if self.works and self.rng.random() < 0.7:
            self.put("work", id=block, stream=other)
        if self.rng.random() < 0.3:
            self.fork_join(other, own)

    def fork_join(self, a, b):
        if self.capture:
            if a not in self.capture["streams"]:
                return
            self.capture["streams"].add(b)
        self.put("fork_join", a=a, b=b)

    def progress(self):
        roll = self.rng.random()
        if roll < 0.6:
            self.put("advance", n=self.rng.randint(1, 5))
        elif roll < 0.8 or self.capture:
            self.put("sync")
        else:
            self.put("stream_sync", stream=self.rng.randrange(self.streams))

    def pool(self):
        roll = self.rng.random()
        if self.capture:
            return
        if roll < 0.35 and len(self.pools) < 4:
            fields = {"pool": self.pool_ids}
            if self.rng.random() < 0.3:
                fields["use_on_oom"] = True
            if self.rng.random() < 0.15:
                fields["no_split"] = True
            self.put("pool_create", **fields)
            self.pools.append(self.pool_ids)
            self.pool_ids += 1
        elif roll < 0.6 and self.pools:
            free = [pool for pool in self.pools if pool not in self.entered]
            if free:
                self.entered.append(self.rng.choice(free))
                self.put("pool_enter", pool=self.entered[-1])
        elif roll < 0.85 and self.entered:
            self.put("pool_leave", pool=self.entered.pop())
        elif self.pools:
            pool = self.rng.choice(self.pools)
            if pool not in self.entered:
                self.pools.remove(pool)
                self.put("pool_destroy", pool=pool)

    def graph(self):
        if not self.captures:
            return
        if self.capture:
            if self.rng.random() < 0.35:
                self.end_capture()
        elif self.graphs and self.rng.random() < 0.4:
            graph = self.rng.choice(self.graphs)
            if self.rng.random() < 0.6:
                self.put("replay", graph=graph)
            else:
                self.graphs.remove(graph)
                self.put("graph_reset", graph=graph)
        elif len(self.graphs) < 4:
            graph = self.graph_ids
            self.graph_ids += 1
            share = self.rng.choice(self.graphs) if self.graphs and self.rng.random() < 0.4 else graph
            stream = self.rng.randint(1, max(self.streams - 1, 1))
            self.put("capture_begin", graph=graph, share=share, stream=stream)
            self.capture = {"graph": graph, "stream": stream, "streams": {stream}}

    def end_capture(self):
        capture = self.capture
        for stream in sorted(capture["streams"] - {capture["stream"]}):
            self.put("fork_join", a=stream, b=capture["stream"])
        self.capture = None
        self.put("capture_end", graph=capture["graph"])
        self.graphs.append(capture["graph"])

    def rare(self):
        roll = self.rng.random()
        if roll < 0.35:
            self.put("checkpoint")
        elif roll < 0.75:
            self.put("empty_cache")
        elif roll < 0.85 and self.changes:
            self.put("set_fraction", fraction=self.rng.choice([0.25, 0.5, 0.75, 1.0]))
        elif self.changes:
            self.put("set_conf", conf=self.rng.choice(CHANGES))


def repaired(ops):
    """The requests that still make sense, in order: what names nothing is left out, and captures are joined and ended."""
    out, live, pools, entered, graphs, capture = [], set(), set(), [], set(), None

    def end(graph):
        for stream in sorted(capture["streams"] - {capture["stream"]}):
            out.append({"op": "fork_join", "a": stream, "b": capture["stream"]})
        out.append({"op": "capture_end", "graph": graph})
        graphs.add(graph)

    for op in ops:
        kind = op["op"]
        if kind == "alloc":
            if op["id"] in live or op.get("pool", -1) in entered or ("pool" in op and op["pool"] not in pools):
                continue
            live.add(op["id"])
        elif kind in ("free", "record_stream", "work"):
            if op["id"] not in live:
                continue
            if kind == "free":
                live.remove(op["id"])
        elif kind == "fork_join" and capture:
            if op["a"] not in capture["streams"]:
                continue
            capture["streams"].add(op["b"])
        elif kind == "pool_create":
            pools.add(op["pool"])
        elif kind == "pool_enter":
            if op["pool"] not in pools or op["pool"] in entered:
                continue
            entered.append(op["pool"])
        elif kind == "pool_leave":
            if not entered or entered[-1] != op["pool"]:
                continue
            entered.pop()
        elif kind == "pool_destroy":
            # In a capture PyTorch would end the process: a pool that goes away empties its cache.
            if op["pool"] not in pools or op["pool"] in entered or capture:
                continue
            pools.remove(op["pool"])
        elif kind == "capture_begin":
            if capture:
                continue
            if op["share"] != op["graph"] and op["share"] not in graphs:
                op = {**op, "share": op["graph"]}
            capture = {"graph": op["graph"], "stream": op["stream"], "streams": {op["stream"]}}
        elif kind == "capture_end":
            if capture:
                end(capture["graph"])
                capture = None
            continue
        elif kind in ("replay", "graph_reset"):
            if op["graph"] not in graphs:
                continue
            if kind == "graph_reset":
                graphs.remove(op["graph"])
        out.append(op)
    if capture:
        end(capture["graph"])
    return out
