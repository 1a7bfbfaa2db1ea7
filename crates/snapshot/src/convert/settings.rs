//! The allocator's settings (R9.14).

use super::keys::Key;
use super::{Converter, Result, read};
use crate::pickle::arena::Kind;
use crate::pickle::word::{Item, Word};
use crate::settings::Settings;
use crate::values::Plain;

impl Converter<'_> {
    pub(super) fn settings(&mut self, word: Word) -> Result<Settings> {
        let mut settings = Settings::default();
        let mut unknown = Vec::new();
        let name = Key::AllocatorSettings.as_str();
        if let Item::Node(id) = word.item()
            && matches!(self.arena.kind(id), Kind::Row(_) | Kind::Frame(_))
        {
            // By its keys it is something else, so none of them is a setting.
            let id = self.folder.value(&mut self.arena, word).map_err(|error| error.within(name))?;
            if let Plain::Dict(items) = self.folder.values.get(id) {
                settings.extra = items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            }
            return Ok(settings);
        }
        let items = read::dict(&self.arena, word).map_err(|error| error.within(name))?;
        let items = items.to_vec();
        for pair in items.chunks_exact(2) {
            let known = self.setting(pair, &mut settings);
            if known.is_none() {
                unknown.extend_from_slice(pair);
            }
        }
        settings.extra = self.folder.extra(&mut self.arena, &unknown).map_err(|error| error.within(name))?;
        Ok(settings)
    }

    /// Sets what a pair of key and value says; `None` if the model has no place for it.
    fn setting(&mut self, pair: &[Word], settings: &mut Settings) -> Option<()> {
        let (arena, value) = (&self.arena, pair[1]);
        let boolean = match value.item() {
            Item::Bool(value) => Some(value),
            _ => None,
        };
        let integer = read::signed(arena, value).ok();
        match self.folder.keys.get(arena, pair[0]) {
            Key::Conf => settings.conf = Some(read::text(arena, value).ok()?.into()),
            Key::MaxSplitSize => settings.max_split_size = Some(integer?),
            Key::GarbageCollectionThreshold => {
                let Item::Float(position) = value.item() else {
                    return None;
                };
                settings.garbage_collection_threshold = Some(arena.float(position));
            }
            Key::ExpandableSegments => settings.expandable_segments = Some(boolean?),
            Key::PinnedNumRegisterThreads => settings.pinned_num_register_threads = Some(integer?),
            Key::ReleaseLockOnCudamalloc => settings.release_lock_on_cudamalloc = Some(boolean?),
            Key::PinnedUseCudaHostRegister => {
                settings.pinned_use_cuda_host_register = Some(boolean?);
            }
            Key::GraphCaptureRecordStreamReuse => {
                settings.graph_capture_record_stream_reuse = Some(boolean?);
            }
            Key::MaxRoundThreshold => settings.max_round_threshold = Some(integer?),
            Key::MaxCachedSize => settings.max_cached_size = Some(integer?),
            Key::RoundupPower2Divisions => {
                settings.roundup_power2_divisions = self.divisions(value)?;
            }
            _ => return None,
        }
        Some(())
    }

    fn divisions(&self, word: Word) -> Option<Vec<(u64, u64)>> {
        let items = read::dict(&self.arena, word).ok()?;
        let mut divisions = Vec::new();
        for pair in items.chunks_exact(2) {
            let text = read::text(&self.arena, pair[0]).ok()?;
            let interval: u64 = text.parse().ok()?;
            // "+1" or "01" would not be written back as it was.
            let is_plain = interval.to_string() == text;
            let is_new = divisions.iter().all(|&(known, _)| known != interval);
            if !is_plain || !is_new {
                return None;
            }
            divisions.push((interval, read::unsigned(&self.arena, pair[1]).ok()?));
        }
        // An empty dict is kept as an unknown value, since an empty list here means no dict.
        (!divisions.is_empty() && divisions.len() <= 64).then_some(divisions)
    }
}
