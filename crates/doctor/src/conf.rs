//! Settings as text: one changed in a string, and the grid of those worth trying.

use millpond::config::{ConfigError, Settings};

/// The default grid of a sweep: each key alone at a few values, and the pairs that people combine. Every one is laid over the
/// base settings. A threshold of garbage collection does something only below a limit, so it comes with one.
pub const GRID: [&str; 24] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "max_split_size_mb:64",
    "max_split_size_mb:128",
    "max_split_size_mb:256",
    "max_split_size_mb:512",
    "max_split_size_mb:1024",
    "expandable_segments:True,max_split_size_mb:128",
    "expandable_segments:True,max_split_size_mb:512",
    "max_split_size_mb:128,max_non_split_rounding_mb:64",
    "max_split_size_mb:512,max_non_split_rounding_mb:256",
    "large_segment_size_mb:32",
    "large_segment_size_mb:64",
    "large_segment_size_mb:128",
    "expandable_segments:True,large_segment_size_mb:64",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:16",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "expandable_segments:True,roundup_power2_divisions:8",
    "garbage_collection_threshold:0.6,per_process_memory_fraction:0.98",
    "garbage_collection_threshold:0.8,per_process_memory_fraction:0.98",
    "max_split_size_mb:128,garbage_collection_threshold:0.8,per_process_memory_fraction:0.98",
];

/// Settings that were understood, with the text that says them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conf {
    /// The string.
    pub text: String,
    /// What it means.
    pub settings: Settings,
}

impl Conf {
    /// Reads a settings string: PyTorch's keys and Millpond's, as `MILLPOND_CONF` is read.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        let (settings, _) = Settings::written(text)?;
        Ok(Conf { text: text.to_owned(), settings })
    }

    /// Settings that a file states, and a string that says the same. Files before 2023 state single keys and no string.
    pub fn recorded(settings: &Settings) -> Self {
        let said = Conf::read(&settings.text).ok().filter(|said| is_same(&said.settings, settings));
        let text = said.map_or_else(|| spelled(settings), |said| said.text);
        Conf { text, settings: settings.clone() }
    }

    /// These settings with the keys of `change` in place of their own; `None` if the two do not go together.
    pub fn with(&self, change: &str) -> Option<Self> {
        let changed: Vec<&str> = pairs(change);
        let is_changed = |pair: &&str| changed.iter().any(|other| key(other) == key(pair));
        let kept = pairs(&self.text).into_iter().filter(|pair| !is_changed(pair));
        let text = kept.chain(changed.iter().copied()).collect::<Vec<_>>().join(",");
        Conf::read(&text).ok()
    }

    /// Whether both do the same, however they are written.
    pub fn is_same(&self, other: &Conf) -> bool {
        is_same(&self.settings, &other.settings)
    }
}

fn is_same(one: &Settings, other: &Settings) -> bool {
    Settings { text: String::new(), ..one.clone() } == Settings { text: String::new(), ..other.clone() }
}

/// The pairs of a string; commas inside of brackets divide nothing.
fn pairs(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let divides = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(divides).map(str::trim).filter(|pair| !pair.is_empty()).collect()
}

fn key(pair: &str) -> &str {
    pair.split(':').next().unwrap_or(pair).trim()
}

/// The keys that a file states beside its string, as a string.
fn spelled(settings: &Settings) -> String {
    let default = Settings::default();
    let mut pairs = Vec::new();
    if settings.expandable_segments {
        pairs.push("expandable_segments:True".to_owned());
    }
    if settings.max_split_size != default.max_split_size {
        pairs.push(format!("max_split_size_mb:{}", settings.max_split_size >> 20));
    }
    if settings.garbage_collection_threshold != default.garbage_collection_threshold {
        pairs.push(format!("garbage_collection_threshold:{}", settings.garbage_collection_threshold));
    }
    if settings.roundup_power2_divisions != default.roundup_power2_divisions {
        let entries = settings.roundup_power2_divisions.iter().enumerate();
        let entries: Vec<String> = entries.map(|(index, divisions)| format!("{}:{divisions}", 1u64 << index)).collect();
        pairs.push(format!("roundup_power2_divisions:[{}]", entries.join(",")));
    }
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_understood_and_says_nothing_twice() {
        let confs: Vec<Conf> = GRID.iter().map(|text| Conf::read(text).expect(text)).collect();
        for (index, conf) in confs.iter().enumerate() {
            assert!(confs[..index].iter().all(|other| !conf.is_same(other)), "{}", conf.text);
        }
    }

    #[test]
    fn a_changed_key_takes_the_place_of_the_old_one() {
        let base = Conf::read("roundup_power2_divisions:[256:1,>:4], max_split_size_mb:64").unwrap();
        let changed = base.with("max_split_size_mb:128,expandable_segments:True").unwrap();
        assert_eq!(changed.text, "roundup_power2_divisions:[256:1,>:4],max_split_size_mb:128,expandable_segments:True");
        assert!(changed.settings.expandable_segments && changed.settings.max_split_size == 128 << 20);
        assert!(base.with("").unwrap().is_same(&base));
        assert_eq!(base.with("max_split_size_mb:1"), None);
    }

    #[test]
    fn what_a_file_states_without_a_string_is_spelled_out() {
        let settings = Settings { expandable_segments: true, ..Settings::default() };
        assert_eq!(Conf::recorded(&settings).text, "expandable_segments:True");
        let (mut settings, _) = Settings::parse("roundup_power2_divisions:[1:2,4:8]").unwrap();
        settings.text.clear();
        let recorded = Conf::recorded(&settings);
        assert!(Conf::read(&recorded.text).unwrap().is_same(&recorded), "{}", recorded.text);
    }
}
