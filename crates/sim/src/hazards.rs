//! Uses of memory that nothing orders.
//!
//! Every piece of work on a stream is held against the earlier uses of the same bytes: by the clocks of streams, events
//! and the host (see [`clocks`](crate::clocks)) one comes before the other, or it does not. The allocator, or whoever
//! drives it, says when memory is handed out and given back, so that a hazard can be told by its cause.
//!
//! Bytes are physical ones: memory that is mapped at two addresses, or that has moved from one to another, is the same memory.
//!
//! Work in a capture is held against work of the same capture only: it does not run. When the graph is launched, all its
//! work counts as one piece of work on that stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_driver::Stream;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::calls::CallKind;
use crate::clocks::{Point, includes};
use crate::mappings::Part;
use crate::sim::{Sim, State};
use crate::work::Work;

/// Two uses of memory that should have been ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// What is wrong.
    pub kind: HazardKind,
    /// The earlier use, or the giving back.
    pub first: Use,
    /// The later use.
    pub second: Use,
    /// The block that the later use lies in, as handed out; `None` for memory that was never handed out.
    pub block: Option<Block>,
    /// The block that the earlier use lay in, if that is another one.
    pub former: Option<Block>,
    /// What would have prevented it.
    pub hint: Hint,
}

/// What is wrong with two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HazardKind {
    /// Memory is used while a use on another stream may still be running.
    UseStillRunning,
    /// Memory was handed out again while a use by its former owner may still be running.
    HandedOutTooEarly,
    /// Memory is used after it was given back.
    UseAfterFree,
}

/// A use of memory, or the giving back of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The stream of the work; for a giving back, the stream of the block.
    pub stream: Stream,
    /// What the work, or the giving back, was called; the block's label where it had no name.
    pub label: Arc<str>,
    /// When it was to start at the earliest, microseconds.
    pub at_us: u64,
    /// Whether it writes.
    pub write: bool,
    /// Its range: where it starts.
    pub addr: u64,
    /// Its range: bytes.
    pub bytes: u64,
}

/// Memory that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it starts.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// The stream it was handed out for.
    pub stream: Stream,
    /// What its owner calls it.
    pub label: Arc<str>,
}

/// What would have prevented a hazard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// `waiter` waits for an event recorded on `awaited` after the first use.
    Wait {
        /// The stream that must wait.
        waiter: Stream,
        /// The stream it must wait for.
        awaited: Stream,
    },
    /// `record_stream` on the former block for this stream, before it is given back.
    RecordStream {
        /// The stream of the first use.
        stream: Stream,
    },
    /// The block must be given back after its last use.
    GiveBackLater,
}

impl std::fmt::Display for Hint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Hint::Wait { waiter, awaited } => {
                write!(f, "let {waiter} wait for an event recorded on {awaited} after the first use")
            }
            Hint::RecordStream { stream } => {
                write!(
                    f,
                    "call record_stream for {stream} on the first block before it is freed, or let its own stream wait for {stream}"
                )
            }
            Hint::GiveBackLater => f.write_str("free the block after its last use"),
        }
    }
}

impl std::fmt::Display for Hazard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = |used: &Use| if used.write { "write" } else { "read" };
        let (first, second) = (&self.first, &self.second);
        let place = format!("{:#x}", first.addr.max(second.addr));
        match self.kind {
            HazardKind::UseStillRunning => write!(
                f,
                "{place}: a {} by '{}' on {} while a {} by '{}' on {} may still be running",
                verb(second),
                second.label,
                second.stream,
                verb(first),
                first.label,
                first.stream
            )?,
            HazardKind::HandedOutTooEarly => {
                let name =
                    |block: &Option<Block>| block.as_ref().map_or("nobody's".into(), |block| block.label.clone());
                write!(
                    f,
                    "{place}: memory of '{}', handed out again as '{}': a {} by '{}' on {} while a {} by '{}' on {} may still \
                     be running",
                    name(&self.former),
                    name(&self.block),
                    verb(second),
                    second.label,
                    second.stream,
                    verb(first),
                    first.label,
                    first.stream
                )?;
            }
            HazardKind::UseAfterFree => {
                write!(
                    f,
                    "{place}: a {} by '{}' on {} after '{}' was freed",
                    verb(second),
                    second.label,
                    second.stream,
                    first.label
                )?;
            }
        }
        write!(f, "; {}", self.hint)
    }
}

/// No block.
const NOBODY: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct HazardCheck {
    found: Vec<Hazard>,
    /// What was reported already: (kind, first use, stream of the second, block of the second).
    reported: FxHashSet<(HazardKind, u64, Stream, u32)>,
    blocks: Vec<BlockState>,
    owners: Ranges<Owner>,
    /// Uses, for ordinary work (0) and for each capture, by the handle that the memory is part of; 0 for memory that is at one
    /// address for good.
    uses: FxHashMap<(u64, u64), Ranges<Cell>>,
    last_use: u64,
}

