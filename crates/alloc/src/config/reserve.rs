//! How much address space a new expandable segment sets aside (R4.25–R4.31).

use super::settings::{Reserve, Settings};

impl Settings {
    /// The reserve for a stream of `class` on a device of `total` bytes, in bytes before it is rounded to pages, and whether the
    /// class has an entry of its own (R4.27). Without a setting it is 9/8 of the device, which is also its bound (R4.2).
    pub fn reserve_for(&self, class: Option<&str>, total: u64) -> (u64, bool) {
        let full = total.saturating_add(total / 8);
        let of_class = class.and_then(|class| self.expandable_segments_reserve_by_class.get(class));
        let reserve = of_class.copied().or(self.expandable_segments_reserve);
        (reserve.map_or(full, |reserve| reserve.bytes(total).min(full)), of_class.is_some())
    }

    /// Whether to warn, once for each class, that `class` has no entry although reserves are set (R4.30).
    pub fn is_unknown_reserve_class(&self, class: &str) -> bool {
        let is_set =
            self.expandable_segments_reserve.is_some() || !self.expandable_segments_reserve_by_class.is_empty();
        is_set && !class.is_empty() && !self.expandable_segments_reserve_by_class.contains_key(class)
    }

    /// A default for `class` from code rather than from a string: without effect when a reserve for all is set or the class has
    /// an entry (R4.29).
    pub fn set_default_reserve_for_class(&mut self, class: &str, fraction: f64) {
        if self.expandable_segments_reserve.is_none() {
            let classes = &mut self.expandable_segments_reserve_by_class;
            classes.entry(class.into()).or_insert(Reserve::Fraction(fraction));
        }
    }
}
