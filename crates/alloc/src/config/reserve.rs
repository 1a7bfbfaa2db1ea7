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

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn settings(text: &str) -> Settings {
        Settings::parse(text).unwrap().0
    }

    #[test]
    fn r4_2_without_a_setting_it_is_nine_eighths() {
        assert_eq!(Settings::default().reserve_for(None, 80 * GIB), (90 * GIB, false));
        assert_eq!(Settings::default().reserve_for(Some("a"), 80 * GIB), (90 * GIB, false));
    }

    #[test]
    fn r4_27_the_class_comes_before_the_reserve_for_all() {
        let settings = settings("expandable_segments_reserve:0.5,expandable_segments_reserve_by_class:[decode:4G]");
        assert_eq!(settings.reserve_for(Some("decode"), 80 * GIB), (4 * GIB, true));
        assert_eq!(settings.reserve_for(Some("prefill"), 80 * GIB), (40 * GIB, false));
        assert_eq!(settings.reserve_for(None, 80 * GIB), (40 * GIB, false));
    }

    #[test]
    fn r4_27_the_full_reserve_is_the_bound() {
        for text in
            ["expandable_segments_reserve:1000G", "expandable_segments_reserve:2", "expandable_segments_reserve:1e308G"]
        {
            assert_eq!(settings(text).reserve_for(None, 80 * GIB), (90 * GIB, false), "{text}");
        }
        assert_eq!(settings("expandable_segments_reserve:1e-300").reserve_for(None, 80 * GIB), (0, false));
    }

    #[test]
    fn r4_29_a_default_from_code_gives_way() {
        let mut free = Settings::default();
        free.set_default_reserve_for_class("decode", 0.25);
        free.set_default_reserve_for_class("decode", 0.75);
        assert_eq!(free.reserve_for(Some("decode"), 80 * GIB), (20 * GIB, true));
        let mut set = settings("expandable_segments_reserve:0.5");
        set.set_default_reserve_for_class("decode", 0.25);
        assert_eq!(set.reserve_for(Some("decode"), 80 * GIB), (40 * GIB, false));
    }

    #[test]
    fn r4_30_an_unknown_class_is_worth_a_warning_where_reserves_are_set() {
        let settings = settings("expandable_segments_reserve_by_class:[decode:4G]");
        assert!(settings.is_unknown_reserve_class("prefill"));
        assert!(!settings.is_unknown_reserve_class("decode"));
        assert!(!settings.is_unknown_reserve_class(""));
        assert!(!Settings::default().is_unknown_reserve_class("prefill"));
    }
}
