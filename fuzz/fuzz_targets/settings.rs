//! Settings strings: no string panics in either dialect, applying is deterministic, and what the strict dialect accepts means
//! the same in PyTorch's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond::config::{Dialect, Owner, Settings, explain};

fuzz_target!(|text: &str| {
    for dialect in [Dialect::Torch, Dialect::Millpond] {
        let (mut one, mut two) = (Settings::default(), Settings::default());
        let outcome = one.apply(text, dialect);
        assert_eq!(outcome, two.apply(text, dialect));
        assert_eq!(one, two);

        let explanation = explain(text, dialect);
        let start = if dialect == Dialect::Torch { Settings::parse(text) } else { Settings::written(text) };
        assert_eq!(explanation.faults.first().map(|fault| &fault.error), start.as_ref().err());
        if let Some(fault) = explanation.faults.first() {
            assert!(!fault.error.to_string().is_empty());
        }

        let is_pytorchs = explanation.entries.iter().all(|entry| entry.key.owner() != Owner::Millpond);
        if dialect == Dialect::Millpond && is_pytorchs && outcome.is_ok() {
            let mut torch = Settings::default();
            assert_eq!(torch.apply(text, Dialect::Torch), outcome);
            assert_eq!(torch, one);
        }
    }
});
