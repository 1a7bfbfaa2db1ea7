//! Statistics as recordings hold them.

use std::collections::BTreeMap;

use millpond::Stats;

/// The statistics that are not zero, by PyTorch's names.
pub(super) fn non_zero(stats: &Stats) -> BTreeMap<String, i64> {
    stats.flatten().into_iter().filter(|&(_, value)| value != 0).collect()
}

/// Whether the order of frees within a request decides a statistic: the history of split remainders.
pub(super) fn depends_on_order(name: &str) -> bool {
    let split = name.strip_prefix("inactive_split_bytes.").or_else(|| name.strip_prefix("inactive_split."));
    split.is_some_and(|rest| !rest.ends_with(".current"))
}

/// The first statistic that differs: its name, recorded and here.
pub(super) fn differ(
    expected: &BTreeMap<String, i64>,
    got: &BTreeMap<String, i64>,
    leave_out: impl Fn(&str) -> bool,
) -> Option<(String, i64, i64)> {
    let names = expected.keys().chain(got.keys()).filter(|name| !leave_out(name));
    let value = |stats: &BTreeMap<String, i64>, name: &str| stats.get(name).copied().unwrap_or(0);
    let mut names: Vec<&String> = names.filter(|name| value(expected, name) != value(got, name)).collect();
    names.sort();
    let name = names.first()?;
    Some(((*name).clone(), value(expected, name), value(got, name)))
}
