//! The history: R9.9–R9.12 and R9.18–R9.23.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use common::{BASE, GIB, KIB, MIB, Machine, machine, manual, on, stream};
use millpond::{Action, Caller, Event, HistoryOptions, Level, MemPool, Observer, Stack, StackSource};
use millpond_snapshot::Frame;

fn record(m: &Machine, options: HistoryOptions) {
    m.a.record_history(Some(options));
}

/// A stack of one frame; counts how often it is asked for.
struct Frames(Stack, AtomicUsize);

impl Frames {
    fn named(name: &str) -> Self {
        Frames(Arc::from([Frame::new(name, "model.py", 7)]), AtomicUsize::new(0))
    }
}

impl StackSource for Frames {
    fn capture(&self) -> Option<Stack> {
        self.1.fetch_add(1, SeqCst);
        Some(self.0.clone())
    }
}

fn with_stack(stack: &Frames) -> Caller<'_> {
    Caller { stack: Some(stack), ..on(0) }
}

fn names(events: &[Event]) -> Vec<(&'static str, Option<String>)> {
    let top = |event: &Event| event.stack.as_ref().map(|stack| stack[0].name.to_string());
    events.iter().map(|event| (event.action.name(), top(event))).collect()
}

/// R9.9: sizes are requested sizes for blocks, segment sizes for segments, the rounded size for an OOM.
#[test]
fn r9_9_what_each_entry_holds() {
    let m = manual(64 * MIB, "");
    m.record_all();
    let block = m.alloc(3 * MIB + 100);
    m.record(block, 1);
    m.free(block);
    m.sim.advance(1);
    m.try_alloc(100 * MIB + 1).unwrap_err();
    assert_eq!(
        m.take_history(),
        [
            ("segment_alloc", 0, 20 * MIB),
            ("alloc", 0, 3 * MIB + 100),
            ("free_requested", 0, 3 * MIB + 100),
            ("free_completed", 0, 3 * MIB + 100),
            ("segment_free", 0, 20 * MIB),
            ("oom", 64 * MIB, 100 * MIB + 512),
        ]
    );
}

#[test]
fn r9_9_pages_are_mapped_and_unmapped() {
    let m = machine(GIB, "expandable_segments:True");
    m.record_all();
    let block = m.alloc_on(30 * MIB, 2);
    m.free(block);
    m.empty();
    let history = m.a.take_history();
    assert!(history.iter().all(|event| event.stream == stream(2)));
    let entries: Vec<_> = history.iter().map(common::entry).collect();
    assert_eq!(
        entries,
        [
            ("segment_map", 0, 40 * MIB),
            ("alloc", 0, 30 * MIB),
            ("free_requested", 0, 30 * MIB),
            ("free_completed", 0, 30 * MIB),
            // E1.
            ("segment_unmap", 0, 40 * MIB),
        ]
    );
}

/// R9.9: an entry names the memory pool of its block.
#[test]
fn r9_9_entries_name_their_memory_pool() {
    let m = machine(GIB, "");
    let pool = millpond::MemPool::new(&m.a, Default::default()).unwrap();
    m.record_all();
    let inside = {
        let _scope = pool.enter().unwrap();
        m.alloc(4 * MIB)
    };
    m.alloc(4 * MIB);
    m.free(inside);
    let pools: Vec<_> = m.a.take_history().iter().map(|event| event.pool == pool.id()).collect();
    assert_eq!(pools, [true, true, false, false, true, true]);
}

