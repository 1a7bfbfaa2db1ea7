//! The nearest valid spelling of a word that is not understood.

use super::keys::{Key, Owner};

/// The nearest of `words`, if few enough letters differ.
pub fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let lower = word.to_lowercase();
    let letters = word.chars().count();
    words
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|&(distance, candidate)| distance <= letters.min(candidate.len()) / 3)
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
fn distance(from: &str, to: &str) -> usize {
    // Beyond this no word is near, and a hostile one would cost its square.
    const LONGEST: usize = 64;
    let from: Vec<char> = from.chars().take(LONGEST).collect();
    let to: Vec<char> = to.chars().take(LONGEST).collect();
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
        assert_eq!(distance("abcd", "abdc"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
