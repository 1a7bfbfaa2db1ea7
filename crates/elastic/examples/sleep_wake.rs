//! A server whose weights, cache and graph sleep while something else needs the device. Awake again they have their old
//! addresses; weights and graph have their contents, the cache needs none.

use millpond::config::Settings;
use millpond::{Allocator, Caller, HostCache, MemPool, World};
use millpond_driver::{Bytes, CaptureMode, Device, Memory, Stream};
use millpond_elastic::{Keep, Sleeper};
use millpond_sim::{Sim, SimConfig};

const MIB: u64 = 1 << 20;
const DEVICE: Device = Device(0);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sim = Sim::new(SimConfig { backing: true, ..SimConfig::with_capacity(Bytes(1 << 30)) });
    let stream = Stream::new(DEVICE, 0x101);
    let (settings, _) = Settings::parse("expandable_segments:True")?;
    let world = World::new(settings);
    let allocator = Allocator::new(sim.clone(), DEVICE, world.clone())?;
    let sleeper = Sleeper::new(sim.clone(), stream, HostCache::new(sim.clone(), world));
    let used = || sim.mem_info(DEVICE).map(|(free, total)| Bytes(total - free));

    let layers = (0..4).map(|_| sleeper.alloc("weights", 100 * MIB)).collect::<Result<Vec<_>, _>>()?;
    let cache = sleeper.alloc("kv cache", 400 * MIB)?;
    for (layer, &addr) in layers.iter().enumerate() {
        sim.write(addr + 99 * MIB, &[layer as u8 + 1; 4096])?;
    }
    // A graph captured into a memory pool of its own: its kernels name the address for ever.
    let pool = MemPool::for_graphs(&allocator)?;
    let capture = pool.capture(stream, CaptureMode::Relaxed)?;
    let captured = allocator.alloc(60 * MIB, stream, &Caller::on(stream))?;
    sim.launch(stream, 10, &[(captured, 60 * MIB)], &[(captured, 60 * MIB)])?;
    let graph = capture.end()?;
    sim.write(captured, &[9; 4096])?;
    sleeper.add_pool("graphs", &allocator, pool.id())?;
    let registered = sleeper.register(layers[0])?;
    println!("serving:  {} in use", used()?);

    let weights = sleeper.sleep("weights", Keep::Contents)?;
    sleeper.sleep("kv cache", Keep::Nothing)?;
    let graphs = sleeper.sleep("graphs", Keep::Contents)?;
    println!(
        "asleep:   {} in use, {} of contents in pinned memory",
        used()?,
        Bytes(weights.contents + graphs.contents)
    );
    assert_eq!(used()?, Bytes(0));

    // Training needs almost all of the device.
    let training = sim.mem_alloc(DEVICE, 900 * MIB)?;
    sim.write(training, &[0xff; 4096])?;
    let too_early = sleeper.wake("weights");
    println!("too early: {}", too_early.as_ref().err().map_or_else(String::new, ToString::to_string));
    assert!(too_early.is_err_and(|error| error.is_out_of_memory()));
    sim.mem_free(DEVICE, training)?;

    sleeper.wake("weights")?;
    sleeper.wake("kv cache")?;
    sleeper.wake("graphs")?;
    println!("awake:    {} in use", used()?);
    for (layer, &addr) in layers.iter().enumerate() {
        assert_eq!(sim.read(addr + 99 * MIB, 4096)?, [layer as u8 + 1; 4096], "the same contents at the same address");
    }
    // The graph finds everything where it was.
    assert_eq!(sim.read(captured, 4096)?, [9; 4096]);
    sim.graph_launch(graph.graph(), stream)?;
    sim.launch(stream, 10, &[(layers[0], 100 * MIB)], &[(cache, 400 * MIB)])?;
    // Whoever registered the memory with a network library has to do it again.
    println!("registration: {}", sleeper.check(registered).err().map_or_else(String::new, |error| error.to_string()));
    assert!(sleeper.check(registered).is_err());
    println!("ok");
    Ok(())
}
