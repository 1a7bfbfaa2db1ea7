//! What holds for every string.

use proptest::prelude::*;

use super::*;

/// Strings near the grammar: keys, values and signs in any order, and a few that are neither.
fn near_settings() -> impl Strategy<Value = String> {
    let keys: Vec<&str> = Key::all().map(Key::name).collect();
    let values = vec![
        "True",
        "False",
        "true",
        "0",
        "1",
        "2",
        "8",
        "64",
        "128",
        "1024",
        "-1",
        "0.5",
        "0.8",
        "1e999",
        "nan",
        "12abc",
        "40G",
        "native",
        "cudaMallocAsync",
        "torch",
        "millpond",
        "off",
        "pressure",
        "always",
        ">",
        "a",
        "[64:8,>:2]",
        "[a:0.5]",
        "[",
        "]",
        "",
    ];
    let pair =
        (prop::sample::select(keys), prop::sample::select(&[":", ":", ":", ",", ""]), prop::sample::select(values))
            .prop_map(|(key, sign, value)| format!("{key}{sign}{value}"));
    let piece = prop_oneof![8 => pair, 1 => "[,:\\[\\] a-zé]{0,3}"];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.join(","))
}

/// Strings that are mostly accepted: each key with a value it allows.
fn settings_text() -> impl Strategy<Value = String> {
    let pairs: Vec<String> = Key::all()
        .filter(|key| key.owner() != Owner::Millpond)
        .flat_map(|key| {
            let values: &[&str] = match key {
                Key::RoundupPower2Divisions => &["8", "[64:8,1024:4]", "[ >:2 ]", "[256:0,>:1]"],
                Key::ExpandableSegmentsReserveByClass => &["[a:0.5,b:2G]", "[a:1]"],
                Key::ExpandableSegmentsReserve => &["0.5", "40G"],
                Key::GarbageCollectionThreshold | Key::PerProcessMemoryFraction => &["0.5", "0.8"],
                Key::PinnedNumRegisterThreads => &["2", "128"],
                key if key.words().is_empty() => &["20", "32", "64", "4096"],
                Key::Backend => &["native"],
                key => key.words(),
            };
            values.iter().map(move |value| format!("{}:{value}", key.name())).collect::<Vec<_>>()
        })
        .collect();
    prop::collection::vec(prop::sample::select(pairs), 0..8).prop_map(|pairs| pairs.join(" , "))
}

fn check(text: &str) {
    for dialect in [Dialect::Torch, Dialect::Millpond] {
        let (mut one, mut two) = (Settings::default(), Settings::default());
        let outcome = one.apply(text, dialect);
        assert_eq!(outcome, two.apply(text, dialect));
        assert_eq!(one, two);
        if let Err(error) = &outcome {
            assert!(!error.to_string().is_empty());
            assert!(text.get(error.at.clone()).is_some(), "the place lies inside the string");
            assert_eq!(error.torch_type().is_some(), error.torch_text().is_some());
            assert!(dialect == Dialect::Millpond || error.torch_text().is_some(), "PyTorch has a text for it");
        }
        let explanation = explain(text, dialect);
        let start = if dialect == Dialect::Torch { Settings::parse(text) } else { Settings::written(text) };
        assert_eq!(explanation.faults.first().map(|fault| &fault.error), start.as_ref().err());
        assert_eq!(explanation.settings, start.ok().map(|(settings, _)| settings));
    }
}

/// Whatever the strict dialect accepts means the same in PyTorch's, as far as PyTorch has the keys.
fn check_strict_is_a_part_of_torch(text: &str) -> bool {
    let (mut strict, mut torch) = (Settings::default(), Settings::default());
    let Ok(warnings) = strict.apply(text, Dialect::Millpond) else { return false };
    if explain(text, Dialect::Millpond).entries.iter().any(|entry| entry.key.owner() == Owner::Millpond) {
        return false;
    }
    assert_eq!(torch.apply(text, Dialect::Torch), Ok(warnings));
    assert_eq!(strict, torch);
    if strict.backend == Backend::Native {
        assert_eq!(Settings::parse(text).map(|(settings, _)| settings), Ok(torch));
    }
    true
}

proptest! {
    #[test]
    fn any_string_is_answered(text in ".{0,64}") {
        check(&text);
    }

    #[test]
    fn any_string_near_the_grammar_is_answered(text in near_settings()) {
        check(&text);
        check_strict_is_a_part_of_torch(&text);
    }

    #[test]
    fn strict_is_a_part_of_torch(text in settings_text()) {
        check(&text);
        let may_be_refused = text.contains("large_segment_size_mb");
        prop_assert!(check_strict_is_a_part_of_torch(&text) || may_be_refused, "{}", text);
    }

    #[test]
    fn any_environment_is_answered(cuda in prop::option::of(near_settings()), alloc in prop::option::of(near_settings())) {
        let env = |name: &str| match name {
            "PYTORCH_CUDA_ALLOC_CONF" => cuda.clone(),
            "PYTORCH_ALLOC_CONF" => alloc.clone(),
            _ => None,
        };
        let explanation = explain_env(&env);
        prop_assert_eq!(explanation.outcome, Settings::from_env(&env).map(|from| from.settings));
    }
}
