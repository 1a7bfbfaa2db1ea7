//! PyTorch's dialect, rule by rule. What is expected was recorded from PyTorch 2.15.

use crate::config::Dialect;
use crate::config::error::TorchType;
use crate::config::settings::Reserve;

use super::*;

const MIB_128: u64 = 128 << 20;

fn parsed(text: &str) -> Settings {
    Settings::parse(text).unwrap().0
}

fn refused(text: &str) -> (TorchType, String) {
    let error = Settings::parse(text).unwrap_err();
    (error.torch_type().unwrap(), error.torch_text().unwrap())
}

fn set_at_run_time(settings: &mut Settings, text: &str) -> Result<Vec<Warning>, ConfigError> {
    settings.apply(text, Dialect::Torch)
}

#[test]
fn r10_3_every_key_sets_its_setting() {
    let settings = parsed(
        "large_segment_size_mb:32,max_split_size_mb:64,max_non_split_rounding_mb:48,garbage_collection_threshold:0.8,\
         roundup_power2_divisions:8,expandable_segments:True,pinned_use_background_threads:True,\
         pinned_max_round_threshold_mb:100,pinned_max_cached_size_mb:200,backend:native,release_lock_on_cudamalloc:True,\
         pinned_use_cuda_host_register:True,pinned_num_register_threads:8,pinned_reserve_segment_size_mb:512,\
         pinned_free_catch_all:True,graph_capture_record_stream_reuse:True,per_process_memory_fraction:0.5,\
         throw_on_cudamalloc_oom:True,expandable_segments_reserve:0.5,\
         expandable_segments_reserve_by_class:[decode:40G,prefill:0.25]",
    );
    let classes = [("decode", Reserve::GiB(40.0)), ("prefill", Reserve::Fraction(0.25))];
    let expected = Settings {
        large_segment_size: 32 * MIB,
        max_split_size: 64 * MIB,
        max_non_split_rounding: 48 * MIB,
        garbage_collection_threshold: 0.8,
        roundup_power2_divisions: [8; 16],
        expandable_segments: true,
        expandable_segments_reserve: Some(Reserve::Fraction(0.5)),
        expandable_segments_reserve_by_class: classes.map(|(class, of)| (class.to_string(), of)).into(),
        backend: Backend::Native,
        release_lock_on_cudamalloc: true,
        graph_capture_record_stream_reuse: true,
        per_process_memory_fraction: 0.5,
        throw_on_cudamalloc_oom: true,
        pinned_use_background_threads: true,
        pinned_max_round_threshold: 100 * MIB,
        pinned_max_cached_size: 200 * MIB,
        pinned_use_cuda_host_register: true,
        pinned_num_register_threads: 8,
        pinned_reserve_segment_size: 512 * MIB,
        pinned_free_catch_all: true,
        text: settings.text.clone(),
        ..Settings::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn r10_3_the_aliases_of_hip_set_the_same() {
    let settings = parsed("release_lock_on_hipmalloc:True,pinned_use_hip_host_register:True");
    assert!(settings.release_lock_on_cudamalloc && settings.pinned_use_cuda_host_register);
}

#[test]
fn r10_6_an_empty_string_is_valid() {
    for text in ["", " \t "] {
        assert_eq!(parsed(text), Settings { text: text.into(), ..Settings::default() });
    }
}

#[test]
fn r10_7_separators_are_taken_unseen() {
    assert_eq!(parsed("max_split_size_mb,128").max_split_size, MIB_128);
    let settings = parsed("max_split_size_mb]128:expandable_segments[True");
    assert!(settings.max_split_size == MIB_128 && settings.expandable_segments);
    assert_eq!(parsed("roundup_power2_divisions:[64,8:128:2]").roundup_power2_divisions[6..9], [8, 2, 0]);
}

#[test]
fn r10_8_tolerated_numbers_keep_their_value() {
    assert_eq!(parsed("max_split_size_mb:128MiB").max_split_size, MIB_128);
    assert_eq!(parsed("max_split_size_mb:+128").max_split_size, MIB_128);
    // A number that wraps around, and any other that is too large, ends at the last whole MiB.
    assert_eq!(parsed("max_split_size_mb:-1").max_split_size, u64::MAX - (MIB - 1));
    assert_eq!(parsed("pinned_max_round_threshold_mb:17592186044417").pinned_max_round_threshold, u64::MAX - (MIB - 1));
    assert_eq!(parsed("garbage_collection_threshold:0x1p-1").garbage_collection_threshold, 0.5);
}

#[test]
fn r10_10_an_unknown_key_is_named_by_the_parser_that_meets_it() {
    assert_eq!(
        refused("nonsense_key:1"),
        (TorchType::ValueError, "Unrecognized key 'nonsense_key' in CUDA allocator config.".into())
    );
    let error = set_at_run_time(&mut Settings::default(), "nonsense_key:1").unwrap_err();
    assert_eq!(error.torch_text().unwrap(), "Unrecognized key 'nonsense_key' in Accelerator allocator config.");
}

#[test]
fn r10_11_an_error_leaves_earlier_keys_and_the_text() {
    let mut settings = parsed("max_split_size_mb:200,garbage_collection_threshold:0.5");
    let text = "expandable_segments:True,roundup_power2_divisions:3,pinned_free_catch_all:True";
    set_at_run_time(&mut settings, text).unwrap_err();
    let expected = Settings { expandable_segments: true, text: text.into(), ..Settings::default() };
    assert_eq!(settings, expected);
}

#[test]
fn r10_12_keys_of_millpond_are_unknown_to_pytorch() {
    for key in Key::all().filter(|key| key.owner() == Owner::Millpond) {
        let error = Settings::parse(&format!("{}:1", key.name())).unwrap_err();
        assert!(matches!(error.problem, Problem::UnknownKey { .. }));
        assert!(error.to_string().contains("Millpond's own key"), "{error}");
        assert_eq!(error.nearest(), None);
    }
}

#[test]
fn r10_13_pinned_rounding_above_caching_warns_once() {
    let (_, warnings) = Settings::parse("pinned_max_round_threshold_mb:100,pinned_max_cached_size_mb:50").unwrap();
    let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    assert_eq!(
        texts,
        [
            "pinned_max_round_threshold_mb (100) > pinned_max_cached_size_mb (50). The cache size limit takes precedence: \
          allocations above pinned_max_cached_size_mb are never rounded up."
        ]
    );
    for text in ["pinned_max_round_threshold_mb:100", "pinned_max_round_threshold_mb:50,pinned_max_cached_size_mb:50"] {
        assert_eq!(Settings::parse(text).unwrap().1, []);
    }
}

#[test]
fn r10_14_a3_the_list_of_divisions() {
    let table = |text: &str| parsed(&format!("roundup_power2_divisions:{text}")).roundup_power2_divisions;
    assert_eq!(table("[64:8,128:2,256:2,512:2,1024:1,>:1]"), [8, 8, 8, 8, 8, 8, 8, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
    assert_eq!(table("[>:2]"), [0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    assert_eq!(table("[64:8,1024:4]"), [8, 8, 8, 8, 8, 8, 8, 0, 0, 0, 4, 0, 0, 0, 0, 0]);
    assert_eq!(table("4"), [4; 16]);
    assert_eq!(table("[]"), [0; 16]);
    assert_eq!(table("[1048576:2]"), [2; 16], "all from 32 GiB is the last interval");
}

#[test]
fn c51_skipped_intervals_are_off() {
    let table = parsed("roundup_power2_divisions:[1:1,4:2,16:4]").roundup_power2_divisions;
    assert_eq!(table, [1, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Settings::default().roundup_power2_divisions, [0; 16]);
    assert_eq!(parsed("roundup_power2_divisions:4").roundup_power2_divisions, [4; 16]);
}

#[test]
fn r10_15_four_keys_are_reset_by_every_string() {
    let mut settings = parsed(
        "large_segment_size_mb:32,max_split_size_mb:64,max_non_split_rounding_mb:48,garbage_collection_threshold:0.8,\
         roundup_power2_divisions:8,expandable_segments:True,pinned_max_cached_size_mb:7",
    );
    set_at_run_time(&mut settings, "").unwrap();
    let expected = Settings {
        large_segment_size: 32 * MIB,
        max_non_split_rounding: 32 * MIB,
        expandable_segments: true,
        pinned_max_cached_size: 7 * MIB,
        ..Settings::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn r10_15_the_large_segment_is_read_first_wherever_it_stands() {
    assert_eq!(
        refused("max_split_size_mb:30,large_segment_size_mb:40").1,
        "CachingAllocator option max_split_size_mb too small, must be >= 40"
    );
    assert_eq!(parsed("expandable_segments:True,large_segment_size_mb:40").max_non_split_rounding, 40 * MIB);
    // Even where it is no key at all.
    let mut settings = Settings::default();
    set_at_run_time(&mut settings, "max_split_size_mb:large_segment_size_mb:50").unwrap_err();
    assert_eq!(settings.large_segment_size, 50 * MIB);
    // An error in it comes before the reset of the rounding that follows it, and after the others.
    let mut settings = parsed("max_split_size_mb:100,max_non_split_rounding_mb:100");
    set_at_run_time(&mut settings, "large_segment_size_mb:5").unwrap_err();
    assert_eq!((settings.max_split_size, settings.max_non_split_rounding), (u64::MAX, 100 * MIB));
}

#[test]
fn r10_16_the_generic_parser_goes_first_at_run_time_and_the_one_of_cuda_at_the_start() {
    let text = "backend:foo,max_split_size_mb:abc";
    assert_eq!(refused(text).1, "Unknown allocator backend, options are native and cudaMallocAsync");
    let error = set_at_run_time(&mut Settings::default(), text).unwrap_err();
    assert_eq!(error.torch_text().unwrap(), "stoull");
}

#[test]
fn r10_18_the_backend_is_chosen_at_the_start() {
    let mut settings = parsed("backend:cudaMallocAsync");
    assert_eq!(settings.backend, Backend::CudaMallocAsync);
    set_at_run_time(&mut settings, "backend:cudaMallocAsync").unwrap();
    let error = set_at_run_time(&mut settings, "backend:native").unwrap_err();
    assert_eq!(error.torch_type(), Some(TorchType::RuntimeError));
    assert_eq!(
        error.torch_text().unwrap(),
        "tokenizer[i] == get()->name() INTERNAL ASSERT FAILED at \".../c10/cuda/CUDAAllocatorConfig.cpp\":64, please report \
         a bug to PyTorch. Allocator backend parsed at runtime != allocator backend parsed at load time, native != \
         cudaMallocAsync"
    );
    // The first of two decides, and the second is then refused.
    assert_eq!(refused("backend:native,backend:cudaMallocAsync").0, TorchType::RuntimeError);
}

#[test]
fn r10_19_the_other_backend_does_not_read_the_keys_of_cuda_at_the_start() {
    let settings = parsed("backend:cudaMallocAsync,release_lock_on_cudamalloc:none,max_split_size_mb:128");
    assert_eq!((settings.backend, settings.max_split_size), (Backend::CudaMallocAsync, MIB_128));
}

#[test]
fn r6_12_the_other_backend_warns_of_keys_of_cuda() {
    let mut settings = parsed("backend:cudaMallocAsync");
    let mut warnings = |text: &str| set_at_run_time(&mut settings, text).unwrap();
    let expected =
        "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and garbage_collect_threshold.";
    let told = warnings("release_lock_on_cudamalloc:True,backend:cudaMallocAsync");
    assert_eq!(told.iter().map(Warning::to_string).collect::<Vec<_>>(), [expected]);
    assert_eq!(warnings("max_split_size_mb:128,backend:cudaMallocAsync"), []);
    assert_eq!(warnings("release_lock_on_cudamalloc:True"), []);
}

#[test]
fn r4_25_a_reserve_that_is_none_is_ignored_with_a_warning() {
    for value in ["40M", "-1", "0", "nan", "inf", "2e", "0x1p1", "1e400", "G", "40GG"] {
        let (settings, warnings) = Settings::parse(&format!("expandable_segments_reserve:{value}")).unwrap();
        assert_eq!(settings.expandable_segments_reserve, None, "{value}");
        assert_eq!(
            warnings.iter().map(Warning::to_string).collect::<Vec<_>>(),
            [format!(
                "Ignoring invalid expandable-segment reserve value '{value}' in PYTORCH_CUDA_ALLOC_CONF (expected a positive, \
                 finite fraction like 0.5 or an absolute size like 40G); using default."
            )]
        );
    }
    for (value, reserve) in
        [("0.5", Reserve::Fraction(0.5)), ("+2", Reserve::Fraction(2.0)), ("40g", Reserve::GiB(40.0))]
    {
        assert_eq!(parsed(&format!("expandable_segments_reserve:{value}")).expandable_segments_reserve, Some(reserve));
    }
}

#[test]
fn r4_26_classes_are_replaced_as_a_whole_and_bad_ones_skipped() {
    let mut settings = parsed("expandable_segments_reserve_by_class:[a:0.5,b:1G]");
    let warnings = set_at_run_time(&mut settings, "expandable_segments_reserve_by_class:[a:x,c:2]").unwrap();
    assert_eq!(warnings.len(), 1);
    let expected = BTreeMap::from([("c".to_string(), Reserve::Fraction(2.0))]);
    assert_eq!(settings.expandable_segments_reserve_by_class, expected);
    set_at_run_time(&mut settings, "expandable_segments:True").unwrap();
    assert_eq!(settings.expandable_segments_reserve_by_class, expected);
    set_at_run_time(&mut settings, "expandable_segments_reserve_by_class:[]").unwrap();
    assert!(settings.expandable_segments_reserve_by_class.is_empty());
}

#[test]
fn r4_31_a_reserve_stays_once_it_is_set() {
    let mut settings = parsed("expandable_segments_reserve:0.5");
    for text in ["", "expandable_segments_reserve:none"] {
        set_at_run_time(&mut settings, text).unwrap();
        assert_eq!(settings.expandable_segments_reserve, Some(Reserve::Fraction(0.5)));
    }
}

#[test]
fn bad_values_raise_with_the_recorded_texts() {
    use TorchType::{RuntimeError, ValueError};
    let interval = "For roundups, the intervals have to be power of 2 ";
    for (text, kind, expected) in [
        (
            "expandable_segments:true",
            ValueError,
            "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'",
        ),
        ("max_split_size_mb:10", ValueError, "CachingAllocator option max_split_size_mb too small, must be >= 20"),
        (
            "max_non_split_rounding_mb:10",
            ValueError,
            "CachingAllocator option max_non_split_rounding_mb too small, must be >= 20",
        ),
        ("large_segment_size_mb:10", ValueError, "CachingAllocator option large_segment_size_mb must be > 10 MB"),
        ("garbage_collection_threshold:1.5", ValueError, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
        ("roundup_power2_divisions:3", ValueError, "For roundups, the divisions has to be power of 2 "),
        (
            "roundup_power2_divisions:[256:1,512:3]",
            ValueError,
            "For roundups, the divisions has to be power of 2 or 0 to disable roundup ",
        ),
        ("roundup_power2_divisions:[300:2]", ValueError, interval),
        ("per_process_memory_fraction:1.5", ValueError, "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"),
        ("backend:foo", ValueError, "Unknown allocator backend, options are native and cudaMallocAsync"),
        ("pinned_num_register_threads:3", ValueError, "Number of register threads has to be power of 2, got 3"),
        (
            "pinned_num_register_threads:256",
            ValueError,
            "Number of register threads should be less than or equal to 128, got 256",
        ),
        ("pinned_reserve_segment_size_mb:0", ValueError, "Pinned reserve segment size has to be greater than 0"),
        ("max_split_size_mb:abc", RuntimeError, "stoull"),
        ("garbage_collection_threshold:abc", RuntimeError, "stod"),
    ] {
        assert_eq!(refused(text), (kind, expected.into()), "{text}");
    }
}

#[test]
fn r10_8_numbers_that_are_none_differ_at_run_time() {
    let kind = |text: &str| set_at_run_time(&mut Settings::default(), text).unwrap_err().torch_type();
    assert_eq!(kind("max_split_size_mb:abc"), Some(TorchType::ValueError));
    assert_eq!(kind("max_split_size_mb:99999999999999999999"), Some(TorchType::IndexError));
    assert_eq!(kind("garbage_collection_threshold:1e999"), Some(TorchType::IndexError));
}

#[test]
fn c53_the_threshold_lies_inside_the_open_interval() {
    assert_eq!(parsed("garbage_collection_threshold:0.8").garbage_collection_threshold, 0.8);
    for value in ["1.0", "1", "0", "0.0", "1.5", "nan", "-0.5"] {
        let (kind, text) = refused(&format!("garbage_collection_threshold:{value}"));
        assert_eq!(kind, TorchType::ValueError);
        assert!(text.ends_with("set it in (0.0, 1.0)"), "{value}");
    }
    assert_eq!(refused("garbage_collection_threshold:0,8").0, TorchType::Abort);
}

#[test]
fn c55_the_rounding_of_blocks_too_large_to_split() {
    assert_eq!(parsed("max_split_size_mb:400").max_non_split_rounding, 20 * MIB);
    let settings = parsed("max_split_size_mb:400,max_non_split_rounding_mb:600");
    assert_eq!((settings.max_split_size, settings.max_non_split_rounding), (400 * MIB, 600 * MIB));
}

#[test]
fn c57_a_string_that_ends_too_early_ends_the_process() {
    let early = "i < config_.size() INTERNAL ASSERT FAILED at \".../c10/core/AllocatorConfig.h\":123, please report a bug \
                 to PyTorch. Index out of bounds in ConfigTokenizer";
    for text in ["nonsense", "max_split_size_mb", "max_split_size_mb:", "expandable_segments=True", "a:1;b:2", ","] {
        assert_eq!(refused(text), (TorchType::Abort, early.into()), "{text}");
    }
    assert_eq!(
        refused("roundup_power2_divisions:[256:1"),
        (
            TorchType::Abort,
            "i < config_.size() INTERNAL ASSERT FAILED at \".../c10/core/AllocatorConfig.h\":114, please report a bug to \
             PyTorch. Expected closing bracket ']' in ConfigTokenizer but reached end of config"
                .into()
        )
    );
    let error = Settings::parse("expandable_segments").unwrap_err().to_string();
    assert!(error.contains("\"expandable_segments\""), "the whole string is quoted: {error}");
}

#[test]
fn c57_a_trailing_comma_is_harmless() {
    assert_eq!(parsed("max_split_size_mb:128,").max_split_size, MIB_128);
}

#[test]
fn c57_at_run_time_and_behind_the_backend_it_is_an_exception() {
    let error = set_at_run_time(&mut Settings::default(), "max_split_size_mb:").unwrap_err();
    assert_eq!(error.torch_type(), Some(TorchType::RuntimeError));
    // The look for the backend at import ends at the first.
    assert_eq!(refused("backend:native,expandable_segments").0, TorchType::RuntimeError);
}

#[test]
fn c61_the_refusal_is_a_boolean() {
    let settings = parsed("per_process_memory_fraction:0.95,throw_on_cudamalloc_oom:True");
    assert!(settings.throw_on_cudamalloc_oom && settings.per_process_memory_fraction == 0.95);
    for value in ["1", "true"] {
        assert_eq!(refused(&format!("throw_on_cudamalloc_oom:{value}")).0, TorchType::ValueError);
    }
}

#[test]
fn e6_the_ends_of_the_fraction_are_allowed() {
    for (value, fraction) in [("0.0", 0.0), ("0.5", 0.5), ("1.0", 1.0)] {
        let settings = parsed(&format!("per_process_memory_fraction:{value}"));
        assert_eq!(settings.per_process_memory_fraction, fraction);
    }
    for value in ["-0.1", "1.1", "nan"] {
        assert_eq!(refused(&format!("per_process_memory_fraction:{value}")).0, TorchType::ValueError);
    }
}
