"""RMM on Millpond: a callback resource whose two functions are Millpond's.

    pip install millpond rmm-cu13
    millpond sim -- python examples/rmm_callback.py         on a simulated device
    python examples/rmm_callback.py                         on a real one

RMM's wheel holds the vendor's CUDA runtime, which does not start on the simulated device. So this program gives RMM the device
and the resource by name, and never lets it ask which device is current; on a real device `rmm.mr.set_current_device_resource`
and `rmm.DeviceBuffer(size=…)` do as well.
"""

import rmm
from rmm.pylibrmm.stream import DEFAULT_STREAM

import millpond

MIB = 1 << 20


def millpond_resource(device=0):
    """A resource of RMM for a device."""

    def handle(stream):
        return stream.__cuda_stream__()[1]

    def allocate(size, stream):
        try:
            return millpond.alloc(size, device, handle(stream))
        except millpond.OutOfMemoryError as error:
            # What RMM knows as being out of memory; its adaptors try again after it.
            raise MemoryError(str(error)) from error

    def deallocate(addr, size, stream):
        millpond.free(addr, device, handle(stream))

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def main():
    resource = rmm.mr.StatisticsResourceAdaptor(millpond_resource())
    rmm.mr.set_per_device_resource(0, resource)

    sizes = (100, 3 * MIB, 25 * MIB)
    buffers = [rmm.DeviceBuffer(size=size, stream=DEFAULT_STREAM, mr=resource) for size in sizes]
    stats = millpond.stats()
    print(f"RMM says      {resource.allocation_counts.current_bytes} bytes in {resource.allocation_counts.current_count} buffers")
    print(f"Millpond says {stats['requested_bytes.all.current']} bytes in {stats['allocation.all.current']} blocks")
    assert stats["requested_bytes.all.current"] == resource.allocation_counts.current_bytes == sum(sizes)

    # RMM's own pool can stand on it, too.
    pool = rmm.mr.PoolMemoryResource(resource, initial_pool_size=64 * MIB, maximum_pool_size=128 * MIB)
    inside = rmm.DeviceBuffer(size=MIB, stream=DEFAULT_STREAM, mr=pool)
    assert millpond.stats()["requested_bytes.all.current"] == sum(sizes) + 64 * MIB, inside

    try:
        rmm.DeviceBuffer(size=1 << 50, stream=DEFAULT_STREAM, mr=resource)
        raise SystemExit("a pebibyte was there")
    except MemoryError as error:
        print(f"out of memory: {error}")

    del inside, pool
    buffers.clear()
    assert millpond.stats()["allocated_bytes.all.current"] == 0
    millpond.verify()
    print(f"and it is kept for the next: {millpond.stats()['reserved_bytes.all.current'] // MIB} MiB reserved")


if __name__ == "__main__":
    main()
