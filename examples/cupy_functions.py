"""CuPy on Millpond: a `PythonFunctionAllocator` whose two functions are Millpond's.

    pip install millpond cupy-cuda13x
    python examples/cupy_functions.py                           on a real device

    pip install millpond 'cupy-cuda12x<13' and CUDA 12's libraries
    millpond sim --backing -- python examples/cupy_functions.py on a simulated one

CuPy 13 and later hold the vendor's CUDA runtime, which does not start on the simulated device, and CuPy asks it which device is
current before it calls any allocator. CuPy 12 links the runtime, and finds Millpond's. `ci/python_allocators.sh` runs this.
"""

import cupy
import numpy

import millpond

MIB = 1 << 20


def malloc(size, device):
    """The function that CuPy calls for memory: bytes and a device; the stream is the current one."""
    try:
        return millpond.alloc(size, device, cupy.cuda.get_current_stream().ptr)
    except millpond.OutOfMemoryError as error:
        allocated = millpond.stats(device)["allocated_bytes.all.current"]
        raise cupy.cuda.memory.OutOfMemoryError(size, allocated) from error


def free(addr, device):
    """The function that CuPy calls to give memory back."""
    millpond.free(addr, device)


def main():
    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)

    numbers = numpy.arange(3 * MIB, dtype=numpy.int32)
    array = cupy.asarray(numbers)
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        beside = cupy.empty((5, MIB), dtype=cupy.float64)
    side.synchronize()
    stats = millpond.stats()
    held = array.nbytes + beside.nbytes
    print(f"CuPy holds    {held} bytes in 2 arrays")
    print(f"Millpond says {stats['requested_bytes.all.current']} bytes in {stats['allocation.all.current']} blocks")
    assert (stats["requested_bytes.all.current"], stats["allocation.all.current"]) == (held, 2)
    assert (array.get() == numbers).all()

    if b"Millpond simulated" not in cupy.cuda.runtime.getDeviceProperties(0)["name"]:
        # Kernels of the simulated device compute nothing.
        assert int((array[:1000] + 1).sum()) == 1000 * 1001 // 2

    try:
        cupy.empty(1 << 50, dtype=cupy.uint8)
        raise SystemExit("a pebibyte was there")
    except cupy.cuda.memory.OutOfMemoryError as error:
        print(f"out of memory: {error}")

    address = array.data.ptr
    del array
    again = cupy.empty(3 * MIB, dtype=cupy.int32)
    assert again.data.ptr == address, "a cached block comes again"
    del again, beside
    assert millpond.stats()["allocated_bytes.all.current"] == 0
    millpond.verify()
    print(f"and it is kept for the next: {millpond.stats()['reserved_bytes.all.current'] // MIB} MiB reserved")


if __name__ == "__main__":
    main()