#[test]
fn r9_10_a_snapshot_does_not_contain_its_own_entry() {
    let m = machine(GIB, "");
    m.record_all();
    m.alloc(4 * MIB);
    let words = |snapshot: &millpond_snapshot::Snapshot| {
        snapshot.device_traces[0].iter().map(|entry| entry.action.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(words(&m.a.snapshot(None, true)), ["segment_alloc", "alloc"]);
    assert_eq!(words(&m.a.snapshot(None, true)), ["segment_alloc", "alloc", "snapshot"]);
    assert_eq!(words(&m.a.snapshot(None, false)), [""; 0], "without traces");
    let last = m.a.take_history().pop().unwrap();
    assert_eq!((last.action, last.addr, last.size, last.stream), (Action::Snapshot, 0, 4 * MIB, stream(0)));
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Observer for Count {
    fn events(&self, events: &[Event]) {
        self.0.fetch_add(events.iter().filter(|event| event.action.is_torch()).count(), SeqCst);
    }
}

#[test]
fn r9_11_nothing_is_kept_while_the_history_is_off() {
    let m = machine(GIB, "");
    assert!(!m.a.is_history_enabled());
    m.free(m.alloc(1000));
    m.record_all();
    assert!(m.a.is_history_enabled());
    assert_eq!(m.take_history(), []);
    // Trackers see everything all the same (section 9.10).
    m.a.record_history(None);
    let count = Arc::new(Count::default());
    m.a.attach_observer(count.clone());
    m.free(m.alloc(1000));
    assert_eq!((count.0.load(SeqCst), m.take_history().len()), (3, 0));
}

#[test]
fn r9_12_the_ring_keeps_the_newest_entries_oldest_first() {
    for (capacity, kept) in [(0, 1), (1, 1), (3, 3), (100, 10)] {
        let m = machine(GIB, "");
        record(&m, HistoryOptions { max_entries: capacity, ..HistoryOptions::default() });
        for size in [1, 2, 3, 4, 5] {
            m.alloc(size * KIB);
        }
        m.free_all([BASE, BASE + KIB]);
        let entries = m.take_history();
        let all = [
            ("segment_alloc", 0, 2 * MIB),
            ("alloc", 0, KIB),
            ("alloc", KIB, 2 * KIB),
            ("alloc", 3 * KIB, 3 * KIB),
            ("alloc", 6 * KIB, 4 * KIB),
            ("alloc", 10 * KIB, 5 * KIB),
            ("free_requested", 0, KIB),
            ("free_completed", 0, KIB),
            ("free_requested", KIB, 2 * KIB),
            ("free_completed", KIB, 2 * KIB),
        ];
        assert_eq!(entries, all[all.len() - kept..], "capacity {capacity}");
    }
}

/// R9.20, E2: which entries carry a stack at which level, and when stacks are gathered at all (R2.2 step 0, R3.2).
#[test]
fn r9_20_levels() {
    let named = |name: &str| Some(name.to_owned());
    for (level, allocs, frees, empties, at_free) in [
        (Level::Never, None, None, None, 0),
        (Level::State, None, None, None, 0),
        // R3.3: a free without a stack of its own shows that of the allocation, and a segment that goes likewise.
        (Level::Alloc, named("thealloc"), named("thealloc"), named("thealloc"), 0),
        (Level::All, named("thealloc"), named("thefree"), named("theemptying"), 1),
    ] {
        let m = machine(GIB, "");
        record(&m, HistoryOptions { level, ..HistoryOptions::default() });
        let (alloc, free) = (Frames::named("thealloc"), Frames::named("thefree"));
        let block = m.a.alloc(1000, stream(0), &with_stack(&alloc)).unwrap();
        let on_block = m.a.allocation_stack(block).map(|stack| stack[0].name.to_string());
        assert_eq!(on_block, (level >= Level::State).then(|| "thealloc".to_owned()), "{level:?}");
        m.a.free(block, &with_stack(&free)).unwrap();
        assert_eq!(alloc.1.load(SeqCst), usize::from(level >= Level::State), "{level:?}: asked at the allocation");
        assert_eq!(free.1.load(SeqCst), at_free, "{level:?}: asked at the free");
        let entries = names(&m.a.take_history());
        assert_eq!(entries[1], ("alloc", allocs), "{level:?}");
        assert_eq!(entries[2], ("free_requested", frees.clone()), "{level:?}");
        assert_eq!(entries[3], ("free_completed", frees), "{level:?}");
        assert_eq!(m.a.allocation_stack(block), None, "R3.9: the stack goes with the block");
        m.a.empty_cache(&with_stack(&Frames::named("theemptying"))).unwrap();
        assert_eq!(names(&m.a.take_history()), [("segment_free", empties)], "{level:?}");
        m.a.verify().unwrap();
    }
}

/// R5.39, R9.20: blocks that a restored checkpoint brings back are made by whoever restores it; frees on the way show the same
/// stack where frees have one.
#[test]
fn r5_39_a_restored_block_shows_the_stack_of_the_restoring() {
    let named = |name: &str| Some(name.to_owned());
    for (level, freed_by) in [(Level::Alloc, "before"), (Level::All, "restoring")] {
        let m = machine(GIB, "");
        record(&m, HistoryOptions { level, ..HistoryOptions::default() });
        let pool = MemPool::new(&m.a, Default::default()).unwrap();
        let (before, restoring) = (Frames::named("before"), Frames::named("restoring"));
        let block = {
            let _scope = pool.enter().unwrap();
            m.a.alloc(4 * MIB, stream(0), &with_stack(&before)).unwrap()
        };
        let saved = pool.checkpoint(&on(0)).unwrap();
        m.a.take_history();
        pool.restore(&saved, &with_stack(&restoring)).unwrap();
        assert_eq!(
            names(&m.a.take_history())[..3],
            [("free_requested", named(freed_by)), ("free_completed", named(freed_by)), ("alloc", named("restoring")),],
            "{level:?}"
        );
        let on_block = m.a.allocation_stack(block).map(|stack| stack[0].name.to_string());
        assert_eq!(on_block, named("restoring"), "{level:?}");
        m.a.verify().unwrap();
        m.free(block);
    }
}

#[test]
fn r9_20_off_clears_and_on_keeps_unless_told_to_clear() {
    let m = machine(GIB, "");
    m.record_all();
    m.alloc(1000);
    m.record_all();
    m.alloc(1000);
    assert_eq!(m.a.snapshot(None, true).device_traces[0].len(), 3, "turning it on again keeps the entries");
    record(&m, HistoryOptions { clear: true, ..HistoryOptions::default() });
    assert_eq!(m.take_history(), []);
    m.alloc(1000);
    m.a.record_history(None);
    assert!(!m.a.is_history_enabled());
    m.record_all();
    assert_eq!(m.take_history(), []);
}

#[test]
fn r9_21_skipped_actions_are_not_stored_but_seen() {
    let m = machine(GIB, "");
    let count = Arc::new(Count::default());
    m.a.attach_observer(count.clone());
    let skip = |actions: &[Action]| HistoryOptions { skip_actions: actions.to_vec(), ..HistoryOptions::default() };
    record(&m, skip(&[Action::FreeRequested, Action::FreeCompleted]));
    m.free(m.alloc(1000));
    assert_eq!(m.take_history(), [("segment_alloc", 0, 2 * MIB), ("alloc", 0, 1000)]);
    assert_eq!(count.0.load(SeqCst), 4);
    // The list is replaced at each call.
    record(&m, skip(&[Action::Alloc]));
    m.free(m.alloc(1000));
    assert_eq!(m.take_history(), [("free_requested", 0, 1000), ("free_completed", 0, 1000)]);
    // A skipped entry takes no place in the ring.
    record(&m, HistoryOptions { max_entries: 1, ..skip(&[Action::FreeRequested, Action::FreeCompleted]) });
    m.free(m.alloc(1000));
    assert_eq!(m.take_history(), [("alloc", 0, 1000)]);
}

#[test]
fn r9_22_compile_context_is_kept_where_it_is_asked_for() {
    let region: Arc<str> = "Torch-Compiled Region: 0/1".into();
    let m = machine(GIB, "");
    let caller = Caller { compile_context: Some(&region), ..on(0) };
    for (asked, shown) in [(false, "N/A"), (true, "Torch-Compiled Region: 0/1")] {
        record(&m, HistoryOptions { compile_context: asked, clear: true, ..HistoryOptions::default() });
        m.a.alloc(1000, stream(0), &caller).unwrap();
        m.alloc(1000);
        let snapshot = m.a.snapshot(None, true);
        let contexts: Vec<_> = snapshot.device_traces[0]
            .iter()
            .filter(|entry| entry.action.as_str() == "alloc")
            .map(|entry| snapshot.notes.get(entry.notes).compile_context.clone().unwrap().to_string())
            .collect();
        assert_eq!(contexts, [shown, "N/A"]);
    }
}

#[test]
fn r9_23_user_metadata_and_annotations() {
    let m = machine(GIB, "");
    m.record_all();
    let text: Arc<str> = "{\"step\":3}".into();
    let block = m.a.alloc(1000, stream(0), &Caller { metadata: Some(&text), ..on(0) }).unwrap();
    m.a.annotate(block, "weights", &on(0)).unwrap();
    m.free(block);
    let unknown = m.a.annotate(block, "gone", &on(0)).unwrap_err();
    assert!(matches!(unknown, millpond::Error::UnknownAddress { .. }), "{unknown}");
    let history = m.a.take_history();
    let notes: Vec<_> = history.iter().map(|event| (event.action.name(), event.metadata.as_deref())).collect();
    assert_eq!(
        notes[1..],
        [
            ("alloc", Some("{\"step\":3}")),
            ("annotate", Some("weights")),
            ("free_requested", None),
            ("free_completed", None),
        ]
    );
    let annotation = &history[2];
    assert_eq!((annotation.addr, annotation.size), (block, 1000));
}

#[test]
fn r9_9_the_stack_of_a_segment_is_that_of_the_request_that_made_it() {
    let m = machine(GIB, "");
    m.record_all();
    let (first, second) = (Frames::named("first"), Frames::named("second"));
    m.a.alloc(1000, stream(0), &with_stack(&first)).unwrap();
    m.a.alloc(1000, stream(0), &with_stack(&second)).unwrap();
    let segment = &m.a.segments()[0];
    assert_eq!(segment.stack.as_ref().unwrap()[0].name.as_ref(), "first");
    let blocks = segment.blocks.iter().map(|block| block.stack.as_ref().map(|stack| stack[0].name.to_string()));
    assert_eq!(blocks.collect::<Vec<_>>(), [Some("first".to_owned()), Some("second".to_owned()), None]);
}
