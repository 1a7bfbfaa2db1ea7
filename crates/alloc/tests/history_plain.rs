//! A history without stacks, which pools write each for itself, is the one that is written in one place (R9.9–R9.12).

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use common::{DEVICE, GIB, KIB, MIB, Machine, on, stream};
use millpond::{Action, Caller, Event, HistoryOptions, Level, MemPool, Observer};
use millpond_driver::Bytes;
use millpond_sim::{EventMode, SimConfig};

/// The same program on two machines, of which one writes all in one place.
struct Twins {
    plain: Machine,
    whole: Machine,
}

impl Twins {
    fn new(conf: &str) -> Self {
        let config = || SimConfig { events: EventMode::Manual, ..SimConfig::with_capacity(Bytes(GIB)) };
        Twins { plain: Machine::with(config(), conf), whole: Machine::with(config(), conf) }
    }

    fn both(&self) -> [&Machine; 2] {
        [&self.plain, &self.whole]
    }

    fn record(&self, options: HistoryOptions) {
        for (m, level) in [(&self.plain, Level::Never), (&self.whole, Level::State)] {
            m.a.record_history(Some(HistoryOptions { level, ..options.clone() }));
        }
    }

    /// What one call answers on both.
    #[track_caller]
    fn each<R: PartialEq + std::fmt::Debug>(&self, call: impl Fn(&Machine) -> R) -> R {
        let [plain, whole] = self.both().map(call);
        assert_eq!(plain, whole);
        plain
    }