#[derive(Debug)]
struct BlockState {
    block: Block,
    /// Label and time of the giving back.
    freed: Option<(Arc<str>, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Owner(u32);

impl Default for Owner {
    fn default() -> Self {
        Owner(NOBODY)
    }
}

/// The last uses of some bytes.
#[derive(Clone, Debug, Default)]
struct Cell {
    write: Option<Arc<PastUse>>,
    /// Since the write; the last of each stream.
    reads: Vec<Arc<PastUse>>,
}

#[derive(Debug)]
struct PastUse {
    id: u64,
    point: Point,
    stream: Stream,
    label: Arc<str>,
    at_us: u64,
    write: bool,
    addr: u64,
    bytes: u64,
    owner: u32,
}

impl PastUse {
    fn shown(&self) -> Use {
        let &PastUse { stream, ref label, at_us, write, addr, bytes, .. } = self;
        Use { stream, label: Arc::clone(label), at_us, write, addr, bytes }
    }
}

/// Values of ranges of bytes; what was never set has the default.
#[derive(Debug)]
struct Ranges<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Ranges(BTreeMap::new())
    }
}

impl<T: Clone + Default> Ranges<T> {
    fn split(&mut self, at: u64) {
        if let Some((&start, (end, value))) = self.0.range_mut(..at).next_back()
            && *end > at
        {
            let right = (std::mem::replace(end, at), value.clone());
            debug_assert!(start < at);
            self.0.insert(at, right);
        }
    }

    /// Makes `from .. to` consist of whole ranges without gaps, and goes through them.
    fn each(&mut self, from: u64, to: u64, mut visit: impl FnMut(u64, u64, &mut T)) {
        self.split(from);
        self.split(to);
        let mut gaps = Vec::new();
        let mut at = from;
        for (&start, &(end, _)) in self.0.range(from..to) {
            if start > at {
                gaps.push((at, start));
            }
            at = end;
        }
        if at < to {
            gaps.push((at, to));
        }
        for (start, end) in gaps {
            self.0.insert(start, (end, T::default()));
        }
        for (&start, (end, value)) in self.0.range_mut(from..to) {
            visit(start, *end, value);
        }
    }
}

impl Sim {
    /// Tells the hazard check that the allocator hands out `size` bytes at `addr` for `stream`. Costs nothing without
    /// [`SimConfig::hazards`](crate::SimConfig::hazards).
    pub fn hand_out(&self, addr: u64, size: u64, stream: Stream, label: &str) {
        if !self.config().hazards {
            return;
        }
        if let Some(check) = &mut self.lock().hazards {
            check.hand_out(Block { addr, size, stream, label: Arc::from(label) });
        }
    }

    /// Tells the hazard check that the owner of the block at `addr` gives it back: it has submitted all its work.
    pub fn give_back(&self, addr: u64, label: &str) {
        if !self.config().hazards {
            return;
        }
        let mut state = self.lock();
        let now = state.meter.now() / 1000;
        if let Some(check) = &mut state.hazards {
            check.give_back(addr, label, now);
        }
    }

    /// All hazards found so far, in the order of the second use.
    pub fn hazards(&self) -> Vec<Hazard> {
        self.lock().hazards.as_ref().map(|check| check.found.clone()).unwrap_or_default()
    }
}

impl State {
    /// Work on a stream: its place in the order of things, and whether it collides with anything.
    #[inline]
    pub fn check_hazards(&mut self, stream: usize, work: &Work<'_>, start_ns: u64) {
        let Some(clocks) = &mut self.clocks else { return };
        let point = clocks.submit(stream);
        let Some(check) = &mut self.hazards else { return };
        let state = self.streams.at(stream);
        let context = Context {
            clock: clocks.of_stream(stream),
            point,
            stream: state.stream,
            at_us: start_ns / 1000,
            capture: state.capture.unwrap_or(0),
            label: work.label,
            graph: work.kind == CallKind::GraphLaunch,
        };
        for (ranges, write) in [(work.reads, false), (work.writes, true)] {
            for &(addr, bytes) in ranges {
                for part in self.maps.parts(addr, bytes) {
                    check.used(&context, (addr, bytes), part, write);
                }
            }
        }
    }
}

/// The work that uses memory.
struct Context<'a> {
    clock: &'a [u64],
    point: Point,
    stream: Stream,
    at_us: u64,
    capture: u64,
    label: &'a str,
    /// A graph keeps using memory that was given back while it was captured, and rightly so.
    graph: bool,
}

