//! Call stacks, each held once.

use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::index::{Index, ends};
use crate::model::Extra;

/// One level of a call stack (R9.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Function.
    pub name: Arc<str>,
    /// Source file, or library of a C++ frame.
    pub filename: Arc<str>,
    /// Line, from 1; of a C++ frame without debug information an offset in its library.
    pub line: i64,
    /// What `augment_with_fx_traces` adds.
    pub fx: Option<Box<FxNode>>,
    /// Unknown keys.
    pub extra: Extra,
}

impl Frame {
    /// A frame of a Python or C++ function.
    pub fn new(name: impl Into<Arc<str>>, filename: impl Into<Arc<str>>, line: i64) -> Self {
        Self { name: name.into(), filename: filename.into(), line, ..Self::default() }
    }
}

impl Hash for Frame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ends(&self.name).hash(state);
        ends(&self.filename).hash(state);
        self.line.hash(state);
        self.fx.hash(state);
        self.extra.hash(state);
    }
}

/// The FX node that a frame of compiled code came from (R9.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FxNode {
    /// `fx_node_op`.
    pub op: Option<Arc<str>>,
    /// `fx_node_name`.
    pub name: Option<Arc<str>>,
    /// `fx_node_info`.
    pub info: Option<Arc<str>>,
    /// `fx_original_trace`.
    pub original_trace: Option<Arc<str>>,
}

impl Hash for FxNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for text in [&self.op, &self.name, &self.info, &self.original_trace] {
            text.as_deref().map(ends).hash(state);
        }
    }
}

/// A call stack of a [`Stacks`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(NonZeroU32);

impl StackId {
    /// The stack without frames, in every table.
    pub const EMPTY: Self = Self(NonZeroU32::MIN);

    pub(crate) fn from_row(row: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(row))
    }

    /// Position in the table: 0 is the empty stack.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Default for StackId {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A frame of a [`Stacks`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub(crate) u32);

impl FrameId {
    /// Position in the table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All call stacks of a snapshot. Equal frames and equal stacks are held once.
///
/// ```
/// use millpond_snapshot::{Frame, Stacks, StackId};
///
/// let mut stacks = Stacks::default();
/// let frames = [Frame::new("forward", "model.py", 12), Frame::new("main", "train.py", 3)];
/// let id = stacks.intern(&frames);
/// assert_eq!(stacks.intern(&frames), id);
/// assert_eq!(stacks.frames(id).next().unwrap().line, 12);
/// assert_eq!(stacks.frames(StackId::EMPTY).count(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_index: Index,
    /// The frames of all stacks, one after the other.
    items: Vec<FrameId>,
    /// Where each stack ends in `items`; it begins where the one before ends.
    ends: Vec<usize>,
    index: Index,
}

impl Default for Stacks {
    fn default() -> Self {
        let mut stacks = Self {
            frames: Vec::new(),
            frame_index: Index::default(),
            items: Vec::new(),
            ends: Vec::new(),
            index: Index::default(),
        };
        stacks.intern_ids(&[]);
        stacks
    }
}

impl Stacks {
    /// The stack with these frames, innermost first.
    pub fn intern(&mut self, frames: &[Frame]) -> StackId {
        let ids: Vec<FrameId> = frames.iter().map(|f| self.intern_frame(f.clone())).collect();
        self.intern_ids(&ids)
    }

    /// The frame's id in this table.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        let hash = self.frame_index.hash(&frame);
        let found = self.frame_index.find(hash, |row| self.frames[row as usize] == frame);
        FrameId(found.unwrap_or_else(|slot| {
            let row = self.frames.len() as u32;
            self.frames.push(frame);
            self.frame_index.insert(slot, row);
            row
        }))
    }

    /// The stack with these frames of this table, innermost first.
    pub fn intern_ids(&mut self, ids: &[FrameId]) -> StackId {
        let hash = self.index.hash(ids);
        let found = self.index.find(hash, |row| self.row(row as usize) == ids);
        StackId::from_row(found.unwrap_or_else(|slot| {
            let row = self.ends.len() as u32;
            self.items.extend_from_slice(ids);
            self.ends.push(self.items.len());
            self.index.insert(slot, row);
            row
        }))
    }

    /// The stack with these frames, if the table has it.
    pub(crate) fn find_ids(&self, ids: &[FrameId]) -> Option<StackId> {
        let hash = self.index.hash(ids);
        let found = self.index.find(hash, |row| self.row(row as usize) == ids);
        found.ok().map(StackId::from_row)
    }

    /// The frame's id, if the table has it.
    pub(crate) fn find_frame(&self, frame: &Frame) -> Option<FrameId> {
        let hash = self.frame_index.hash(frame);
        let found = self.frame_index.find(hash, |row| self.frames[row as usize] == *frame);
        found.ok().map(FrameId)
    }

    /// The frames of a stack, innermost first; none for an id of another table.
    pub fn frames(&self, id: StackId) -> impl DoubleEndedIterator<Item = &Frame> + Clone {
        self.ids(id).iter().filter_map(|frame| self.frames.get(frame.index()))
    }

    /// The frames of a stack as ids, innermost first; none for an id of another table.
    pub fn ids(&self, id: StackId) -> &[FrameId] {
        self.row(id.index())
    }

    /// A frame by its id.
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.index())
    }

    /// All frames, by [`FrameId::index`].
    pub fn all_frames(&self) -> &[Frame] {
        &self.frames
    }

    /// How many stacks there are, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no stack but the empty one.
    pub fn is_empty(&self) -> bool {
        self.ends.len() == 1
    }

    /// All stacks, by [`StackId::index`].
    pub fn iter(&self) -> impl Iterator<Item = StackId> + use<> {
        (0..self.ends.len() as u32).map(StackId::from_row)
    }

    fn row(&self, row: usize) -> &[FrameId] {
        let start = match row {
            0 => 0,
            _ => self.ends.get(row - 1).copied().unwrap_or(0),
        };
        let end = self.ends.get(row).copied().unwrap_or(start);
        &self.items[start..end]
    }

    /// Bytes this table holds, about.
    pub(crate) fn memory(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>()
            + self.items.capacity() * size_of::<FrameId>()
            + self.ends.capacity() * size_of::<usize>()
            + self.frame_index.memory()
            + self.index.memory()
    }
}
