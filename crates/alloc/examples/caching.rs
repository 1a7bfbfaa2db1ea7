//! A caching allocator on a device that is not there: allocate, use on another stream, free, look at the figures.

use millpond::config::Settings;
use millpond::{Allocator, Metric};
use millpond_driver::{Device, Stream};
use millpond_sim::{Sim, SimConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (settings, _) = Settings::parse("expandable_segments:True")?;
    let sim = Sim::new(SimConfig::default());
    let allocator = Allocator::with_settings(sim, Device(0), settings)?;

    let compute = allocator.on(Stream::default_of(Device(0)));
    let copy = allocator.driver().stream_create(Device(0))?;

    // Eight blocks of 16 MiB take seven pages of 20 MiB.
    let blocks = (0..8).map(|_| compute.alloc(16 << 20)).collect::<Result<Vec<_>, _>>()?;
    let reserved = || allocator.stats().all(Metric::ReservedBytes).current >> 20;
    println!("8 x 16 MiB: {} MiB reserved", reserved());

    // The easy path is the right one: the guard records the stream, so the block is not handed out before `copy` has passed.
    {
        let on_copy = blocks[0].use_on(copy)?;
        println!("block at {:#x} is used on {}", on_copy.addr(), on_copy.stream());
    }
    drop(blocks);

    // All of it is one free block by now, so larger requests need no new page.
    let larger = (0..4).map(|_| compute.alloc(32 << 20)).collect::<Result<Vec<_>, _>>()?;
    println!("4 x 32 MiB: {} MiB reserved", reserved());
    drop(larger);

    compute.empty_cache()?;
    println!("emptied: {} MiB reserved", reserved());
    allocator.verify().map_err(|wrong| format!("{wrong:?}"))?;
    Ok(())
}
