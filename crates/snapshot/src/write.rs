//! Writing a snapshot in the newest form: shared frames, stacks and texts once.

mod sharing;

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::convert::keys::Key;
use crate::model::{Annotation, Block, Extra, PoolId, Segment, Snapshot};
use crate::pickle::writer::{MemoId, Writer};
use crate::settings::Settings;
use crate::stacks::{FrameId, StackId};
use crate::trace::{Action, TraceEntry};
use sharing::Sharing;

impl Snapshot {
    /// Writes the snapshot as a pickle of protocol 4 (5 where an unknown key holds bytes) with
    /// the keys of PyTorch 2.15. Python's `pickle.load` and PyTorch's viewer read it (R9.26).
    ///
    /// A figure that the snapshot does not have, such as a pool id in a file of 2023, is not
    /// made up: its key is left out.
    ///
    /// ```
    /// use millpond_snapshot::{Segment, Snapshot};
    ///
    /// let mut snapshot = Snapshot::default();
    /// snapshot.segments.push(Segment { address: 0x2000, total_size: 512, ..Segment::default() });
    /// let mut file = Vec::new();
    /// snapshot.write_pickle(&mut file)?;
    /// assert_eq!(Snapshot::from_bytes(&file)?, snapshot);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `out`, and a text of 4 GiB or more.
    pub fn write_pickle(&self, out: impl Write) -> io::Result<()> {
        let out = BufWriter::with_capacity(1 << 16, out);
        let writer = Writer::new(out, self.values.has_bytes())?;
        SnapshotWriter::new(self, writer).write()
    }
}

/// Entries of a list that are written at once, as Python does: readers need not hold more.
const BATCH: usize = 1000;

struct SnapshotWriter<'a, W: Write> {
    snapshot: &'a Snapshot,
    writer: Writer<W>,
    shared: Sharing<'a>,
    /// Keys and the words of the model: these always come again.
    words: FxHashMap<&'static str, MemoId>,
    pools: FxHashMap<PoolId, MemoId>,
}

impl<'a, W: Write> SnapshotWriter<'a, W> {
    fn new(snapshot: &'a Snapshot, writer: Writer<W>) -> Self {
        Self {
            snapshot,
            writer,
            shared: Sharing::of(snapshot),
            words: FxHashMap::default(),
            pools: FxHashMap::default(),
        }
    }

    fn write(mut self) -> io::Result<()> {
        let snapshot = self.snapshot;
        self.writer.empty_dict()?;
        self.writer.mark()?;
        self.word(Key::Segments.as_str())?;
        self.list(&snapshot.segments, Self::segment)?;
        self.word(Key::DeviceTraces.as_str())?;
        self.list(&snapshot.device_traces, |writer, trace| writer.list(trace, Self::entry))?;
        self.word(Key::AllocatorSettings.as_str())?;
        self.settings(&snapshot.settings)?;
        self.word(Key::ExternalAnnotations.as_str())?;
        self.list(&snapshot.annotations, Self::annotation)?;
        self.word(Key::HostSegments.as_str())?;
        self.list(&snapshot.host_segments, Self::segment)?;
        self.word(Key::HostTraces.as_str())?;
        self.list(&snapshot.host_traces, Self::entry)?;
        self.extra(&snapshot.extra)?;
        self.writer.set_items()?;
        self.writer.finish()
    }

    fn segment(&mut self, segment: &'a Segment) -> io::Result<()> {
        self.writer.empty_dict()?;
        self.writer.mark()?;
        self.int(Key::Device, segment.device)?;
        self.int(Key::Address, segment.address)?;
        self.int(Key::TotalSize, segment.total_size)?;
        self.int(Key::AllocatedSize, segment.allocated_size)?;
        self.int(Key::ActiveSize, segment.active_size)?;
        self.int(Key::RequestedSize, segment.requested_size)?;
        self.int(Key::Stream, segment.stream)?;
        self.word(Key::SegmentType.as_str())?;
        self.word(segment.segment_type.as_str())?;
        if let Some(pool) = segment.pool {
            self.pool(Key::SegmentPoolId, pool)?;
        }
        self.bool(Key::IsExpandable, segment.is_expandable)?;
        self.stack(segment.stack)?;
        self.word(Key::Blocks.as_str())?;
        self.list(&segment.blocks, Self::block)?;
        self.extra(&segment.extra)?;
        self.writer.set_items()
    }

    fn block(&mut self, block: &'a Block) -> io::Result<()> {
        self.writer.empty_dict()?;
        self.writer.mark()?;
        self.int(Key::Address, block.address)?;
        self.int(Key::Size, block.size)?;
        self.int(Key::RequestedSize, block.requested_size)?;
        self.word(Key::State.as_str())?;
        self.word(block.state.as_str())?;
        self.stack(block.stack)?;
        self.extra(&block.extra)?;
        self.writer.set_items()
    }

    fn entry(&mut self, entry: &'a TraceEntry) -> io::Result<()> {
        let notes = self.snapshot.notes.get(entry.notes);
        self.writer.empty_dict()?;
        self.writer.mark()?;
        self.word(Key::Action.as_str())?;
        match (entry.action, &notes.action) {
            (Action::Other, Some(action)) => self.text(action)?,
            (action, _) => self.word(action.as_str())?,
        }
        let figure = match entry.action {
            Action::Oom => Key::DeviceFree,
            _ => Key::Addr,
        };
        self.int(figure, entry.addr)?;
        self.int(Key::Size, entry.size)?;
        self.int(Key::Stream, entry.stream)?;
        if let Some(time) = entry.time_us {
            self.int(Key::TimeUs, time.get())?;
        }
        for (key, text) in notes.texts() {
            if let Some(text) = text {
                self.word(key.as_str())?;
                self.text(text)?;
            }
        }
        if let Some(pool) = entry.pool {
            self.pool(Key::PoolId, pool)?;
        }
        if let Some(stack) = entry.stack {
            self.stack(stack)?;
        }
        self.extra(&notes.extra)?;
        self.writer.set_items()
    }

