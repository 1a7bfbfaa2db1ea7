//! The device of the recordings (`golden/README.md`): memory in granules of 2 MiB, lowest-fit addresses, two event modes.

use super::MIB;

const GRANULE: u64 = 2 * MIB;
const VA_BASE: u64 = 0x2000_0000_0000;

#[derive(Clone, Debug)]
pub struct Device {
    pub capacity: u64,
    pub used: u64,
    manual: bool,
    /// Granted ranges, (address, bytes).
    ranges: Vec<(u64, u64)>,
    /// Events that are not complete, in the order of recording: (event, stream).
    pending: Vec<(u64, u64)>,
    last_event: u64,
    /// Capturing streams: (stream, capture, whether it began it).
    capturing: Vec<(u64, u64, bool)>,
    last_capture: u64,
}

fn granules(bytes: u64) -> u64 {
    bytes.div_ceil(GRANULE) * GRANULE
}

impl Device {
    pub fn new(capacity: u64, manual: bool) -> Self {
        Device {
            capacity,
            used: 0,
            manual,
            ranges: Vec::new(),
            pending: Vec::new(),
            last_event: 0,
            capturing: Vec::new(),
            last_capture: 0,
        }
    }

    pub fn free_bytes(&self) -> u64 {
        self.capacity - self.used
    }

    /// The lowest range of addresses that fits.
    pub fn reserve(&mut self, bytes: u64) -> u64 {
        let bytes = granules(bytes);
        self.ranges.sort_unstable();
        let mut addr = VA_BASE;
        for &(base, size) in &self.ranges {
            if base - addr >= bytes {
                break;
            }
            addr = base + size;
        }
        self.ranges.push((addr, bytes));
        addr
    }

    /// Gives a range back; returns its bytes.
    pub fn unreserve(&mut self, addr: u64) -> u64 {
        let at = self.ranges.iter().position(|&(base, _)| base == addr).expect("a granted range");
        self.ranges.swap_remove(at).1
    }

    pub fn malloc(&mut self, bytes: u64) -> Option<u64> {
        self.create(granules(bytes)).then(|| self.reserve(bytes))
    }

    pub fn free(&mut self, addr: u64) {
        let bytes = self.unreserve(addr);
        self.used -= bytes;
    }

    /// Physical memory for some pages: all of them or none (golden README).
    pub fn create(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free_bytes();
        if fits {
            self.used += bytes;
        }
        fits
    }

    pub fn release(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    // Events.

    pub fn record(&mut self, stream: u64) -> u64 {
        self.last_event += 1;
        if self.manual {
            self.pending.push((self.last_event, stream));
        }
        self.last_event
    }

    pub fn is_complete(&self, event: u64) -> bool {
        self.pending.iter().all(|&(e, _)| e != event)
    }

    pub fn wait_event(&mut self, event: u64) {
        if let Some(&(_, stream)) = self.pending.iter().find(|&&(e, _)| e == event) {
            self.pending.retain(|&(e, s)| s != stream || e > event);
        }
    }

    pub fn wait_stream(&mut self, stream: u64) {
        self.pending.retain(|&(_, s)| s != stream);
    }

    pub fn advance(&mut self, n: usize) {
        self.pending.drain(..n.min(self.pending.len()));
    }

    pub fn sync(&mut self) {
        self.pending.clear();
    }

    /// The streams that work recorded and not yet complete belongs to, with each event.
    pub fn pending(&self) -> &[(u64, u64)] {
        &self.pending
    }

    // Captures.

    pub fn capture_of(&self, stream: u64) -> Option<u64> {
        self.capturing.iter().find(|&&(s, ..)| s == stream).map(|&(_, capture, _)| capture)
    }

    pub fn is_capturing(&self) -> bool {
        !self.capturing.is_empty()
    }

    pub fn capture_begin(&mut self, stream: u64) -> u64 {
        self.last_capture += 1;
        self.capturing.push((stream, self.last_capture, true));
        self.last_capture
    }

    pub fn capture_end(&mut self, stream: u64) {
        let capture = self.capture_of(stream);
        self.capturing.retain(|&(_, c, _)| Some(c) != capture);
    }

    /// Stream `b` waits for all work of `a` so far. Outside a capture that records an event; inside one `b` joins.
    pub fn fork_join(&mut self, a: u64, b: u64) {
        match (self.capture_of(a), self.capture_of(b)) {
            (Some(capture), None) => self.capturing.push((b, capture, false)),
            (Some(_), Some(_)) => {}
            (None, _) => {
                self.record(a);
            }
        }
    }
}
