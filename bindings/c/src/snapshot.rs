//! Snapshots as arrays, for a program that shows them in its own form.

use std::sync::Arc;

use millpond_snapshot::{Action, BlockState, Segment, SegmentType, Snapshot, StackId, TimeUs, TraceEntry};

use crate::allocator::{mp_allocator, with};
use crate::event::*;
use crate::pointer;
use crate::pools::mp_pool_id;
use crate::stacks::{Pinned, token};
use crate::status::mp_status;

/// The state of an allocator at one moment, and its history.
pub struct mp_snapshot {
    segments: Vec<mp_segment>,
    events: Vec<mp_event>,
    /// What the segments point at.
    _blocks: Vec<Vec<mp_block>>,
    /// What the events point at.
    _texts: Texts,
    /// Keeps the tokens valid.
    _pinned: Pinned,
}

/// The block is live.
pub const MP_BLOCK_LIVE: u32 = 0;
/// The block was given back; other streams may still use it.
pub const MP_BLOCK_PENDING: u32 = 1;
/// The block is free.
pub const MP_BLOCK_FREE: u32 = 2;

/// A range of a segment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_block {
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes asked for; of a free block the last value.
    pub requested: u64,
    /// One of MP_BLOCK_…
    pub state: u32,
    /// The token of the stack that allocated it; 0 for none.
    pub stack: u64,
}

/// One driver allocation, or one contiguous mapped range of an expandable segment.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_segment {
    /// The device.
    pub device: i32,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub total_size: u64,
    /// Bytes of live blocks.
    pub allocated_size: u64,
    /// Bytes of live and pending blocks.
    pub active_size: u64,
    /// Bytes asked for, over live and pending blocks.
    pub requested_size: u64,
    /// Its stream.
    pub stream: u64,
    /// Whether it serves requests up to 1 MiB.
    pub is_small: bool,
    /// Whether it is a range of an expandable segment.
    pub is_expandable: bool,
    /// Its memory pool.
    pub pool: mp_pool_id,
    /// The token of the stack that asked for it; 0 for none.
    pub stack: u64,
    /// Its blocks, by address.
    pub blocks: *const mp_block,
    /// How many.
    pub block_count: usize,
}

/// Takes a snapshot.
///
/// @param pool only this memory pool; NULL for all.
/// @param traces whether the history is part of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_snapshot_create(
    allocator: *const mp_allocator,
    pool: *const mp_pool_id,
    traces: bool,
    out: *mut *mut mp_snapshot,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            pointer::put(out, std::ptr::null_mut(), "out")?;
            let pinned = Pinned::new(Arc::clone(&this.stacks));
            let snapshot = this.allocator.snapshot(pool.as_ref().map(|&pool| pool.into()), traces);
            pointer::put(out, pointer::give(mp_snapshot::new(&snapshot, this.allocator.device().0, pinned)), "out")
        })
    }
}

/// The segments, by address, and how many; they belong to the snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_snapshot_segments(snapshot: *const mp_snapshot, count: *mut usize) -> *const mp_segment {
    // SAFETY: as the header documents.
    unsafe {
        let segments = snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.segments);
        if !count.is_null() {
            count.write(segments.len());
        }
        segments.as_ptr()
    }
}

/// The history, oldest entry first, and how many; it belongs to the snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_snapshot_events(snapshot: *const mp_snapshot, count: *mut usize) -> *const mp_event {
    // SAFETY: as the header documents.
    unsafe {
        let events = snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.events);
        if !count.is_null() {
            count.write(events.len());
        }
        events.as_ptr()
    }
}

/// Destroys a snapshot; NULL is fine. Until then no token of a stack is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_snapshot_destroy(snapshot: *mut mp_snapshot) {
    // SAFETY: as the header documents.
    unsafe { pointer::take_back(snapshot) };
}

impl mp_snapshot {
    fn new(snapshot: &Snapshot, device: u32, pinned: Pinned) -> Self {
        let stack =
            |id: StackId| snapshot.stacks.frames(id).next().map_or(0, |frame| token(std::slice::from_ref(frame)));
        let blocks: Vec<Vec<mp_block>> = snapshot.segments.iter().map(|segment| blocks(segment, stack)).collect();
        let segments = snapshot.segments.iter().zip(&blocks).map(|(from, blocks)| segment(from, blocks, stack));
        let mut texts = Texts::default();
        let trace = snapshot.trace(device as usize);
        let events = trace.iter().map(|entry| event(entry, device, snapshot, stack, &mut texts)).collect();
        mp_snapshot { segments: segments.collect(), events, _blocks: blocks, _texts: texts, _pinned: pinned }
    }
}

fn blocks(segment: &Segment, stack: impl Fn(StackId) -> u64) -> Vec<mp_block> {
    let block = |block: &millpond_snapshot::Block| mp_block {
        addr: block.address,
        size: block.size,
        requested: block.requested_size,
        state: match block.state {
            BlockState::ActiveAllocated => MP_BLOCK_LIVE,
            BlockState::ActivePendingFree => MP_BLOCK_PENDING,
            BlockState::Inactive => MP_BLOCK_FREE,
        },
        stack: stack(block.stack),
    };
    segment.blocks.iter().map(block).collect()
}

fn segment(segment: &Segment, blocks: &[mp_block], stack: impl Fn(StackId) -> u64) -> mp_segment {
    let (first, second) = segment.pool.unwrap_or_default().pair();
    mp_segment {
        device: segment.device,
        addr: segment.address,
        total_size: segment.total_size,
        allocated_size: segment.allocated_size,
        active_size: segment.active_size,
        requested_size: segment.requested_size,
        stream: segment.stream,
        is_small: segment.segment_type == SegmentType::Small,
        is_expandable: segment.is_expandable,
        pool: mp_pool_id { first, second },
        stack: stack(segment.stack),
        blocks: blocks.as_ptr(),
        block_count: blocks.len(),
    }
}

fn event(
    entry: &TraceEntry,
    device: u32,
    snapshot: &Snapshot,
    stack: impl Fn(StackId) -> u64,
    texts: &mut Texts,
) -> mp_event {
    let (first, second) = entry.pool.unwrap_or_default().pair();
    let notes = snapshot.notes.get(entry.notes);
    mp_event {
        action: match entry.action {
            Action::Alloc => MP_ACTION_ALLOC,
            Action::FreeRequested => MP_ACTION_FREE_REQUESTED,
            Action::FreeCompleted => MP_ACTION_FREE_COMPLETED,
            Action::SegmentAlloc => MP_ACTION_SEGMENT_ALLOC,
            Action::SegmentFree => MP_ACTION_SEGMENT_FREE,
            Action::SegmentMap => MP_ACTION_SEGMENT_MAP,
            Action::SegmentUnmap => MP_ACTION_SEGMENT_UNMAP,
            Action::Oom => MP_ACTION_OOM,
            Action::Annotate => MP_ACTION_ANNOTATE,
            // The allocator writes no other words.
            Action::Snapshot | Action::Other => MP_ACTION_SNAPSHOT,
        },
        device: device as i32,
        addr: entry.addr,
        size: entry.size,
        stream: entry.stream,
        time_us: entry.time_us.map_or(0, TimeUs::get),
        pool: mp_pool_id { first, second },
        stack: entry.stack.map_or(0, stack),
        metadata: texts.of(notes.user_metadata.as_ref()),
        compile_context: texts.of(notes.compile_context.as_ref()),
        internal: texts.of(notes.internal_metadata.as_ref()),
    }
}
