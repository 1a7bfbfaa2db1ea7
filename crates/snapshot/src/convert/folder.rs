//! Trace entries and frames, made into rows as soon as their dicts are filled.
//!
//! A snapshot is nearly all trace entries. Each becomes 64 bytes while the file is still being
//! read, so that its dict and its list of frames never all stand in memory at once.

use rustc_hash::FxHashMap;

use super::error::ModelError;
use super::keys::{Key, Keys, TextCache};
use super::read;
use super::texts::{TextId, Texts};
use super::unfold::Unfolder;
use crate::model::Extra;
use crate::notes::{Notes, NotesId, NotesTable};
use crate::pickle::PickleError;
use crate::pickle::arena::{Arena, Kind};
use crate::pickle::import::Importer;
use crate::pickle::machine::Fold;
use crate::pickle::word::{Item, Word};
use crate::stacks::{Frame, FrameId, FxNode, StackId, Stacks};
use crate::trace::{Action, TraceEntry};
use crate::values::{ValueId, Values, last_value_wins};

type Result<T> = std::result::Result<T, ModelError>;

/// What has been made of the file so far.
pub(crate) struct Folder {
    pub rows: Vec<TraceEntry>,
    pub stacks: Stacks,
    pub notes: NotesTable,
    pub values: Values,
    pub keys: Keys,
    pub texts: Texts,
    importer: Importer,
    actions: TextCache<Option<Action>>,
    /// Notes without unknown keys, by compile context and user and internal metadata.
    plain_notes: FxHashMap<[Option<TextId>; 3], NotesId>,
    /// Frames and stacks that the model cannot give back as they were: their dicts and lists are
    /// left alone.
    odd_frames: FxHashMap<u32, FrameId>,
    odd_stacks: FxHashMap<u32, StackId>,
    /// A stack's frames while it is interned.
    frames: Vec<FrameId>,
    /// Bytes that the values of unknown keys may take.
    limit: usize,
    /// While the file is being read, what cannot be folded is left alone and not tried again.
    /// Afterwards it is an error, and that error is wanted.
    is_reading: bool,
}

impl Folder {
    pub fn new(limit: usize) -> Self {
        Self {
            rows: Vec::new(),
            stacks: Stacks::default(),
            notes: NotesTable::default(),
            values: Values::default(),
            keys: Keys::new(),
            texts: Texts::new(),
            importer: Importer::default(),
            actions: TextCache::new(None),
            plain_notes: FxHashMap::default(),
            odd_frames: FxHashMap::default(),
            odd_stacks: FxHashMap::default(),
            frames: Vec::new(),
            limit,
            is_reading: true,
        }
    }

    /// Says that the file has been read.
    pub fn end_reading(&mut self) {
        self.is_reading = false;
    }

    /// The trace entry that a dict with these items is.
    pub fn row(&mut self, arena: &mut Arena<'_>, items: &[Word]) -> Result<TraceEntry> {
        let mut row = TraceEntry::default();
        let (mut action, mut addr, mut device_free, mut frames) = (None, None, None, None);
        let mut texts = [None; 3];
        let mut unknown = Vec::new();
        for pair in items.chunks_exact(2) {
            let value = pair[1];
            let key = self.keys.get(arena, pair[0]);
            let at = |error: ModelError| error.within(key.as_str());
            match key {
                Key::Action => action = Some(value),
                Key::Addr => addr = Some(pair),
                Key::DeviceFree => device_free = Some(pair),
                Key::Size => row.size = read::unsigned(arena, value).map_err(at)?,
                Key::Stream => row.stream = read::address(arena, value).map_err(at)?,
                Key::TimeUs => row.time_us = Some(read::time(arena, value).map_err(at)?),
                Key::PoolId => row.pool = Some(read::pool(arena, value).map_err(at)?),
                Key::Frames => frames = Some(value),
                Key::CompileContext => self.text(arena, pair, &mut texts[0], &mut unknown),
                Key::UserMetadata => self.text(arena, pair, &mut texts[1], &mut unknown),
                Key::InternalMetadata => self.text(arena, pair, &mut texts[2], &mut unknown),
                _ => unknown.extend_from_slice(pair),
            }
        }
        let word = action.ok_or_else(|| ModelError::missing("action"))?;
        let known = self.action(arena, word).map_err(|error| error.within("action"))?;
        row.action = known.unwrap_or(Action::Other);
        // R9.9: an oom has device_free in place of addr. The other one is a key like any other.
        let (figure, other) = match row.action {
            Action::Oom if device_free.is_some() => (device_free, addr),
            _ => (addr, device_free),
        };
        if let Some(pair) = figure {
            row.addr = read::address(arena, pair[1]).map_err(|error| error.within("addr"))?;
        }
        unknown.extend_from_slice(other.unwrap_or_default());
        if let Some(frames) = frames {
            let stack = self.stack(arena, frames);
            row.stack = Some(stack.map_err(|error| error.within("frames"))?);
        }
        let word = known.is_none().then_some(word);
        row.notes = self.notes(arena, texts, word, &unknown)?;
        Ok(row)
    }

