//! Peaks are those of a model that adds everything up after every call, on many streams that take turns (R8.1). They are looked
//! at now and then only: a look settles everything.

mod common;

use std::collections::BTreeMap;

use common::{GIB, KIB, MIB, Machine, machine, on, stream};
use millpond::Metric;
use millpond::size::SizeClass;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

const COUNTED: [Metric; 2] = [Metric::Allocation, Metric::AllocatedBytes];

/// What is held and what was held at most: of each metric all, the small class, the large class.
#[derive(Default)]
struct Model {
    held: [[u64; 3]; 2],
    peak: [[u64; 3]; 2],
    /// The bytes of each live block.
    live: BTreeMap<u64, u64>,
}

impl Model {
    fn columns(bytes: u64) -> [usize; 2] {
        [0, 1 + SizeClass::of(bytes) as usize]
    }

    fn alloc(&mut self, m: &Machine, size: u64, raw: u64) -> u64 {
        let addr = m.a.alloc(size, stream(raw), &on(raw)).unwrap();
        let (_, bytes) = m.a.size_of(addr).unwrap();
        for column in Self::columns(bytes) {
            for (metric, by) in [1, bytes].into_iter().enumerate() {
                self.held[metric][column] += by;
                self.peak[metric][column] = self.peak[metric][column].max(self.held[metric][column]);
            }
        }
        self.live.insert(addr, bytes);
        addr
    }

    fn free(&mut self, m: &Machine, addr: u64) {
        let bytes = self.live.remove(&addr).unwrap();
        m.free(addr);
        for column in Self::columns(bytes) {
            self.held[0][column] -= 1;
            self.held[1][column] -= bytes;
        }
    }

    #[track_caller]
    fn compare(&self, m: &Machine) {
        m.a.verify().unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let stats = m.a.stats();
        for (metric, (held, peak)) in COUNTED.into_iter().zip(self.held.iter().zip(&self.peak)) {
            let [small, large] = SizeClass::ALL.map(|class| stats.of(metric, class));
            let told = [stats.all(metric), small, large];
            assert_eq!(told.map(|stat| stat.current as u64), *held, "{}", metric.key());
            assert_eq!(told.map(|stat| stat.peak), *peak, "the peak of {}", metric.key());
        }
    }
}

#[test]
fn r8_1_peaks_over_streams_in_turn_are_those_of_a_model() {
    for seed in 1..=12 {
        let streams = [2, 5, 24][seed as usize % 3];
        let m = machine(64 * GIB, if seed % 2 == 0 { "" } else { "expandable_segments:True" });
        let (mut dice, mut model) = (Dice(seed * 77), Model::default());
        // Some streams hold on to blocks, all of them go through rounds at what is nearly the peak.
        for _ in 0..4000 {
            let raw = dice.roll(streams);
            let size = 1 + match dice.roll(8) {
                0 => dice.roll(6 * MIB),
                1..4 => 4 * KIB,
                _ => dice.roll(64 * KIB),
            };
            match dice.roll(100) {
                0..50 => {
                    for _ in 0..dice.roll(4) {
                        let addr = model.alloc(&m, size, raw);
                        model.free(&m, addr);
                    }
                }
                // A turn of all streams.
                50..55 => {
                    for raw in 0..streams {
                        let addr = model.alloc(&m, 4 * KIB, raw);
                        model.free(&m, addr);
                    }
                }
                55..75 if model.live.len() < 40 => drop(model.alloc(&m, size, raw)),
                75..98 if !model.live.is_empty() => {
                    let addr = *model.live.keys().nth(dice.roll(model.live.len() as u64) as usize).unwrap();
                    model.free(&m, addr);
                }
                98 => model.compare(&m),
                99 if dice.roll(4) == 0 => {
                    m.a.reset_peak_stats();
                    model.peak = model.held;
                }
                _ => {}
            }
        }
        model.compare(&m);
    }
}
