//! PyTorch's dialect (R10.5–R10.16): two passes over one string, effects from left to right, separators taken unseen.

use std::collections::BTreeMap;

use super::error::{Assertion, ConfigError, Moment, Problem};
use super::keys::{Key, Owner};
use super::reader::{Tokens, bytes, reserve};
use super::settings::{Backend, MIB, Settings};
use super::strict;
use super::warning::Warning;

/// The backend that `import torch` finds: the first `backend` key decides (R6.1, R10.3). A string that ends too early before it
/// ends the process.
pub(super) fn backend_at_import(text: &str) -> Result<Backend, ConfigError> {
    let tokens = Tokens::new(text, Moment::Import);
    let mut index = 0;
    while index < tokens.len() {
        if tokens.is(index, Key::Backend.name()) {
            tokens.word(index, index + 1, Assertion::Index)?;
            let is_async = tokens.word(index, index + 2, Assertion::Word)? == Backend::CudaMallocAsync.name();
            return Ok(if is_async { Backend::CudaMallocAsync } else { Backend::Native });
        }
        index = next_pair(tokens.skip_pair(index)?);
    }
    Ok(Backend::Native)
}

/// The settings of a process whose generic keys stand in one string and whose CUDA keys in another, mostly the same (R10.1, R10.2).
pub(super) fn start(generic: &str, cuda: &str) -> Result<(Settings, Vec<Warning>), Refused> {
    let from_cuda = |error| Refused { by: Owner::Cuda, error };
    let backend = backend_at_import(cuda).map_err(from_cuda)?;
    let mut settings = Settings { backend, ..Settings::default() };
    let mut warnings = Vec::new();
    // CUDA's part happens to be asked for first; the other backend never asks for it (R10.19).
    if backend == Backend::Native {
        cuda_pass(&mut settings, &Tokens::new(cuda, Moment::FirstUse), &mut warnings).map_err(from_cuda)?;
    }
    generic_pass(&mut settings, &Tokens::new(generic, Moment::FirstUse), &mut warnings)
        .map_err(|error| Refused { by: Owner::Generic, error })?;
    Ok((settings, warnings))
}

/// An error at the start, and which parser met it.
pub(super) struct Refused {
    pub(super) by: Owner,
    pub(super) error: ConfigError,
}

/// Applies a string at run time. On error what stands left of it stays applied, and the text is remembered (R10.11).
pub(super) fn apply(settings: &mut Settings, text: &str) -> Result<Vec<Warning>, ConfigError> {
    let tokens = Tokens::new(text, Moment::Call);
    let mut warnings = Vec::new();
    generic_pass(settings, &tokens, &mut warnings)?;
    cuda_pass(settings, &tokens, &mut warnings)?;
    Ok(warnings)
}

fn generic_pass(settings: &mut Settings, tokens: &Tokens, warnings: &mut Vec<Warning>) -> Result<(), ConfigError> {
    settings.max_split_size = u64::MAX;
    settings.roundup_power2_divisions = [0; 16];
    settings.garbage_collection_threshold = 0.0;
    settings.text = tokens.text().into();

    // The first look for it takes every token of that name, even one that is no key.
    let mut index = 0;
    while index < tokens.len() {
        if tokens.is(index, Key::LargeSegmentSizeMb.name()) {
            index = set(settings, tokens, Key::LargeSegmentSizeMb, index, warnings)?;
        }
        index += 1;
    }
    settings.max_non_split_rounding = settings.large_segment_size;

    let mut seen = Seen::default();
    pass(tokens, Owner::Generic, |key, index| {
        seen.note(key, index, tokens);
        match key {
            Key::LargeSegmentSizeMb => tokens.skip_pair(index),
            key => set(settings, tokens, key, index, warnings),
        }
    })?;
    seen.warn(settings, warnings);
    Ok(())
}

fn cuda_pass(settings: &mut Settings, tokens: &Tokens, warnings: &mut Vec<Warning>) -> Result<(), ConfigError> {
    let mut seen = Seen::default();
    pass(tokens, Owner::Cuda, |key, index| {
        seen.note(key, index, tokens);
        set(settings, tokens, key, index, warnings)
    })?;
    seen.warn(settings, warnings);
    Ok(())
}

/// The keys whose meeting in one string is worth a warning.
#[derive(Default)]
pub(super) struct Seen {
    rounds: bool,
    caches: bool,
    is_async: bool,
    is_native_too: bool,
}

impl Seen {
    pub(super) fn note(&mut self, key: Key, index: usize, tokens: &Tokens) {
        self.rounds |= key == Key::PinnedMaxRoundThresholdMb;
        self.caches |= key == Key::PinnedMaxCachedSizeMb;
        self.is_async |= key == Key::Backend && tokens.is(index + 2, Backend::CudaMallocAsync.name());
        self.is_native_too |= key != Key::Backend && key.owner() == Owner::Cuda;
    }

