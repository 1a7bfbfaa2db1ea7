//! The same requests on this device and on the simulated one: sizes, offsets and statistics must be the same.
//!
//! Addresses are the driver's own choice, so a block is named by its segment, in the order in which segments came, and its
//! offset in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{anyhow, ensure};
use millpond::config::Settings;
use millpond::{Allocator, Caller, Metric, World};
use millpond_cuda::Cuda;
use millpond_driver::{Driver, Memory, Status, Stream};
use millpond_sim::{Sim, SimConfig};

use crate::{D, MIB};

const REQUESTS: usize = 4000;
/// So much is live at most, bytes, where the device has twice as much free.
const LIVE: u64 = 2048 * MIB;
const STREAMS: u64 = 3;
const SETTINGS: [&str; 3] = ["", "expandable_segments:True", "roundup_power2_divisions:4,max_split_size_mb:64"];

/// Where a block lies: the segment's number, its offset, its rounded size.
type Place = (usize, u64, u64);

/// The settings under which requests were compared, and how many.
///
/// # Errors
/// The first difference, with both sides; whatever a driver refuses.
pub fn run(cuda: &Arc<Cuda>) -> anyhow::Result<Vec<(&'static str, usize)>> {
    let (total, live) = (cuda.caps(D)?.total, LIVE.min(cuda.mem_info(D)?.0 / 2));
    let same = |conf: &'static str| {
        let here = Outcome::of(cuda.clone(), conf, live)?;
        let simulated = Outcome::of(Sim::new(SimConfig::with_capacity(total)), conf, live)?;
        let difference = here.places.iter().zip(&simulated.places).position(|(a, b)| a != b);
        if let Some(at) = difference {
            let (a, b) = (here.places[at], simulated.places[at]);
            return Err(anyhow!("'{conf}': allocation {at} is {a:?} here and {b:?} on the simulated device"));
        }
        ensure!(
            here.figures == simulated.figures,
            "'{conf}': the statistics are {:?} here and {:?} on the simulated device",
            here.figures,
            simulated.figures
        );
        Ok((conf, here.places.len()))
    };
    SETTINGS.into_iter().map(same).collect()
}

/// What came of the requests.
struct Outcome {
    places: Vec<Place>,
    /// Current and peak bytes by metric, and driver calls.
    figures: BTreeMap<&'static str, (i64, u64)>,
}

/// Numbers that are the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Mostly small ones, a few of many MiB.
    fn size(&mut self) -> u64 {
        let bits = 9 + self.below(17);
        (1 << bits) + self.below(1 << bits)
    }
}

impl Outcome {
    fn of(driver: Arc<dyn Driver>, conf: &str, most: u64) -> anyhow::Result<Self> {
        let (settings, _) = Settings::parse(conf)?;
        let allocator = Allocator::new(driver.clone(), D, World::new(settings))?;
        let streams: Vec<Stream> = (0..STREAMS).map(|_| driver.stream_create(D)).collect::<Result<_, _>>()?;
        for (id, &stream) in (0..).zip(&streams) {
            allocator.world().name_stream(stream, 32 * id + 3);
        }
        let (mut numbers, mut live, mut held) = (Numbers(1), Vec::new(), 0);
        let (mut segments, mut places) = (BTreeMap::new(), Vec::new());
        for _ in 0..REQUESTS {
            let size = numbers.size();
            while held + size > most || (!live.is_empty() && numbers.below(5) < 2) {
                let (addr, size, stream) = live.swap_remove(numbers.below(live.len() as u64) as usize);
                allocator.free(addr, &Caller::on(stream))?;
                held -= size;
            }
            let stream = streams[numbers.below(STREAMS) as usize];
            let addr = allocator.alloc(size, stream, &Caller::on(stream))?;
            let (_, rounded) = allocator.size_of(addr).ok_or_else(|| anyhow!("no live block at {addr:#x}"))?;
            let base = base_of(&allocator, addr)?;
            let next = segments.len();
            let segment = *segments.entry(base).or_insert(next);
            places.push((segment, addr - base, rounded));
            live.push((addr, size, stream));
            held += size;
        }
        let stats = allocator.stats();
        let figure = |metric: Metric| (metric.key(), (stats.all(metric).current, stats.all(metric).peak));
        let figures = Metric::ALL.into_iter().map(figure).collect();
        allocator.verify().map_err(|violation| anyhow!("'{conf}': {violation:?}"))?;
        for (addr, _, stream) in live {
            allocator.free(addr, &Caller::on(stream))?;
        }
        allocator.empty_cache(&Caller::on(streams[0]))?;
        drop(allocator);
        streams.into_iter().try_for_each(|stream| driver.stream_destroy(stream))?;
        Ok(Outcome { places, figures })
    }
}

/// The first byte of the segment that holds an address.
fn base_of(allocator: &Allocator, addr: u64) -> anyhow::Result<u64> {
    let segments = allocator.segments();
    let holds = |start: u64, size: u64| (start..start + size).contains(&addr);
    let segment = segments.iter().find(|segment| holds(segment.base, segment.size));
    segment.map(|segment| segment.base).ok_or_else(|| anyhow!("no segment holds {addr:#x}"))
}
