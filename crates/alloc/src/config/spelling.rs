//! The nearest valid spelling of a word that is not understood.

use super::keys::{Key, Owner};

/// The nearest of `words`, if few enough letters differ.
pub fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let from: Vec<char> = word.to_lowercase().chars().collect();
    words
        .filter_map(|candidate| {
            let to: Vec<char> = candidate.to_lowercase().chars().collect();
            let most = from.len().min(to.len()) / 3;
            // Words of very different length are far apart: the costly look is spared.
            let is_near = from.len().abs_diff(to.len()) <= most;
            let distance = is_near.then(|| distance(&from, &to)).filter(|&distance| distance <= most)?;
            Some((distance, candidate))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The nearest key; of Millpond's own only where they may stand. A key that only lacks its unit is nearest of all.
pub fn nearest_key(word: &str, with_millpond: bool) -> Option<&'static str> {
    let may_stand = |key: &Key| with_millpond || key.owner() != Owner::Millpond;
    if Key::find(word).is_some() {
        return None;
    }
    let with_unit = Key::find(&format!("{}_mb", word.to_ascii_lowercase())).filter(may_stand);
    with_unit.map(Key::name).or_else(|| nearest(word, Key::all().filter(may_stand).map(Key::name)))
}

/// `True` or `False`, from the ways other tools write them.
pub fn nearest_flag(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "y" | "t" | "enable" | "enabled" => Some("True"),
        "0" | "off" | "no" | "n" | "f" | "disable" | "disabled" | "none" => Some("False"),
        lower => nearest(lower, ["True", "False"].into_iter()),
    }
}

/// How many letters must be put in, left out, replaced or swapped with their neighbour.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1; to.len() + 1];
        for (j, b) in to.iter().enumerate() {
            let mut least = (above[j] + usize::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row[j + 1] = least;
        }
        before = std::mem::replace(&mut above, row);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_find_their_key() {
        for (written, meant) in [
            ("expandable_segment", "expandable_segments"),
            ("Expandable_Segments", "expandable_segments"),
            ("expandabel_segments", "expandable_segments"),
            ("max_split_size", "max_split_size_mb"),
            ("max_splt_size_mb", "max_split_size_mb"),
            ("garbage_collect_threshold", "garbage_collection_threshold"),
            ("roundup_power2_division", "roundup_power2_divisions"),
            ("retry_aftersync", "retry_after_sync"),
        ] {
            assert_eq!(nearest_key(written, true), Some(meant), "{written}");
        }
    }

    #[test]
    fn what_is_far_has_no_neighbour() {
        for word in ["", "nonsense_key", "a", ",", &"x".repeat(100_000)] {
            assert_eq!(nearest_key(word, true), None);
        }
        assert_eq!(nearest_key("retry_aftersync", false), None);
    }

    #[test]
    fn booleans_of_other_tools_are_known() {
        for (written, meant) in [("true", "True"), ("TRUE", "True"), ("1", "True"), ("fasle", "False"), ("0", "False")]
        {
            assert_eq!(nearest_flag(written), Some(meant), "{written}");
        }
        assert_eq!(nearest_flag("maybe"), None);
    }

    #[test]
    fn neighbours_swapped_count_once() {
        for (from, to, letters) in [("abcd", "abdc", 1), ("", "abc", 3), ("kitten", "sitting", 3)] {
            let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
            assert_eq!(distance(&from, &to), letters);
        }
    }
}