    pub(super) fn warn(&self, settings: &Settings, warnings: &mut Vec<Warning>) {
        let (round, cached) = (settings.pinned_max_round_threshold, settings.pinned_max_cached_size);
        if self.rounds && self.caches && round > cached {
            warnings.push(Warning::PinnedRoundAboveCached { round: round / MIB, cached: cached / MIB });
        }
        if self.is_async && self.is_native_too {
            warnings.push(Warning::AsyncIgnores);
        }
    }
}

/// One parser's way through the string: its own keys go to `set`, the other's are skipped, unknown ones end it.
fn pass(
    tokens: &Tokens,
    owner: Owner,
    mut set: impl FnMut(Key, usize) -> Result<usize, ConfigError>,
) -> Result<(), ConfigError> {
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let last = match Key::find(&token.text).filter(|key| key.owner() != Owner::Millpond) {
            Some(key) if key.owner() == owner => set(key, index)?,
            Some(_) => tokens.skip_pair(index)?,
            None => {
                let key = token.text.clone();
                return Err(tokens.error(index, Problem::UnknownKey { key, parser: owner }));
            }
        };
        index = next_pair(last);
    }
    Ok(())
}

/// Behind the last token of a pair one token is passed over, whatever it is (R10.7).
fn next_pair(last: usize) -> usize {
    last + 2
}

/// Sets the key that stands at `at`: the index of the last token of its value.
pub(super) fn set(
    settings: &mut Settings,
    tokens: &Tokens,
    key: Key,
    at: usize,
    warnings: &mut Vec<Warning>,
) -> Result<usize, ConfigError> {
    tokens.word(at, at + 1, Assertion::Index)?;
    let value = at + 2;
    let whole = || tokens.whole(key, at, value);
    let flag = || tokens.flag(key, at, value);
    match key {
        Key::LargeSegmentSizeMb => {
            let mib = whole()?;
            if mib <= 10 {
                return Err(tokens.not_allowed(key, value));
            }
            settings.large_segment_size = bytes(mib);
        }
        Key::MaxSplitSizeMb => settings.max_split_size = oversize(settings, tokens, key, at)?,
        Key::MaxNonSplitRoundingMb => settings.max_non_split_rounding = oversize(settings, tokens, key, at)?,
        Key::GarbageCollectionThreshold => {
            let fraction = tokens.real(key, at, value)?;
            if !(fraction > 0.0 && fraction < 1.0) {
                return Err(tokens.not_allowed(key, value));
            }
            settings.garbage_collection_threshold = fraction;
        }
        Key::RoundupPower2Divisions => {
            return divisions(&mut settings.roundup_power2_divisions, tokens, at);
        }
        Key::ExpandableSegments => settings.expandable_segments = flag()?,
        Key::PinnedUseBackgroundThreads => settings.pinned_use_background_threads = flag()?,
        Key::PinnedMaxRoundThresholdMb => settings.pinned_max_round_threshold = bytes(whole()?),
        Key::PinnedMaxCachedSizeMb => settings.pinned_max_cached_size = bytes(whole()?),
        Key::Backend => backend(settings, tokens, at)?,
        Key::ReleaseLockOnCudamalloc => settings.release_lock_on_cudamalloc = flag()?,
        Key::PinnedUseCudaHostRegister => settings.pinned_use_cuda_host_register = flag()?,
        Key::PinnedNumRegisterThreads => {
            let threads = whole()?;
            if !threads.is_power_of_two() || threads > 128 {
                return Err(tokens.error(value, Problem::Threads { threads }));
            }
            settings.pinned_num_register_threads = threads;
        }
        Key::PinnedReserveSegmentSizeMb => {
            let mib = whole()?;
            if mib == 0 {
                return Err(tokens.not_allowed(key, value));
            }
            settings.pinned_reserve_segment_size = bytes(mib);
        }
        Key::PinnedFreeCatchAll => settings.pinned_free_catch_all = flag()?,
        Key::GraphCaptureRecordStreamReuse => settings.graph_capture_record_stream_reuse = flag()?,
        Key::PerProcessMemoryFraction => {
            let fraction = tokens.real(key, at, value)?;
            if !(0.0..=1.0).contains(&fraction) {
                return Err(tokens.not_allowed(key, value));
            }
            settings.per_process_memory_fraction = fraction;
        }
        Key::ThrowOnCudamallocOom => settings.throw_on_cudamalloc_oom = flag()?,
        Key::ExpandableSegmentsReserve => {
            let value = tokens.word(at, value, Assertion::Word)?;
            match reserve(value) {
                // Once set it cannot be unset (R4.31).
                Some(reserve) => settings.expandable_segments_reserve = Some(reserve),
                None => warnings.push(Warning::Reserve { value: value.into() }),
            }
        }
        Key::ExpandableSegmentsReserveByClass => {
            return reserve_by_class(settings, tokens, at, warnings);
        }
        Key::Preset | Key::RetryAfterSync | Key::PageReuse | Key::PageSizeMb | Key::PinnedSizeClasses => {
            return strict::set(settings, tokens, key, at);
        }
    }
    Ok(value)
}

