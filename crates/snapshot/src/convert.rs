//! From plain data to the model.

mod error;
pub(crate) mod folder;
pub(crate) mod keys;
mod read;
mod segments;
mod settings;
mod texts;
mod traces;
mod unfold;

pub use error::ModelError;

use crate::model::{Annotation, Snapshot};
use crate::pickle::arena::{Arena, Kind};
use crate::pickle::word::{Item, Word};
use folder::Folder;
use keys::Key;

type Result<T> = std::result::Result<T, ModelError>;

/// What the model is made from: everything that was read, and what has been folded of it.
pub(crate) struct Converter<'a> {
    arena: Arena<'a>,
    folder: Folder,
    /// Bytes that the rows made here may still take.
    left: usize,
}

/// The snapshot that `root` is. `limit` bounds the bytes that all of it may take.
///
/// # Errors
///
/// Says which place of the data is not what a snapshot has there.
pub(crate) fn snapshot(arena: Arena<'_>, mut folder: Folder, root: Word, limit: usize) -> Result<Snapshot> {
    use crate::pickle::machine::Fold;
    let held = arena.memory() + folder.memory();
    folder.end_reading();
    let mut converter = Converter { arena, folder, left: limit.saturating_sub(held) };
    converter.root(root)
}

impl Converter<'_> {
    fn root(&mut self, root: Word) -> Result<Snapshot> {
        let mut snapshot = Snapshot::default();
        match root.item() {
            // C75: some dumps are a bare list of segments.
            Item::Node(id) if self.arena.kind(id) == Kind::List => {
                snapshot.segments = self.segments(root, "segments")?;
            }
            Item::Node(id) if self.arena.kind(id) == Kind::Dict => {
                self.root_dict(id, &mut snapshot)?;
            }
            _ => return Err(self.not_a_snapshot(root)),
        }
        let folder = &mut self.folder;
        snapshot.stacks = std::mem::take(&mut folder.stacks);
        snapshot.notes = std::mem::take(&mut folder.notes);
        snapshot.values = std::mem::take(&mut folder.values);
        Ok(snapshot)
    }

    fn root_dict(&mut self, id: u32, snapshot: &mut Snapshot) -> Result<()> {
        let items = self.arena.items(id).to_vec();
        let mut unknown = Vec::new();
        let (mut device_traces, mut host_traces) = (Vec::new(), Vec::new());
        let mut is_snapshot = false;
        for pair in items.chunks_exact(2) {
            let value = pair[1];
            let key = self.folder.keys.get(&self.arena, pair[0]);
            let name = key.as_str();
            match key {
                Key::Segments => snapshot.segments = self.segments(value, name)?,
                Key::DeviceTraces => device_traces = self.device_traces(value)?,
                Key::AllocatorSettings => snapshot.settings = self.settings(value)?,
                Key::ExternalAnnotations => snapshot.annotations = self.annotations(value)?,
                Key::HostSegments => snapshot.host_segments = self.segments(value, name)?,
                Key::HostTraces => host_traces = self.host_traces(value)?,
                _ => {
                    unknown.extend_from_slice(pair);
                    continue;
                }
            }
            is_snapshot = true;
        }
        if !is_snapshot {
            return Err(self.not_a_snapshot(Word::node(id)));
        }
        snapshot.extra = self.folder.extra(&mut self.arena, &unknown)?;
        // Nothing refers to single rows from here on.
        let devices = device_traces.len();
        device_traces.extend(host_traces);
        let mut traces = self.cut(device_traces)?;
        snapshot.host_traces = match traces.len() - devices {
            1 => traces.pop().unwrap_or_default(),
            _ => traces.drain(devices..).flatten().collect(),
        };
        snapshot.device_traces = traces;
        Ok(())
    }

    /// The keys and values of a dict. Looking at them is charged like memory, so that a large
    /// dict that stands in many places is not read forever.
    fn dict_items(&mut self, word: Word) -> Result<Vec<Word>> {
        let items = read::dict(&self.arena, word)?.to_vec();
        self.charge(2 * size_of_val(items.as_slice()))?;
        Ok(items)
    }

    fn not_a_snapshot(&self, root: Word) -> ModelError {
        ModelError::NotASnapshot { found: error::describe(&self.arena, root) }
    }

    /// Takes `bytes` of what may still be taken.
    fn charge(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(crate::pickle::PickleError::OutOfBounds.into()),
        }
    }

    fn annotations(&mut self, word: Word) -> Result<Vec<Annotation>> {
        let name = Key::ExternalAnnotations.as_str();
        let len = read::list(&self.arena, word).map_err(|error| error.within(name))?.len();
        let mut annotations = Vec::new();
        for index in 0..len {
            let word = read::list(&self.arena, word)?[index];
            self.charge(size_of::<Annotation>())?;
            let annotation = self.annotation(word);
            annotations.push(annotation.map_err(|error| error.within(format_args!("{name}[{index}]")))?);
        }
        Ok(annotations)
    }

    fn annotation(&mut self, word: Word) -> Result<Annotation> {
        let mut annotation = Annotation::default();
        let mut unknown = Vec::new();
        let items = self.dict_items(word)?;
        for pair in items.chunks_exact(2) {
            let (arena, value) = (&self.arena, pair[1]);
            let key = self.folder.keys.get(arena, pair[0]);
            let at = |error: ModelError| error.within(key.as_str());
            match key {
                Key::Name => annotation.name = read::text(arena, value).map_err(at)?.into(),
                Key::Stage => annotation.stage = read::text(arena, value).map_err(at)?.into(),
                Key::Device => annotation.device = read::device(arena, value).map_err(at)?,
                Key::TimeUs => {
                    annotation.time_us = Some(read::unsigned(arena, value).map_err(at)?);
                }
                _ => unknown.extend_from_slice(pair),
            }
        }
        self.charge(annotation.name.len() + annotation.stage.len())?;
        annotation.extra = self.folder.extra(&mut self.arena, &unknown)?;
        Ok(annotation)
    }
}
