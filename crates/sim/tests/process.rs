//! A simulated device whose host memory is somebody else's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use millpond_driver::*;
use millpond_sim::{ProcessMemory, Sim, SimConfig};

const D: Device = Device(0);
const S: Stream = Stream::new(D, 1);

/// A process with memory that no real one has.
#[derive(Debug, Default)]
struct Fake {
    bytes: Mutex<BTreeMap<u64, u8>>,
    allocations: Mutex<Vec<(u64, u64)>>,
}

impl ProcessMemory for Fake {
    fn alloc(&self, bytes: u64) -> Option<u64> {
        let mut allocations = self.allocations.lock().unwrap();
        let addr = 0x7000_0000_0000 + 0x10_0000 * allocations.len() as u64;
        allocations.push((addr, bytes));
        (bytes < 1 << 20).then_some(addr)
    }

    fn free(&self, addr: u64, bytes: u64) {
        self.allocations.lock().unwrap().retain(|&each| each != (addr, bytes));
    }

    fn read(&self, addr: u64, to: &mut [u8]) {
        let bytes = self.bytes.lock().unwrap();
        for (at, byte) in (addr..).zip(to) {
            *byte = bytes.get(&at).copied().unwrap_or(0);
        }
    }

    fn write(&self, addr: u64, from: &[u8]) {
        self.bytes.lock().unwrap().extend((addr..).zip(from.iter().copied()));
    }
}

#[test]
fn copies_move_the_bytes_of_the_process() {
    let process = Arc::new(Fake::default());
    let sim = Sim::with_process(SimConfig { backing: true, ..SimConfig::default() }, process.clone());
    let device = sim.mem_alloc(D, 4096).unwrap();
    process.write(0x5555_0000, b"mill");
    sim.memcpy_async(device, 0x5555_0000, 4, S).unwrap();
    sim.memcpy_async(0x7fff_0000_0000, device, 4, S).unwrap();
    let mut found = [0; 4];
    process.read(0x7fff_0000_0000, &mut found);
    assert_eq!(&found, b"mill");
    let code = |result: Result<()>| result.unwrap_err().code;
    assert_eq!(code(sim.memcpy_async(device, 0, 4, S)), Code::ERROR_INVALID_VALUE, "nothing is at 0");
    let unused = sim.config().va_end - 4096;
    assert_eq!(code(sim.memcpy_async(device, unused, 4, S)), Code::ERROR_INVALID_VALUE, "an address of devices");
}

#[test]
fn page_locked_memory_is_the_processs_and_counts() {
    let process = Arc::new(Fake::default());
    let sim = Sim::with_process(SimConfig::default(), process.clone());
    let addr = sim.host_alloc(5000, HostFlags::default()).unwrap();
    assert_eq!(*process.allocations.lock().unwrap(), [(addr, 8192)]);
    assert_eq!(sim.page_locked(), 8192);
    assert!(sim.host_alloc(1 << 20, HostFlags::default()).unwrap_err().is_out_of_memory());
    assert_eq!(sim.page_locked(), 8192, "what the process does not have is not locked");
    sim.host_free(addr).unwrap();
    assert!(!process.allocations.lock().unwrap().contains(&(addr, 8192)));
    assert_eq!(sim.page_locked(), 0);
}

#[test]
fn a_stream_is_done_when_its_events_are() {
    let sim = Sim::new(SimConfig { events: millpond_sim::EventMode::Manual, ..SimConfig::default() });
    let event = sim.event_create(D).unwrap();
    assert_eq!(sim.stream_query(S), Ok(true));
    sim.event_record(event, S).unwrap();
    assert_eq!(sim.stream_query(S), Ok(false));
    sim.advance(1);
    assert_eq!(sim.stream_query(S), Ok(true));
    sim.capture_begin(S, CaptureMode::Relaxed).unwrap();
    assert_eq!(sim.stream_query(S).unwrap_err().code, Code::ERROR_STREAM_CAPTURE_UNSUPPORTED);
}
