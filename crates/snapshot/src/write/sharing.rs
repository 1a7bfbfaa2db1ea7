//! What a snapshot refers to more than once: only that is worth a place in the memo.

use std::io::{self, Write};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::index::{Index, ends};
use crate::model::{Extra, Segment, Snapshot};
use crate::notes::NotesId;
use crate::pickle::writer::{MemoId, SharedValues, Writer};
use crate::stacks::{FrameId, StackId};
use crate::trace::TraceEntry;

/// Something that may be written more than once: whether it will be, and where it stands.
#[derive(Clone, Copy, Default)]
pub(super) struct Shared {
    /// Up to two.
    uses: u8,
    pub memo: Option<MemoId>,
}

impl Shared {
    /// Counts a use; says whether it is the first.
    fn count(&mut self) -> bool {
        self.uses = (self.uses + 1).min(2);
        self.uses == 1
    }

    /// Puts what was just written into the memo if it is needed again.
    pub fn memoize<W: Write>(&mut self, writer: &mut Writer<W>) -> io::Result<()> {
        if self.uses > 1 {
            self.memo = Some(writer.memoize()?);
        }
        Ok(())
    }
}

/// Everything of a snapshot that may be written more than once.
pub(super) struct Sharing<'a> {
    pub stacks: Vec<Shared>,
    pub frames: Vec<Shared>,
    pub texts: Texts<'a>,
    pub values: SharedValues,
    notes: Vec<Shared>,
}

impl<'a> Sharing<'a> {
    /// Counts what is referred to.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut sharing = Self {
            stacks: vec![Shared::default(); snapshot.stacks.len()],
            frames: vec![Shared::default(); snapshot.stacks.all_frames().len()],
            texts: Texts::default(),
            values: SharedValues::new(&snapshot.values),
            notes: vec![Shared::default(); snapshot.notes.all().len()],
        };
        for segment in snapshot.segments.iter().chain(&snapshot.host_segments) {
            sharing.segment(snapshot, segment);
        }
        let traces = snapshot.device_traces.iter().flatten();
        for entry in traces.chain(&snapshot.host_traces) {
            sharing.entry(snapshot, entry);
        }
        for annotation in &snapshot.annotations {
            sharing.extra(snapshot, &annotation.extra);
        }
        sharing.extra(snapshot, &snapshot.settings.extra);
        sharing.extra(snapshot, &snapshot.extra);
        sharing
    }

    fn segment(&mut self, snapshot: &'a Snapshot, segment: &Segment) {
        self.stack(snapshot, segment.stack);
        self.extra(snapshot, &segment.extra);
        for block in &segment.blocks {
            self.stack(snapshot, block.stack);
            self.extra(snapshot, &block.extra);
        }
    }

    fn entry(&mut self, snapshot: &'a Snapshot, entry: &TraceEntry) {
        if let Some(stack) = entry.stack {
            self.stack(snapshot, stack);
        }
        self.notes(snapshot, entry.notes);
    }

    fn notes(&mut self, snapshot: &'a Snapshot, id: NotesId) {
        // Notes are written out for each entry, but twice is enough to know what they share.
        let Some(shared) = self.notes.get_mut(id.index()) else {
            return;
        };
        if shared.uses == 2 {
            return;
        }
        shared.count();
        let notes = snapshot.notes.get(id);
        for (_, text) in notes.texts() {
            self.texts.count(text);
        }
        self.texts.count(notes.action.as_ref());
        self.extra(snapshot, &notes.extra);
    }

    fn stack(&mut self, snapshot: &'a Snapshot, id: StackId) {
        let Some(shared) = self.stacks.get_mut(id.index()) else {
            return;
        };
        if shared.count() {
            for &frame in snapshot.stacks.ids(id) {
                self.frame(snapshot, frame);
            }
        }
    }

    fn frame(&mut self, snapshot: &'a Snapshot, id: FrameId) {
        let Some(frame) = snapshot.stacks.frame(id) else {
            return;
        };
        if self.frames[id.index()].count() {
            self.texts.count(Some(&frame.name));
            self.texts.count(Some(&frame.filename));
            for (_, text) in frame.fx.iter().flat_map(|fx| fx.texts()) {
                self.texts.count(text);
            }
            self.extra(snapshot, &frame.extra);
        }
    }

    fn extra(&mut self, snapshot: &Snapshot, extra: &Extra) {
        for &(key, value) in extra {
            self.values.count(&snapshot.values, key);
            self.values.count(&snapshot.values, value);
        }
    }
}

/// Texts by where they are held, and those held twice by what they say.
#[derive(Default)]
pub(super) struct Texts<'a> {
    rows: Vec<(&'a str, Shared)>,
    held: FxHashMap<*const u8, u32>,
    index: Index,
}

impl<'a> Texts<'a> {
    fn count(&mut self, text: Option<&'a Arc<str>>) {
        let Some(text) = text else {
            return;
        };
        let (rows, index) = (&mut self.rows, &mut self.index);
        let row = *self.held.entry(text.as_ptr()).or_insert_with(|| {
            let hash = index.hash(ends(text));
            let found = index.find(hash, |row| rows[row as usize].0 == &**text);
            found.unwrap_or_else(|slot| {
                let row = rows.len() as u32;
                rows.push((text, Shared::default()));
                index.insert(slot, row);
                row
            })
        });
        rows[row as usize].1.count();
    }

    /// What is known of a text that has been counted.
    pub fn get_mut(&mut self, text: &Arc<str>) -> Option<&mut Shared> {
        let row = *self.held.get(&text.as_ptr())?;
        self.rows.get_mut(row as usize).map(|(_, shared)| shared)
    }
}
