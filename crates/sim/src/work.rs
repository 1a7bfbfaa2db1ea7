//! Work on streams: kernels, copies and fills, with the addresses that they use.

use millpond_driver::{Access, Code, Device, DriverError, Graph, Location, Result, Stream};

use crate::backing::Effect;
use crate::calls::CallKind;
use crate::config::EventMode;
use crate::mappings::Granted;
use crate::sim::{Sim, State, refuse};

/// A copy of `bytes` from `src` to `dst`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    pub dst: u64,
    pub src: u64,
    pub bytes: u64,
}

/// What a graph's node does when the graph is launched.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeWork {
    pub ns: u64,
    pub reads: Vec<(u64, u64)>,
    pub writes: Vec<(u64, u64)>,
    pub effect: Effect,
}

/// One piece of work on a stream.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub kind: CallKind,
    pub label: &'a str,
    pub ns: u64,
    pub reads: &'a [(u64, u64)],
    pub writes: &'a [(u64, u64)],
    pub effect: Effect,
}

impl Sim {
    /// A kernel of `us` microseconds on `stream`, which reads and writes ranges of (address, bytes). In a capture it
    /// becomes a node.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` for memory that is not mapped or that the device may not use; the detail names the address. As
    /// on a real device nothing works after that. `STREAM_CAPTURE_INVALIDATED` in an invalidated capture.
    pub fn launch(&self, stream: Stream, us: u64, reads: &[(u64, u64)], writes: &[(u64, u64)]) -> Result<()> {
        self.launch_as("", stream, us, reads, writes)
    }

    /// [`Sim::launch`] with a name by which hazards call the work.
    ///
    /// # Errors
    /// As [`Sim::launch`].
    pub fn launch_as(
        &self,
        label: &str,
        stream: Stream,
        us: u64,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
    ) -> Result<()> {
        const KIND: CallKind = CallKind::Launch;
        self.call(KIND, 0, 0, |state| {
            let index = state.streams.find(stream, KIND)?;
            state.check_kernel(KIND, stream.device, reads, writes)?;
            state.work(
                index,
                Work { kind: KIND, label, ns: us.saturating_mul(1000), reads, writes, effect: Effect::None },
            )
        })
    }

    /// The device whose memory `addr` is; `None` for memory of the host and for an address without memory.
    pub fn device_of(&self, addr: u64) -> Option<Device> {
        self.lock().owner_of(addr)
    }

    /// `cuGraphLaunch`: all work of `graph` as one piece of work on `stream`.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a graph that does not exist; as [`Sim::launch`].
    pub fn graph_launch(&self, graph: Graph, stream: Stream) -> Result<()> {
        self.graph_launch_as("graph", graph, stream)
    }

    /// [`Sim::graph_launch`] with a name by which hazards call the work.
    ///
    /// # Errors
    /// As [`Sim::graph_launch`].
    pub fn graph_launch_as(&self, label: &str, graph: Graph, stream: Stream) -> Result<()> {
        const KIND: CallKind = CallKind::GraphLaunch;
        self.call(KIND, 0, 0, |state| {
            let index = state.streams.find(stream, KIND)?;
            let Some(graph) = state.captures.graphs.get(&graph.0) else {
                return refuse(KIND, Code::ERROR_INVALID_VALUE, format!("graph {} does not exist", graph.0));
            };
            let mut whole = NodeWork::default();
            let mut ends: Vec<u64> = Vec::with_capacity(graph.nodes.len());
            for (dependencies, work) in &graph.nodes {
                let start =
                    dependencies.iter().filter_map(|node| ends.get((node.0 as u32 as usize).wrapping_sub(1))).max();
                ends.push(start.copied().unwrap_or(0).saturating_add(work.ns));
                whole.reads.extend_from_slice(&work.reads);
                whole.writes.extend_from_slice(&work.writes);
            }
            let ns = ends.into_iter().max().unwrap_or(0);
            let effects: Vec<Effect> = graph.nodes.iter().map(|(_, work)| work.effect).collect();
            let (reads, writes) = (&whole.reads, &whole.writes);
            state.check_kernel(KIND, stream.device, reads, writes)?;
            state.work(index, Work { kind: KIND, label, ns, reads, writes, effect: Effect::None })?;
            effects.into_iter().try_for_each(|effect| state.apply(effect))
        })
    }
}

