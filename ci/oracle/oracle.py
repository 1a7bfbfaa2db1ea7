"""The live oracle: random request scripts on PyTorch's own allocator, and Millpond's decisions against them.

    oracle.py [--count N] [--first SEED] [--keep FOLDER]

Needs a Python with torch 2.15; `ci/oracle.sh` sees to that and to the program. Without --first the seeds go on where
`ci/oracle/seeds.txt` ends, and what was found is added there. Exit status 1 if a script came out differently.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import scripts

HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = os.path.join(HERE, "seeds.txt")
FOUND = os.path.join(HERE, "found")
MILLPOND = os.environ.get("MILLPOND", os.path.join(HERE, "../../target/release/millpond"))


class Recorder:
    """PyTorch in a process of its own, on the simulated device. Another `heap`, another order of the addresses in it."""

    def __init__(self, heap=0):
        command = [MILLPOND, "sim", "--lenient-captures", "--", sys.executable, os.path.join(HERE, "recorder.py")]
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "", "ORACLE_HEAP": str(heap)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def record(self, name, folder, machine, ops):
        """Leaves the two files of a recording in the folder; says what went wrong, if anything did."""
        job = {"name": name, "folder": folder, "machine": machine, "ops": ops}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("the recorder ended; does `millpond sim` run here?")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class PyTorchEnded(Exception):
    """PyTorch's allocator itself did not survive a script: an assertion or a wrong access of its own. There is nothing to compare."""


class Oracle:
    """A recorder, and others whose memory lies elsewhere: they say whether PyTorch itself decides the same every time.

    Each of the others has a heap with other holes: the addresses of processes with the same past differ by a constant.
    """

    OTHERS = 10

    def __init__(self):
        self.first, self.others = Recorder(), []

    def close(self):
        for recorder in [self.first, *self.others]:
            recorder.close()

    def elsewhere(self, name, machine, ops, folder):
        """The same script in all processes: a folder with the recording of each, and whether they are one."""
        bodies = set()
        for place in range(1 + self.OTHERS):
            if place > len(self.others):
                self.others.append(Recorder(heap=place))
            recorder = self.others[place - 1] if place else self.first
            again = os.path.join(folder, f"again{place}")
            os.makedirs(again, exist_ok=True)
            error = recorder.record(name, again, machine, ops)
            if error:
                raise PyTorchEnded(error.strip().splitlines()[-1])
            bodies.add(body(again, name))
            yield again, len(bodies) == 1

    def difference(self, name, machine, ops, folder):
        """How a script comes out differently, as `millpond parity` tells it; nothing if it does not.

        PyTorch frees what it deferred in a capture in the order of addresses of its own heap. Where its processes do not agree,
        one of them must agree with Millpond, in that order or with such frees as sets.
        """
        os.makedirs(folder, exist_ok=True)
        error = self.first.record(name, folder, machine, ops)
        if error:
            raise PyTorchEnded(error.strip().splitlines()[-1])
        first = parity(folder)["different"]
        if not first:
            return None
        runs = list(self.elsewhere(name, machine, ops, folder))
        if runs[-1][1]:
            return told(first[0])
        for again, _ in runs:
            if not parity(again)["different"]:
                return None
            with open(os.path.join(again, "INDEX.json"), "w") as index:
                json.dump([{"scenario": name, "config_name": "c", "deterministic": False}], index)
            if not parity(again)["different"]:
                return None
        return {**told(first[0]), "among": "processes of PyTorch that do not agree either"}


def told(different):
    return {key: value for key, value in different.items() if key != "file"}


