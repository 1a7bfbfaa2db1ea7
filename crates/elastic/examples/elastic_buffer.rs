//! A buffer that was estimated too small: growing it in place, reaching into the host's memory, and moving pages back, with
//! every byte where it was. What does it cost at its peak, compared with a larger buffer and a copy?

use std::sync::Arc;

use millpond_driver::{Bytes, Device, Memory, Order, Stream};
use millpond_elastic::{Elastic, ElasticOptions, Part};
use millpond_sim::{Sim, SimConfig};

const MIB: u64 = 1 << 20;
const DEVICE: Device = Device(0);
const ESTIMATE: u64 = 256 * MIB;
const NEED: u64 = 320 * MIB;

fn machine() -> Arc<Sim> {
    Sim::new(SimConfig { backing: true, ..SimConfig::with_capacity(Bytes(1 << 30)) })
}

/// What a place in the buffer holds.
fn mark(offset: u64) -> [u8; 8] {
    offset.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// Offsets that are looked at: one in each half MiB.
fn places(bytes: u64) -> impl Iterator<Item = u64> {
    (0..bytes / (MIB / 2)).map(|i| i * (MIB / 2) + i % 4096 * 8)
}

/// Estimate, find that it is not enough, allocate the right size, copy, free: the usual way. Returns the peak.
fn estimate_then_copy(stream: Stream) -> Result<u64, Box<dyn std::error::Error>> {
    let sim = machine();
    let small = sim.mem_alloc(DEVICE, ESTIMATE)?;
    let large = sim.mem_alloc(DEVICE, NEED)?;
    sim.memcpy_async(large, small, ESTIMATE, stream)?;
    sim.stream_synchronize(stream)?;
    sim.mem_free(DEVICE, small)?;
    Ok(sim.peak_use(DEVICE))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sim = machine();
    let stream = sim.stream_create(DEVICE)?;
    let options = ElasticOptions { front_capacity: 512 * MIB, tail_capacity: 2 << 30, ..ElasticOptions::default() };
    let mut buffer = Elastic::new(sim.clone(), DEVICE, &options)?;
    buffer.use_on(stream);
    let addr = buffer.addr();

    buffer.grow_front(ESTIMATE)?;
    for offset in places(ESTIMATE) {
        sim.write(addr + offset, &mark(offset))?;
    }
    buffer.grow_front(NEED)?;
    let (in_place, copied) = (sim.peak_use(DEVICE), estimate_then_copy(stream)?);
    println!("{} grown to {}:", Bytes(ESTIMATE), Bytes(NEED));
    println!("  estimate, then copy   peak {}", Bytes(copied));
    println!("  growing in place      peak {}", Bytes(in_place));
    assert_eq!((in_place, copied), (NEED, ESTIMATE + NEED));

    let intact = || places(ESTIMATE).all(|offset| sim.read(addr + offset, 8).is_ok_and(|bytes| bytes == mark(offset)));
    assert!(intact(), "growing moves nothing");

    // The device is needed for something else: half of the front goes to the host, and the tail begins there anyway.
    buffer.grow_tail(64 * MIB)?;
    buffer.move_to(Part::Host, 0, NEED / 2, stream)?;
    println!(
        "{} moved to NUMA node {}: device {}, host {}",
        Bytes(NEED / 2),
        buffer.numa_node(),
        Bytes(buffer.bytes_in(Part::Device)),
        Bytes(buffer.bytes_in(Part::Host))
    );
    assert!(intact(), "the same bytes at the same addresses, in other memory");
    let (free, total) = sim.mem_info(DEVICE)?;
    assert_eq!(total - free, NEED / 2);
    // One kernel reads through both memories.
    sim.launch(stream, 10, &[(addr, NEED)], &[(buffer.tail_addr(), 64 * MIB)])?;

    buffer.move_to(Part::Device, 0, NEED, stream)?;
    assert!(intact() && buffer.bytes_in(Part::Device) == NEED && buffer.addr() == addr);
    println!("ok");
    Ok(())
}