    #[track_caller]
    fn take(&self) -> Vec<String> {
        self.each(|m| m.a.take_history().iter().map(|event| format!("{event:?}")).collect())
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Everything that writes into a history, on four streams and in a memory pool, with capacities that change.
#[test]
fn r9_12_both_ways_write_the_same_history() {
    for (seed, conf) in [(1, ""), (2, "expandable_segments:True"), (3, "roundup_power2_divisions:4"), (4, "")] {
        let twins = Twins::new(conf);
        let pools = twins.both().map(|m| MemPool::new(&m.a, Default::default()).unwrap());
        let note: Arc<str> = "a note".into();
        twins.record(HistoryOptions { max_entries: 1000, ..HistoryOptions::default() });
        let (mut dice, mut live, mut entries) = (Dice(seed), Vec::new(), 0);
        for round in 0..3000_u64 {
            let raw = dice.roll(4);
            let notes = Caller { metadata: (dice.roll(20) == 0).then_some(&note), ..on(raw) };
            match dice.roll(100) {
                // Rounds of one block, some of another request that rounds alike.
                0..30 => {
                    let size = 1 + dice.roll(3 * KIB);
                    for other in 0..dice.roll(6) {
                        let addr = twins.each(|m| m.a.alloc(size + (other & 1), stream(raw), &notes).unwrap());
                        twins.each(|m| m.a.free(addr, &notes).is_ok());
                    }
                }
                30..60 => {
                    let size = 1 + dice.roll([64 * KIB, 4 * MIB][(round % 2) as usize]);
                    live.push(twins.each(|m| m.a.alloc(size, stream(raw), &notes).unwrap()));
                }
                60..88 if !live.is_empty() => {
                    let addr = live.swap_remove(dice.roll(live.len() as u64) as usize);
                    twins.each(|m| m.a.free(addr, &notes).is_ok());
                }
                88..91 if !live.is_empty() => {
                    let addr = live[dice.roll(live.len() as u64) as usize];
                    twins.each(|m| m.a.record_stream(addr, stream((raw + 1) % 4), &notes).unwrap());
                }
                91 => drop(twins.each(|m| m.sim.advance(0))),
                92 => twins.both().iter().for_each(|m| m.sim.advance_clock(7)),
                93 => {
                    let addr = twins.each(|m| {
                        let _scope = pools[usize::from(std::ptr::eq(m, &twins.whole))].enter().unwrap();
                        m.alloc_on(3 * KIB, raw)
                    });
                    live.push(addr);
                }
                94 if !live.is_empty() => {
                    let addr = live[dice.roll(live.len() as u64) as usize];
                    twins.each(|m| m.a.annotate(addr, "seen", &notes).is_ok());
                }
                95 if round % 3 == 0 => twins.each(|m| m.a.empty_cache(&on(raw)).is_ok()).then_some(()).unwrap(),
                96 if round % 3 == 0 => {
                    let bytes = |m: &Machine| format!("{:?}", m.a.snapshot(None, true).device_traces);
                    twins.each(bytes);
                }
                97 => {
                    let max_entries = [0, 1, 2, 7, 300, 5000][dice.roll(6) as usize];
                    let (clear, skips) = (dice.roll(4) == 0, dice.roll(4) == 0);
                    let skip_actions = if skips { vec![Action::FreeRequested] } else { Vec::new() };
                    twins.record(HistoryOptions { max_entries, clear, skip_actions, ..HistoryOptions::default() });
                }
                98 => entries += twins.take().len(),
                99 if dice.roll(5) == 0 => {
                    twins.both().iter().for_each(|m| m.a.record_history(None));
                    assert_eq!(twins.take(), [""; 0]);
                    twins.record(HistoryOptions { max_entries: 100, ..HistoryOptions::default() });
                }
                _ => {}
            }
            if round % 16 == 0 {
                twins.both().iter().for_each(|m| m.a.verify().unwrap_or_else(|wrong| panic!("{wrong:?}")));
            }
        }
        entries += twins.take().len();
        assert!(entries > 100, "{entries}");
    }
}

/// Rounds in one microsecond take no room, however many: an export that keeps few of them does not go through all.
#[test]
fn r9_12_of_many_rounds_the_newest_stay() {
    let twins = Twins::new("");
    twins.record(HistoryOptions { max_entries: 100, ..HistoryOptions::default() });
    for _ in 0..10_000 {
        twins.each(|m| m.free(m.alloc(KIB)));
    }
    let history = twins.take();
    assert_eq!(history.len(), 100);
    twins.each(|m| m.free(m.alloc(KIB)));
    assert_eq!(twins.take().len(), 3);
}

/// A memory pool that is gone leaves its place to another; the entries name the one that they are of.
#[test]
fn r9_9_entries_of_a_pool_that_is_gone_keep_its_name() {
    let twins = Twins::new("");
    twins.record(HistoryOptions::default());
    for raw in [1, 2] {
        let pools = twins.both().map(|m| MemPool::new(&m.a, Default::default()).unwrap());
        twins.each(|m| {
            let _scope = pools[usize::from(std::ptr::eq(m, &twins.whole))].enter().unwrap();
            m.alloc_on(KIB, raw)
        });
        for (m, pool) in twins.both().into_iter().zip(pools) {
            let addr = m.a.segments_of(pool.id())[0].blocks[0].addr;
            m.free(addr);
            m.free(m.alloc_on(KIB, raw));
            drop(pool);
            m.empty();
        }
    }
    assert!(twins.take().len() > 10);
}

struct Nobody;

impl Observer for Nobody {
    fn events(&self, _: &[Event]) {}
}

/// Turning to another way and back loses nothing.
#[test]
fn an_observer_that_comes_in_between_changes_no_history() {
    let twins = Twins::new("");
    twins.record(HistoryOptions::default());
    let rounds = || (0..5).for_each(|_| twins.each(|m| m.free(m.alloc(KIB))));
    rounds();
    twins.plain.a.attach_observer(Arc::new(Nobody));
    rounds();
    twins.plain.a.verify().unwrap();
    assert_eq!(twins.take().len(), 1 + 10 * 3);
}

/// What one thread did before another began comes before what that one does, whatever their streams: two threads take turns.
#[test]
fn what_happened_before_comes_before() {
    const TURNS: u64 = 20_000;
    let m = common::machine(GIB, "");
    let raws = [1, 2, 3];
    raws.iter().for_each(|&raw| m.free(m.alloc_on(KIB, raw)));
    m.a.record_history(Some(HistoryOptions { level: Level::Never, ..HistoryOptions::default() }));
    let turn = AtomicU64::new(0);
    thread::scope(|scope| {
        for mine in 0..2 {
            let (a, turn) = (&m.a, &turn);
            scope.spawn(move || {
                while turn.load(SeqCst) < TURNS {
                    let now = turn.load(SeqCst);
                    if now % 2 != mine {
                        thread::yield_now();
                        continue;
                    }
                    // A size that says which turn it was.
                    let raw = raws[(now / 3 % 3) as usize];
                    let addr = a.alloc(1 + now % 512, stream(raw), &on(raw)).unwrap();
                    a.free(addr, &on(raw)).unwrap();
                    turn.store(now + 1, SeqCst);
                }
            });
        }
        // Beside them one whose stream is none of theirs.
        let a = &m.a;
        scope.spawn(move || (0..TURNS).for_each(|_| a.free(a.alloc(MIB, stream(4), &on(4)).unwrap(), &on(4)).unwrap()));
    });
    m.a.verify().unwrap();
    let history = m.a.take_history();
    let sizes: Vec<u64> = history
        .iter()
        .filter(|event| event.action == Action::Alloc && event.stream != stream(4) && event.stream.device == DEVICE)
        .map(|event| event.size)
        .collect();
    assert_eq!(sizes, (0..TURNS).map(|turn| 1 + turn % 512).collect::<Vec<_>>());
    let others = history.iter().filter(|event| event.stream == stream(4) && event.action != Action::SegmentAlloc);
    let actions = [Action::Alloc, Action::FreeRequested, Action::FreeCompleted];
    assert!(others.map(|event| event.action).eq(actions.into_iter().cycle().take(3 * TURNS as usize)));
}