    fn annotation(&mut self, annotation: &'a Annotation) -> io::Result<()> {
        self.writer.empty_dict()?;
        self.writer.mark()?;
        self.word(Key::Stage.as_str())?;
        self.writer.str(&annotation.stage)?;
        self.word(Key::Name.as_str())?;
        self.writer.str(&annotation.name)?;
        self.int(Key::Device, annotation.device)?;
        if let Some(time) = annotation.time_us {
            self.int(Key::TimeUs, time)?;
        }
        self.extra(&annotation.extra)?;
        self.writer.set_items()
    }

    fn settings(&mut self, settings: &'a Settings) -> io::Result<()> {
        self.writer.empty_dict()?;
        self.writer.mark()?;
        if let Some(conf) = &settings.conf {
            self.word(Key::Conf.as_str())?;
            self.writer.str(conf)?;
        }
        for (key, value) in settings.integers() {
            if let Some(value) = value {
                self.int(key, value)?;
            }
        }
        if let Some(threshold) = settings.garbage_collection_threshold {
            self.word(Key::GarbageCollectionThreshold.as_str())?;
            self.writer.float(threshold)?;
        }
        for (key, value) in settings.booleans() {
            if let Some(value) = value {
                self.bool(key, value)?;
            }
        }
        if !settings.roundup_power2_divisions.is_empty() {
            self.word(Key::RoundupPower2Divisions.as_str())?;
            self.writer.empty_dict()?;
            self.writer.mark()?;
            for &(interval, divisions) in &settings.roundup_power2_divisions {
                self.writer.str(&interval.to_string())?;
                self.writer.int(divisions.into())?;
            }
            self.writer.set_items()?;
        }
        self.extra(&settings.extra)?;
        self.writer.set_items()
    }

    /// `frames`: the list of a stack, and in it the dicts of its frames.
    fn stack(&mut self, id: StackId) -> io::Result<()> {
        self.word(Key::Frames.as_str())?;
        let ids = self.snapshot.stacks.ids(id);
        if let Some(memo) = self.shared.stacks.get(id.index()).and_then(|it| it.memo) {
            return self.writer.get(memo);
        }
        self.writer.empty_list()?;
        if ids.is_empty() {
            return Ok(());
        }
        if let Some(shared) = self.shared.stacks.get_mut(id.index()) {
            shared.memoize(&mut self.writer)?;
        }
        self.writer.mark()?;
        for &frame in ids {
            self.frame(frame)?;
        }
        self.writer.appends()
    }

    fn frame(&mut self, id: FrameId) -> io::Result<()> {
        let Some(frame) = self.snapshot.stacks.frame(id) else {
            return self.writer.none();
        };
        if let Some(memo) = self.shared.frames[id.index()].memo {
            return self.writer.get(memo);
        }
        self.writer.empty_dict()?;
        self.shared.frames[id.index()].memoize(&mut self.writer)?;
        self.writer.mark()?;
        self.word(Key::Name.as_str())?;
        self.text(&frame.name)?;
        self.word(Key::Filename.as_str())?;
        self.text(&frame.filename)?;
        self.int(Key::Line, frame.line)?;
        for (key, text) in frame.fx.iter().flat_map(|fx| fx.texts()) {
            if let Some(text) = text {
                self.word(key.as_str())?;
                self.text(text)?;
            }
        }
        self.extra(&frame.extra)?;
        self.writer.set_items()
    }

    // What all of these are made of.

    fn list<T>(&mut self, items: &'a [T], mut write: impl FnMut(&mut Self, &'a T) -> io::Result<()>) -> io::Result<()> {
        self.writer.empty_list()?;
        for batch in items.chunks(BATCH) {
            self.writer.mark()?;
            for item in batch {
                write(self, item)?;
            }
            self.writer.appends()?;
        }
        Ok(())
    }

    fn int(&mut self, key: Key, value: impl Into<i128>) -> io::Result<()> {
        self.word(key.as_str())?;
        self.writer.int(value.into())
    }

    fn bool(&mut self, key: Key, value: bool) -> io::Result<()> {
        self.word(key.as_str())?;
        self.writer.bool(value)
    }

    fn pool(&mut self, key: Key, pool: PoolId) -> io::Result<()> {
        self.word(key.as_str())?;
        if let Some(&memo) = self.pools.get(&pool) {
            return self.writer.get(memo);
        }
        let (first, second) = pool.pair();
        self.writer.int(first.into())?;
        self.writer.int(second.into())?;
        self.writer.tuple(2)?;
        self.pools.insert(pool, self.writer.memoize()?);
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> io::Result<()> {
        if let Some(&memo) = self.words.get(word) {
            return self.writer.get(memo);
        }
        self.writer.str(word)?;
        self.words.insert(word, self.writer.memoize()?);
        Ok(())
    }

    fn text(&mut self, text: &Arc<str>) -> io::Result<()> {
        let Some(row) = self.shared.texts.get_mut(text) else {
            return self.writer.str(text);
        };
        if let Some(memo) = row.memo {
            return self.writer.get(memo);
        }
        self.writer.str(text)?;
        row.memoize(&mut self.writer)
    }

    fn extra(&mut self, extra: &Extra) -> io::Result<()> {
        let values = &self.snapshot.values;
        for &(key, value) in extra {
            self.shared.values.write(values, key, &mut self.writer)?;
            self.shared.values.write(values, value, &mut self.writer)?;
        }
        Ok(())
    }
}