    /// Keeps a text of the notes; a value of another kind is an unknown one.
    fn text(&mut self, arena: &Arena<'_>, pair: &[Word], text: &mut Option<TextId>, unknown: &mut Vec<Word>) {
        match self.texts.intern(arena, pair[1]) {
            None => unknown.extend_from_slice(pair),
            known => *text = known,
        }
    }

    /// The action that a text names; `None` for a text of a later PyTorch.
    fn action(&mut self, arena: &Arena<'_>, word: Word) -> Result<Option<Action>> {
        let Item::Text(position) = word.item() else {
            return Err(ModelError::wrong(arena, word, "a text"));
        };
        let read = || Action::from_word(arena.text_bytes(position));
        Ok(self.actions.get(word, read))
    }

    fn notes(
        &mut self,
        arena: &mut Arena<'_>,
        texts: [Option<TextId>; 3],
        action: Option<Word>,
        unknown: &[Word],
    ) -> Result<NotesId> {
        let plain = action.is_none() && unknown.is_empty();
        if plain && let Some(&known) = self.plain_notes.get(&texts) {
            return Ok(known);
        }
        let extra = self.extra(arena, unknown)?;
        let action = action.and_then(|word| self.texts.intern(arena, word));
        let [compile_context, user_metadata, internal_metadata] = texts.map(|text| text.map(|id| self.texts.get(id)));
        let id = self.notes.intern(Notes {
            compile_context,
            user_metadata,
            internal_metadata,
            action: action.map(|id| self.texts.get(id)),
            extra,
        });
        if plain {
            self.plain_notes.insert(texts, id);
        }
        Ok(id)
    }

