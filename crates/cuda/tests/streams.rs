//! The default streams: the legacy one, and the one that each thread has.

mod common;

use common::over_the_shim;
use millpond_cuda::Cuda;
use millpond_driver::*;

const D: Device = Device(0);
const LEGACY: [u64; 2] = [0, 1];
const PER_THREAD: u64 = 2;

/// An event behind some work on a stream.
fn after_work(cuda: &Cuda, raw: u64) -> Event {
    let stream = Stream::new(D, raw);
    let addr = cuda.mem_alloc(D, 4096).unwrap();
    cuda.memset_async(addr, 1, 4096, stream).unwrap();
    let event = cuda.event_create(D).unwrap();
    cuda.event_record(event, stream).unwrap();
    event
}

#[test]
fn the_legacy_stream_has_two_names() {
    let Some(cuda) = over_the_shim("the_legacy_stream_has_two_names", &[("EVENTS", "manual")]) else { return };
    for (work, wait) in [(LEGACY[0], LEGACY[1]), (LEGACY[1], LEGACY[0])] {
        let event = after_work(&cuda, work);
        assert_eq!(cuda.event_query(event), Ok(false));
        cuda.stream_synchronize(Stream::new(D, wait)).unwrap();
        assert_eq!(cuda.event_query(event), Ok(true));
    }
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    let Some(cuda) = over_the_shim("each_thread_has_a_default_stream_of_its_own", &[("EVENTS", "manual")]) else {
        return;
    };
    let own = Stream::new(D, PER_THREAD);
    let event = after_work(&cuda, PER_THREAD);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            cuda.stream_synchronize(own).unwrap();
            assert_eq!(cuda.event_query(event), Ok(false), "that was another stream of the same name");
            let beside = after_work(&cuda, PER_THREAD);
            cuda.stream_synchronize(own).unwrap();
            assert_eq!(cuda.event_query(beside), Ok(true));
        });
        other.join().unwrap();
    });
    cuda.stream_synchronize(own).unwrap();
    assert_eq!(cuda.event_query(event), Ok(true));
}