def parity(folder):
    """What `millpond parity` says of all recordings in a folder."""
    run = subprocess.run([MILLPOND, "parity", "--json", folder], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        raise SystemExit(f"millpond parity: {run.stderr}")
    return json.loads(run.stdout)


def body(folder, name):
    with open(os.path.join(folder, f"{name}__c.out.jsonl")) as file:
        return file.read()


def shrunk(oracle, machine, ops, folder):
    """The shortest script found that still comes out differently: ever smaller pieces are left out."""
    tries = 0

    def differs(candidate):
        nonlocal tries
        tries += 1
        place = os.path.join(folder, str(tries))
        try:
            return oracle.difference("shrunk", machine, candidate, place) is not None
        except PyTorchEnded:
            return False
        finally:
            shutil.rmtree(place)

    piece = len(ops) // 2
    while piece >= 1:
        start, before = 0, len(ops)
        while start < len(ops) and tries < 600:
            candidate = scripts.repaired(ops[:start] + ops[start + piece :])
            if len(candidate) < len(ops) and differs(candidate):
                ops = candidate
            else:
                start += piece
        if piece == 1 and len(ops) < before:
            continue
        piece //= 2
    return ops


def next_seed():
    last = 0
    with open(SEEDS) as file:
        for text in file:
            fields = text.split("#")[0].split()
            if fields and int(fields[0]) == scripts.GENERATOR:
                last = max(last, int(fields[2]) + 1)
    return last


def keep(seed, machine, ops, found):
    """A difference stays as a file until it is none: every run begins with these."""
    os.makedirs(FOUND, exist_ok=True)
    path = os.path.join(FOUND, f"g{scripts.GENERATOR}-{seed}.json")
    with open(path, "w") as file:
        json.dump({"machine": machine, "ops": ops, "difference": found}, file, indent=1)
    return path


def old_differences(oracle, work):
    """The scripts of earlier differences that still differ."""
    names = sorted(os.listdir(FOUND)) if os.path.isdir(FOUND) else []
    still = []
    for name in names:
        with open(os.path.join(FOUND, name)) as file:
            script = json.load(file)
        if oracle.difference("old", script["machine"], script["ops"], os.path.join(work, name)):
            still.append(name)
            print(f"still different: ci/oracle/found/{name}")
    if names:
        print(f"{len(names) - len(still)} of {len(names)} earlier differences are none any more")
    return still


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=100, help="how many scripts")
    arguments.add_argument("--first", type=int, help="the first seed; nothing is added to the kept seeds then")
    arguments.add_argument("--keep", help="a folder in which the recordings stay")
    options = arguments.parse_args()

    first = next_seed() if options.first is None else options.first
    work = options.keep or tempfile.mkdtemp(prefix="millpond-oracle-")
    batch = os.path.join(work, "recordings")
    os.makedirs(batch, exist_ok=True)
    oracle = Oracle()
    failed = old_differences(oracle, work)

    seeds, errors, requests = range(first, first + options.count), {}, 0
    # The first script also waits for PyTorch to be loaded.
    oracle.first.record("warm", tempfile.mkdtemp(dir=work), *scripts.make(seeds[0]))
    started = time.monotonic()
    for seed in seeds:
        machine, ops = scripts.make(seed)
        requests += len(ops)
        error = oracle.first.record(f"s{seed}", batch, machine, ops)
        if error:
            errors[seed] = error
    recorded = time.monotonic()
    # PyTorch may have survived none.
    report = parity(batch) if len(errors) < len(seeds) else {"different": [], "decisions": 0}
    compared = time.monotonic()

    suspects = set(errors) | {int(d["file"].split("/")[-1].split("__")[0][1:]) for d in report["different"]}
    real, ended, unordered = [], [], 0
    for seed in sorted(suspects):
        machine, ops = scripts.make(seed)
        try:
            found = oracle.difference(f"s{seed}", machine, ops, os.path.join(work, f"seed{seed}"))
        except PyTorchEnded as end:
            ended.append(seed)
            print(f"seed {seed}: PyTorch itself {end}")
            continue
        if found is None:
            unordered += 1
            continue
        short = shrunk(oracle, machine, ops, os.path.join(work, f"shrink{seed}"))
        found = oracle.difference(f"s{seed}", machine, short, os.path.join(work, f"short{seed}")) or found
        real.append(seed)
        path = keep(seed, machine, short, found)
        print(f"seed {seed} differs after {len(short)} of {len(ops)} requests: {os.path.relpath(path)}\n  {found}")
    oracle.close()

    each = (recorded - started) / len(seeds) * 1e3
    print(
        f"{len(seeds) - len(real) - len(ended)} of {len(seeds)} scripts without a difference (seeds {seeds[0]} to {seeds[-1]}, "
        f"{requests} requests, {report['decisions']} decisions; {unordered} with unordered frees; "
        f"{len(ended)} that PyTorch itself did not survive); "
        f"{each:.0f} ms a script to record, {(compared - recorded) / len(seeds) * 1e3:.1f} ms to compare"
    )
    if options.first is None:
        with open(SEEDS, "a") as file:
            file.write(f"{scripts.GENERATOR} {seeds[0]} {seeds[-1]} {requests} {report['decisions']} {len(real)}\n")
    if not options.keep:
        shutil.rmtree(work)
    return 1 if real or failed else 0


if __name__ == "__main__":
    sys.exit(main())
