//! `pairs [SIZE|small|mixed] [PAIRS] [LIVE]`: pairs of an allocation and a free, for `ci/instructions.sh` to count.
//!
//! A size allocates and frees so many bytes each time; `small` and `mixed` replace a random one of `LIVE` blocks.

use std::hint::black_box;

use millpond::config::Settings;
use millpond::{Allocator, Caller};
use millpond_driver::{Device, Stream};
use millpond_sim::{Sim, SimConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let case = args.next().unwrap_or("4096".into());
    let pairs: u64 = args.next().map_or(Ok(1000), |text| text.parse())?;
    let live: usize = args.next().map_or(Ok(1000), |text| text.parse())?;

    let allocator = Allocator::with_settings(Sim::new(SimConfig::default()), Device(0), Settings::default())?;
    let stream = Stream::default_of(Device(0));
    let caller = Caller::on(stream);
    if let Ok(size) = case.parse::<u64>() {
        for _ in 0..pairs {
            let addr = allocator.alloc(black_box(size), stream, &caller)?;
            allocator.free(black_box(addr), &caller)?;
        }
    } else {
        let mut state: u64 = 1;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        // Small: up to 32 KiB. Mixed: one in four is up to 8 MiB.
        let size = |random: u64| match random % 4 {
            0 if case == "mixed" => (random / 4 % 16 + 1) << 19,
            _ => (random / 4 % 64 + 1) * 512,
        };
        let mut blocks =
            (0..live).map(|_| allocator.alloc(size(random()), stream, &caller)).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..pairs {
            let place = random() as usize % live;
            allocator.free(blocks[place], &caller)?;
            blocks[place] = allocator.alloc(size(random()), stream, &caller)?;
        }
    }
    allocator.verify().map_err(|wrong| format!("{wrong:?}"))?;
    Ok(())
}
