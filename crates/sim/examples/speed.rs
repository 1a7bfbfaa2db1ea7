//! How long the calls take that an allocator makes most: `cargo run --release -p millpond-sim --example speed`.

use std::time::Instant;

use millpond_driver::*;
use millpond_sim::{EventMode, Sim, SimConfig};

const D: Device = Device(0);

fn time(name: &str, n: u64, mut call: impl FnMut(u64)) {
    let start = Instant::now();
    for i in 0..n {
        call(i);
    }
    println!("{name:40} {:6.1} ns", start.elapsed().as_nanos() as f64 / n as f64);
}

fn main() {
    let stream = Stream::new(D, 3);
    for events in [EventMode::Immediate, EventMode::Manual, EventMode::Timed] {
        let sim = Sim::new(SimConfig { events, ..SimConfig::default() });
        let driver: std::sync::Arc<dyn Driver> = sim.clone();
        let event = driver.event_create(D).unwrap();
        time(&format!("{events:?}: event_record"), 1_000_000, |_| driver.event_record(event, stream).unwrap());
        time(&format!("{events:?}: event_query"), 1_000_000, |_| {
            driver.event_query(event).unwrap();
        });
        time(&format!("{events:?}: record, synchronize"), 1_000_000, |_| {
            driver.event_record(event, stream).unwrap();
            driver.stream_synchronize(stream).unwrap();
        });
    }
    let sim = Sim::new(SimConfig::default());
    time("capture_status", 1_000_000, |_| {
        sim.capture_status(stream).unwrap();
    });
    let addrs: Vec<u64> = (0..1000).map(|_| sim.mem_alloc(D, 2 << 20).unwrap()).collect();
    for addr in addrs.iter().step_by(2) {
        sim.mem_free(D, *addr).unwrap();
    }
    time("malloc and free beside 500 holes", 1_000_000, |_| {
        let addr = sim.mem_alloc(D, 20 << 20).unwrap();
        sim.mem_free(D, addr).unwrap();
    });
    let base = sim.mem_address_reserve(90 << 30, 0, 0).unwrap();
    let page = 2 << 20;
    time("create, map, access, unmap, release", 300_000, |i| {
        let at = base + i % 40_000 * page;
        let handle = sim.mem_create(page, HandleProps::on(D)).unwrap();
        sim.mem_map(at, page, 0, handle).unwrap();
        sim.mem_set_access(at, page, Location::Device(D), Access::ReadWrite).unwrap();
        sim.mem_unmap(at, page).unwrap();
        sim.mem_release(handle).unwrap();
    });
}