fn oversize(settings: &Settings, tokens: &Tokens, key: Key, at: usize) -> Result<u64, ConfigError> {
    let mib = tokens.whole(key, at, at + 2)?;
    let least = settings.large_segment_size / MIB;
    if mib < least {
        return Err(tokens.error(at + 2, Problem::BelowLargeSegment { key, mib, least }));
    }
    Ok(bytes(mib))
}

fn backend(settings: &mut Settings, tokens: &Tokens, at: usize) -> Result<(), ConfigError> {
    let asked = tokens.word(at, at + 2, Assertion::Word)?;
    let chosen = settings.backend.name();
    if ![Backend::Native.name(), Backend::CudaMallocAsync.name()].contains(&asked) {
        return Err(tokens.error(at + 2, Problem::UnknownWord { key: Key::Backend, value: asked.into() }));
    }
    if asked != chosen {
        return Err(tokens.error(at + 2, Problem::BackendIsChosen { asked: asked.into(), chosen }));
    }
    Ok(())
}

/// `roundup_power2_divisions` (R10.14).
fn divisions(table: &mut [u64; 16], tokens: &Tokens, at: usize) -> Result<usize, ConfigError> {
    let key = Key::RoundupPower2Divisions;
    let refuse = |index, in_list| {
        let value = tokens.get(index).map_or_else(String::new, |token| token.text.clone());
        tokens.error(index, Problem::Divisions { value, in_list })
    };
    let mut index = at + 2;
    if tokens.word(at, index, Assertion::Word)? != "[" {
        let value = tokens.whole(key, at, index)?;
        if !value.is_power_of_two() {
            return Err(refuse(index, false));
        }
        table.fill(value);
        return Ok(index);
    }
    let mut is_first = true;
    let mut last_interval = 0;
    index += 1;
    while tokens.word(at, index, Assertion::Divisions)? != "]" {
        let boundary = index;
        tokens.word(at, index + 1, Assertion::Index)?;
        let value = tokens.whole(key, at, index + 2)?;
        if value != 0 && !value.is_power_of_two() {
            return Err(refuse(index + 2, true));
        }
        if tokens.is(boundary, ">") {
            table[last_interval + 1..].fill(value);
        } else {
            let mib = tokens.whole(key, at, boundary)?;
            if !mib.is_power_of_two() {
                let value = tokens.word(at, boundary, Assertion::Index)?.into();
                return Err(tokens.error(boundary, Problem::Interval { value }));
            }
            let interval = (mib.ilog2() as usize).min(table.len() - 1);
            if is_first {
                table[..interval].fill(value);
                is_first = false;
            }
            table[interval] = value;
            last_interval = interval;
        }
        index += 3;
        // One token is passed over as the separator, whatever it is.
        if tokens.word(at, index, Assertion::Word)? != "]" {
            index += 1;
        }
    }
    Ok(index)
}

/// `expandable_segments_reserve_by_class` (R4.26). The map is replaced when the list has been read to its end.
fn reserve_by_class(
    settings: &mut Settings,
    tokens: &Tokens,
    at: usize,
    warnings: &mut Vec<Warning>,
) -> Result<usize, ConfigError> {
    let mut classes = BTreeMap::new();
    // The opening bracket is taken unseen.
    tokens.word(at, at + 2, Assertion::Index)?;
    let mut index = at + 3;
    while tokens.word(at, index, Assertion::Index)? != "]" {
        let class = tokens.word(at, index, Assertion::Word)?;
        tokens.word(at, index + 1, Assertion::Index)?;
        let value = tokens.word(at, index + 2, Assertion::Word)?;
        match reserve(value) {
            Some(reserve) => drop(classes.insert(class.to_string(), reserve)),
            None => warnings.push(Warning::Reserve { value: value.into() }),
        }
        index += 3;
        if tokens.word(at, index, Assertion::Index)? == "," {
            index += 1;
        }
    }
    settings.expandable_segments_reserve_by_class = classes;
    Ok(index)
}

#[cfg(test)]
mod tests;