impl HazardCheck {
    fn hand_out(&mut self, block: Block) {
        let id = self.blocks.len() as u32;
        let (from, to) = (block.addr, block.addr.saturating_add(block.size));
        self.blocks.push(BlockState { block, freed: None });
        self.owners.each(from, to, |_, _, owner| *owner = Owner(id));
    }

    fn give_back(&mut self, addr: u64, label: &str, now: u64) {
        let Some((_, (_, Owner(id)))) = self.owners.0.range(..=addr).next_back().filter(|(_, (end, _))| *end > addr)
        else {
            return;
        };
        if let Some(state) = self.blocks.get_mut(*id as usize)
            && state.freed.is_none()
        {
            state.freed = Some((Arc::from(label), now));
        }
    }

    pub fn forget_capture(&mut self, capture: u64) {
        self.uses.retain(|&(other, _), _| other != capture);
    }

    fn used(&mut self, context: &Context<'_>, range: (u64, u64), part: Part, write: bool) {
        let mut pieces = Vec::new();
        let end = part.addr.saturating_add(part.bytes);
        self.owners.each(part.addr, end, |from, to, &mut Owner(owner)| pieces.push((from, to, owner)));
        for (from, to, owner) in pieces {
            let piece =
                Part { addr: from, bytes: to - from, handle: part.handle, offset: part.offset + (from - part.addr) };
            self.used_piece(context, range, piece, owner, write);
        }
    }

    fn used_piece(&mut self, context: &Context<'_>, (addr, bytes): (u64, u64), piece: Part, owner: u32, write: bool) {
        self.last_use += 1;
        let block = self.blocks.get(owner as usize);
        let label = match block {
            Some(state) if context.label.is_empty() => Arc::clone(&state.block.label),
            _ => Arc::from(context.label),
        };
        let &Context { point, stream, at_us, .. } = context;
        let this = Arc::new(PastUse { id: self.last_use, point, stream, label, at_us, write, addr, bytes, owner });
        if let Some(BlockState { block, freed: Some((label, at_us)) }) = block
            && !context.graph
        {
            let label = if label.is_empty() { Arc::clone(&block.label) } else { Arc::clone(label) };
            let freed =
                Use { stream: block.stream, label, at_us: *at_us, write: false, addr: block.addr, bytes: block.size };
            self.report(HazardKind::UseAfterFree, (0, owner), freed, &this, Hint::GiveBackLater);
        }
        let mut collisions: Vec<Arc<PastUse>> = Vec::new();
        let uses = self.uses.entry((context.capture, piece.handle)).or_default();
        uses.each(piece.offset, piece.offset.saturating_add(piece.bytes), |_, _, cell| {
            for past in cell.write.iter().chain(&cell.reads) {
                let conflict = write || past.write || past.owner != owner && !context.graph;
                if conflict
                    && !includes(context.clock, past.point)
                    && !collisions.iter().any(|other| other.id == past.id)
                {
                    collisions.push(Arc::clone(past));
                }
            }
            if write {
                cell.write = Some(Arc::clone(&this));
                cell.reads.clear();
            } else {
                match cell.reads.iter_mut().find(|past| past.point.stream == point.stream) {
                    Some(past) => *past = Arc::clone(&this),
                    None => cell.reads.push(Arc::clone(&this)),
                }
            }
        });
        for past in collisions {
            let same_owner = past.owner == owner || context.graph;
            let kind = if same_owner { HazardKind::UseStillRunning } else { HazardKind::HandedOutTooEarly };
            let hint = self.hint(kind, &past, &this);
            self.report(kind, (past.id, past.owner), past.shown(), &this, hint);
        }
    }

    fn hint(&self, kind: HazardKind, first: &PastUse, second: &PastUse) -> Hint {
        let home = |used: &PastUse| self.blocks.get(used.owner as usize).map(|state| state.block.stream);
        if kind == HazardKind::HandedOutTooEarly && home(first).is_some_and(|home| home != first.stream) {
            return Hint::RecordStream { stream: first.stream };
        }
        // The former owner kept to its stream. If the new block is of that stream too, whoever used it elsewhere should
        // have waited for it; if not, the allocator should have.
        Hint::Wait { waiter: second.stream, awaited: first.stream }
    }

    /// Reports a hazard with the use of that id and owner, once.
    fn report(&mut self, kind: HazardKind, (id, owner): (u64, u32), first: Use, second: &PastUse, hint: Hint) {
        if self.reported.insert((kind, id, second.stream, second.owner)) {
            let block_of = |owner: u32| self.blocks.get(owner as usize).map(|state| state.block.clone());
            let former = if owner == second.owner { None } else { block_of(owner) };
            self.found.push(Hazard {
                kind,
                first,
                second: second.shown(),
                block: block_of(second.owner),
                former,
                hint,
            });
        }
    }
}