    /// The stack that a list of frames is.
    pub fn stack(&mut self, arena: &mut Arena<'_>, word: Word) -> Result<StackId> {
        let Item::Node(id) = word.item() else {
            return match word.item() {
                Item::None => Ok(StackId::EMPTY),
                _ => Err(ModelError::wrong(arena, word, "a list of frames")),
            };
        };
        let kind = arena.kind(id);
        match kind {
            Kind::Stack(stack) => return Ok(stack),
            Kind::List if !(self.is_reading && arena.is_refused(id)) => {}
            Kind::Tuple if !self.is_reading => {}
            _ => return Err(ModelError::wrong(arena, word, "a list of frames")),
        }
        if let Some(&stack) = self.odd_stacks.get(&id) {
            return Ok(stack);
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let done = self.frames_of(arena, id, &mut frames);
        let stack = self.stacks.intern_ids(if done.is_ok() { &frames } else { &[] });
        self.frames = frames;
        match done {
            Ok(true) => arena.fold(id, Kind::Stack(stack)),
            Ok(false) => drop(self.odd_stacks.insert(id, stack)),
            Err(_) => arena.refuse(id),
        }
        done.map(|_| stack)
    }

    /// Puts the frames of a list into `frames`; says whether they can all be unfolded again to
    /// exactly what they were.
    fn frames_of(&mut self, arena: &mut Arena<'_>, list: u32, frames: &mut Vec<FrameId>) -> Result<bool> {
        let mut is_exact = arena.kind(list) == Kind::List;
        for index in 0..arena.items(list).len() {
            let item = arena.items(list)[index];
            let known = match item.item() {
                Item::Node(id) => Some((id, arena.kind(id))),
                _ => None,
            };
            let frame = match known {
                Some((_, Kind::Frame(frame))) => Ok(frame),
                Some((id, Kind::Dict)) if !self.is_reading => {
                    is_exact = false;
                    self.odd_frame(arena, id)
                }
                _ => Err(ModelError::wrong(arena, item, "a frame (a dict)")),
            };
            frames.push(frame.map_err(|error| error.within(format_args!("[{index}]")))?);
        }
        Ok(is_exact)
    }

    /// A frame in which something is missing.
    fn odd_frame(&mut self, arena: &mut Arena<'_>, dict: u32) -> Result<FrameId> {
        if let Some(&frame) = self.odd_frames.get(&dict) {
            return Ok(frame);
        }
        let items = arena.items(dict).to_vec();
        let frame = self.frame(arena, &items)?;
        self.odd_frames.insert(dict, frame);
        Ok(frame)
    }

    /// The frame that a dict with these items is.
    fn frame(&mut self, arena: &mut Arena<'_>, items: &[Word]) -> Result<FrameId> {
        let mut frame = Frame::default();
        let mut fx = FxNode::default();
        let mut unknown = Vec::new();
        for pair in items.chunks_exact(2) {
            let key = self.keys.get(arena, pair[0]);
            let place = match key {
                Key::Name => &mut frame.name,
                Key::Filename => &mut frame.filename,
                Key::Line => {
                    frame.line = read::signed(arena, pair[1]).map_err(|error| error.within(key.as_str()))?;
                    continue;
                }
                _ => {
                    let fx = match key {
                        Key::FxNodeOp => Some(&mut fx.op),
                        Key::FxNodeName => Some(&mut fx.name),
                        Key::FxNodeInfo => Some(&mut fx.info),
                        Key::FxOriginalTrace => Some(&mut fx.original_trace),
                        _ => None,
                    };
                    match (fx, self.texts.intern(arena, pair[1])) {
                        (Some(place), Some(text)) => *place = Some(self.texts.get(text)),
                        _ => unknown.extend_from_slice(pair),
                    }
                    continue;
                }
            };
            let text = self
                .texts
                .intern(arena, pair[1])
                .ok_or_else(|| ModelError::wrong(arena, pair[1], "a text").within(key.as_str()))?;
            *place = self.texts.get(text);
        }
        if fx != FxNode::default() {
            frame.fx = Some(Box::new(fx));
        }
        frame.extra = self.extra(arena, &unknown)?;
        Ok(self.stacks.intern_frame(frame))
    }

    /// Unknown keys and values, kept; of a key that comes twice the last.
    pub fn extra(&mut self, arena: &mut Arena<'_>, items: &[Word]) -> Result<Extra> {
        let mut pairs = Vec::with_capacity(items.len());
        for pair in items.chunks_exact(2) {
            let key = self.value(arena, pair[0])?;
            if !self.values.is_hashable(key) {
                return Err(PickleError::UnhashableKey.into());
            }
            let value = self
                .value(arena, pair[1])
                .map_err(|error| error.within(self.values.text(key).unwrap_or("(a key that is no text)")))?;
            pairs.extend([key, value]);
        }
        let pairs = last_value_wins(&pairs);
        Ok(pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }

    /// A value as it stands.
    pub fn value(&mut self, arena: &mut Arena<'_>, word: Word) -> Result<ValueId> {
        let unfolder = Unfolder { rows: &self.rows, stacks: &self.stacks, notes: &self.notes };
        let limit = self.limit;
        let id = self.importer.import(arena, &unfolder, &mut self.values, word, limit)?;
        Ok(id)
    }
}

/// What a dict is by its keys.
enum Shape {
    Entry,
    Frame,
}

impl Folder {
    /// Whether a dict is an entry or a frame that can be unfolded again to exactly what it was.
    ///
    /// One that only looks like it stays a dict. If it stands where an entry or a frame is needed
    /// it is read again then, and what is wrong with it is said.
    fn shape(&mut self, arena: &Arena<'_>, items: &[Word]) -> Option<Shape> {
        let mut keys = 0;
        let mut action = None;
        for pair in items.chunks_exact(2) {
            let key = self.keys.get(arena, pair[0]);
            let is_exact = match (key, pair[1].item()) {
                (Key::Addr | Key::DeviceFree | Key::Stream, _) => arena.int(pair[1])? >= 0,
                (Key::PoolId, Item::Pair(..)) => true,
                (Key::PoolId, Item::Node(id)) => arena.kind(id) == Kind::Tuple,
                (Key::Frames, Item::Node(_)) => true,
                (Key::Action, Item::Text(_)) => {
                    action = Some(pair[1]);
                    true
                }
                (Key::PoolId | Key::Frames | Key::Action, _) => false,
                (Key::Unknown, _) => continue,
                // Segments, blocks and the rest are told from entries and frames by their own keys.
                (key, _) => key.is_of_entry_or_frame(),
            };
            if !is_exact || keys & key.bit() != 0 {
                return None;
            }
            keys |= key.bit();
        }
        let has = |wanted: &[Key]| wanted.iter().all(|key| keys & key.bit() != 0);
        if let Some(action) = action {
            let figure = match self.action(arena, action) {
                Ok(Some(Action::Oom)) => Key::DeviceFree,
                _ => Key::Addr,
            };
            return has(&[figure, Key::Size, Key::Stream]).then_some(Shape::Entry);
        }
        has(&[Key::Name, Key::Filename, Key::Line]).then_some(Shape::Frame)
    }
}

impl Fold for Folder {
    fn fold(&mut self, arena: &mut Arena<'_>, items: &[Word]) -> Option<Kind> {
        match self.shape(arena, items)? {
            Shape::Entry => {
                let id = u32::try_from(self.rows.len()).ok()?;
                let row = self.row(arena, items).ok()?;
                self.rows.push(row);
                Some(Kind::Row(id))
            }
            Shape::Frame => self.frame(arena, items).ok().map(Kind::Frame),
        }
    }

    fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<TraceEntry>()
            + self.stacks.memory()
            + self.notes.memory()
            + self.values.memory()
            + self.texts.memory()
            + self.importer.memory()
            + self.plain_notes.capacity() * 17
            + (self.odd_frames.capacity() + self.odd_stacks.capacity()) * 9
    }
}
