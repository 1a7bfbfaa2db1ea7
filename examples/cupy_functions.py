"""CuPy on Millpond: a `PythonFunctionAllocator` whose two functions are Millpond's.

    pip install millpond cupy-cuda13x
    python examples/cupy_functions.py

It needs a real device: CuPy's wheel holds the vendor's CUDA runtime, which does not start on the simulated one, and CuPy asks it
which device is current before it calls any allocator. Under `millpond sim` this program says so, and calls the two functions as
CuPy would.
"""

import cupy

import millpond

MIB = 1 << 20


def malloc(size, device, stream):
    """The function that CuPy calls for memory."""
    try:
        return millpond.alloc(size, device, stream)
    except millpond.OutOfMemoryError as error:
        limit = millpond.stats(device)
        raise cupy.cuda.memory.OutOfMemoryError(size, limit["allocated_bytes.all.current"]) from error


def free(addr, device, stream):
    """The function that CuPy calls to give memory back."""
    millpond.free(addr, device, stream)


def main():
    allocator = cupy.cuda.PythonFunctionAllocator(malloc, free)
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print(f"the vendor's runtime in CuPy does not start here: {error}")
        addr = malloc(3 * MIB, 0, 0)
        free(addr, 0, 0)
    else:
        cupy.cuda.set_allocator(allocator.malloc)
        array = cupy.arange(MIB, dtype=cupy.float32) + 1
        assert float(array.sum()) == MIB * (MIB + 1) / 2
        del array
    stats = millpond.stats()
    assert stats["allocation.all.allocated"] >= 1 and stats["allocation.all.current"] == 0, stats
    millpond.verify()
    print(f"Millpond served {stats['allocation.all.allocated']} requests and holds {stats['reserved_bytes.all.current'] // MIB} MiB")


if __name__ == "__main__":
    main()
