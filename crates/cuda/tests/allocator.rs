//! The allocator on the real driver's code path, over the simulated library.

mod common;

use std::sync::Arc;

use common::over_the_shim;
use millpond::config::Settings;
use millpond::{Allocator, Caller, MemPool, Metric};
use millpond_cuda::Cuda;
use millpond_driver::*;

const D: Device = Device(0);
const MIB: u64 = 1 << 20;

fn allocator(cuda: &Arc<Cuda>, conf: &str) -> Allocator {
    let (settings, _) = Settings::parse(conf).unwrap();
    Allocator::with_settings(cuda.clone(), D, settings).unwrap()
}

fn reserved(allocator: &Allocator) -> u64 {
    allocator.stats().all(Metric::ReservedBytes).current as u64
}

#[test]
fn it_caches_and_gives_back() {
    let Some(cuda) = over_the_shim("it_caches_and_gives_back", &[("CAPACITY", "1G")]) else { return };
    let allocator = allocator(&cuda, "");
    let stream = cuda.stream_create(D).unwrap();
    let caller = Caller::on(stream);
    let free = || cuda.mem_info(D).unwrap().0;
    let before = free();
    let first = allocator.alloc(16 * MIB, stream, &caller).unwrap();
    assert_eq!(before - free(), 16 * MIB);
    allocator.free(first, &caller).unwrap();
    assert_eq!(before - free(), 16 * MIB, "cached");
    assert_eq!(allocator.alloc(16 * MIB, stream, &caller).unwrap(), first);
    allocator.free(first, &caller).unwrap();
    assert!(matches!(allocator.alloc(2048 * MIB, stream, &caller), Err(millpond::Error::OutOfMemory(_))));
    allocator.empty_cache(&caller).unwrap();
    assert_eq!(free(), before);
    allocator.verify().unwrap();
}

#[test]
fn its_expandable_segments_grow_and_serve_what_plain_ones_could_not() {
    const NAME: &str = "its_expandable_segments_grow_and_serve_what_plain_ones_could_not";
    let Some(cuda) = over_the_shim(NAME, &[("CAPACITY", "1G")]) else { return };
    let allocator = allocator(&cuda, "expandable_segments:True");
    let stream = cuda.stream_create(D).unwrap();
    let caller = Caller::on(stream);
    let blocks: Vec<u64> = (0..8).map(|_| allocator.alloc(16 * MIB, stream, &caller).unwrap()).collect();
    assert_eq!(reserved(&allocator), 140 * MIB, "seven pages of 20 MiB");
    blocks.iter().for_each(|&block| allocator.free(block, &caller).unwrap());
    let larger: Vec<u64> = (0..4).map(|_| allocator.alloc(32 * MIB, stream, &caller).unwrap()).collect();
    assert_eq!(reserved(&allocator), 140 * MIB, "no page was needed");
    larger.iter().for_each(|&block| allocator.free(block, &caller).unwrap());
    allocator.empty_cache(&caller).unwrap();
    assert_eq!(reserved(&allocator), 0);
    allocator.verify().unwrap();
}

#[test]
fn a_block_used_on_another_stream_waits_for_it() {
    const NAME: &str = "a_block_used_on_another_stream_waits_for_it";
    let Some(cuda) = over_the_shim(NAME, &[("EVENTS", "manual")]) else { return };
    let allocator = allocator(&cuda, "");
    let (stream, side) = (cuda.stream_create(D).unwrap(), cuda.stream_create(D).unwrap());
    let caller = Caller::on(stream);
    let block = allocator.alloc(4 * MIB, stream, &caller).unwrap();
    assert!(allocator.record_stream(block, side, &caller).unwrap());
    allocator.free(block, &caller).unwrap();
    let other = allocator.alloc(4 * MIB, stream, &caller).unwrap();
    assert_ne!(other, block, "the side stream may still use it");
    cuda.stream_synchronize(side).unwrap();
    assert_eq!(allocator.alloc(4 * MIB, stream, &caller).unwrap(), block);
}

#[test]
fn a_graph_has_a_pool_of_its_own() {
    let Some(cuda) = over_the_shim("a_graph_has_a_pool_of_its_own", &[("CAPACITY", "1G")]) else { return };
    let allocator = allocator(&cuda, "");
    let stream = cuda.stream_create(D).unwrap();
    let pool = MemPool::for_graphs(&allocator).unwrap();
    let capture = pool.capture(stream, CaptureMode::ThreadLocal).unwrap();
    let caller = Caller::on(stream);
    let inside = allocator.alloc(4 * MIB, stream, &caller).unwrap();
    cuda.memset_async(inside, 1, 4 * MIB, stream).unwrap();
    assert_eq!(cuda.capture_info(stream).unwrap().terminals.len(), 1, "the fill is a node");
    allocator.free(inside, &caller).unwrap();
    let graph = capture.end().unwrap();
    let outside = allocator.alloc(4 * MIB, stream, &caller).unwrap();
    assert_ne!(outside, inside, "the graph's memory is the graph's");
    drop(graph);
    allocator.free(outside, &caller).unwrap();
    allocator.verify().unwrap();
}