impl State {
    /// A kernel may only touch what its device may use; if it does not keep to that, the device is broken.
    fn check_kernel(
        &mut self,
        kind: CallKind,
        device: Device,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
    ) -> Result<()> {
        for (ranges, write) in [(reads, false), (writes, true)] {
            for &(addr, bytes) in ranges {
                if let Err(why) = self.usable(device, addr, bytes, write, false) {
                    let error = DriverError::with(Code::ERROR_ILLEGAL_ADDRESS, kind.name(), why.1);
                    self.break_device(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub fn copy(&mut self, kind: CallKind, copy: Copy, stream: Stream) -> Result<()> {
        self.copy_as(kind, (stream.device, stream.device), copy, stream)
    }

    /// A copy from one device's memory to another's, for which neither needs access to the other.
    pub fn copy_between(&mut self, (dst, src): (Device, Device), copy: Copy, stream: Stream) -> Result<()> {
        self.copy_as(CallKind::MemcpyPeer, (dst, src), copy, stream)
    }

    fn copy_as(&mut self, kind: CallKind, (to, from): (Device, Device), copy: Copy, stream: Stream) -> Result<()> {
        let Copy { dst, src, bytes } = copy;
        let index = self.streams.find(stream, kind)?;
        for (device, addr, write) in [(to, dst, true), (from, src, false)] {
            if let Err((code, why)) = self.usable(device, addr, bytes, write, true) {
                return refuse(kind, code, why);
            }
        }
        let within = self.owner_of(dst).is_some() && self.owner_of(dst) == self.owner_of(src);
        let cost = self.meter.cost();
        let per_byte = if within { cost.copy_ns_per_byte } else { cost.transfer_ns_per_byte };
        let ns = (per_byte * bytes as f64) as u64;
        let effect = Effect::Copy { dst, src, bytes };
        self.work(index, Work { kind, label: "copy", ns, reads: &[(src, bytes)], writes: &[(dst, bytes)], effect })
    }

    pub fn fill(&mut self, dst: u64, value: u8, bytes: u64, stream: Stream) -> Result<()> {
        const KIND: CallKind = CallKind::Memset;
        let index = self.streams.find(stream, KIND)?;
        if let Err((code, why)) = self.usable(stream.device, dst, bytes, true, true) {
            return refuse(KIND, code, why);
        }
        let ns = (self.meter.cost().fill_ns_per_byte * bytes as f64) as u64;
        let effect = Effect::Fill { dst, value, bytes };
        self.work(index, Work { kind: KIND, label: "fill", ns, reads: &[], writes: &[(dst, bytes)], effect })
    }

    /// Puts work on a stream: a node while it captures, else the stream is busy for longer.
    pub fn work(&mut self, stream: usize, work: Work<'_>) -> Result<()> {
        let Work { ns, effect, .. } = work;
        let node = || NodeWork { ns, reads: work.reads.to_vec(), writes: work.writes.to_vec(), effect };
        let now = self.meter.now();
        let start = self.streams.at(stream).busy_until.max(now);
        if !self.capture_work(stream, work.kind, node)? {
            self.apply(effect)?;
            self.occupy(stream, ns);
        }
        self.check_hazards(stream, &work, start);
        Ok(())
    }

    /// The stream has one more piece of work, of `ns` nanoseconds.
    pub fn occupy(&mut self, stream: usize, ns: u64) {
        let now = self.meter.now();
        let state = self.streams.at_mut(stream);
        state.work += 1;
        match self.mode {
            EventMode::Immediate => state.passed = state.work,
            EventMode::Manual => {}
            EventMode::Timed => state.busy_until = state.busy_until.max(now).saturating_add(ns),
        }
    }

    /// The device whose memory `addr` is.
    fn owner_of(&self, addr: u64) -> Option<Device> {
        match self.maps.granted_at(addr)?.1 {
            Granted::Malloc { device, .. } | Granted::Opened { device, .. } | Granted::Chunk { device, .. } => {
                Some(*device)
            }
            Granted::Reservation { .. } => {
                let (_, mapping) = self.maps.mapping_at(addr)?;
                match self.physical.handles.get(mapping.handle)?.props.location {
                    Location::Device(device) => Some(device),
                    _ => None,
                }
            }
        }
    }

    /// Whether `device` may use a range; an error says which address it may not use and why. Copies (`by_copy`) also
    /// reach pageable memory of the host.
    fn usable(
        &self,
        device: Device,
        addr: u64,
        bytes: u64,
        write: bool,
        by_copy: bool,
    ) -> std::result::Result<(), (Code, String)> {
        let illegal = |why: String| Err((Code::ERROR_ILLEGAL_ADDRESS, why));
        let missing = |why: String| Err((Code::ERROR_INVALID_VALUE, why));
        let Some(end) = addr.checked_add(bytes) else { return missing(format!("{addr:#x} + {bytes} is no range")) };
        let mut at = addr;
        while at < end {
            let Some((base, granted)) = self.maps.granted_at(at) else {
                if let Some(upto) = self.host.usable_up_to(at, by_copy) {
                    at = upto;
                    continue;
                }
                return missing(format!("nothing is allocated at {at:#x}"));
            };
            match granted {
                &Granted::Malloc { device: owner, asked, managed, .. } => {
                    if at - base >= asked {
                        return missing(format!("{at:#x} lies behind the {asked} bytes at {base:#x}"));
                    }
                    if owner != device && !managed && !self.peers.is_enabled(device, owner) {
                        return illegal(format!(
                            "{device} may not use {at:#x}, memory of {owner}: peer access is not enabled"
                        ));
                    }
                    at = base + asked;
                }
                &Granted::Opened { device: owner, asked, .. } => {
                    if at - base >= asked {
                        return missing(format!("{at:#x} lies behind the {asked} bytes at {base:#x}"));
                    }
                    if owner != device && !self.peers.is_enabled(device, owner) {
                        return illegal(format!(
                            "{device} may not use {at:#x}, memory of {owner} in another process: peer access is not enabled"
                        ));
                    }
                    at = base + asked;
                }
                &Granted::Chunk { pool, bytes, device: owner, .. } => {
                    if owner != device && !self.pool_access(pool, device) {
                        return illegal(format!("{device} may not use {at:#x}, memory of a pool of {owner}"));
                    }
                    at = base + bytes;
                }
                Granted::Reservation { .. } => {
                    let Some((base, mapping)) = self.maps.mapping_at(at) else {
                        return missing(format!("nothing is mapped at {at:#x}, which is reserved"));
                    };
                    match mapping.access_of(Location::Device(device)) {
                        Access::None => return illegal(format!("{device} has no access to {at:#x}")),
                        Access::Read if write => return illegal(format!("{device} may only read {at:#x}")),
                        _ => at = base + mapping.bytes,
                    }
                }
            }
        }
        Ok(())
    }
}
