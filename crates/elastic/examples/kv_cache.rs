//! A KV cache of sequences that grow and end, each in a buffer of its own that grows page by page. How much memory lies idle,
//! compared with buffers for the longest sequence, and with blocks of 16 tokens and a table?

use millpond_driver::{Bytes, Device, Memory};
use millpond_elastic::{GrowOptions, Growable};
use millpond_sim::{Sim, SimConfig};

/// Keys and values of one token in all layers.
const TOKEN: u64 = 40 << 10;
/// The longest sequence, tokens.
const LONGEST: u64 = 4096;
/// Tokens of a block in the block-table layout.
const BLOCK: u64 = 16;
const PAGE: u64 = 2 << 20;
/// Sequences at a time.
const SLOTS: usize = 32;

/// A sequence under way.
struct Sequence {
    cache: Growable,
    tokens: u64,
    /// Tokens at which it ends.
    end: u64,
}

impl Sequence {
    fn needs(&self) -> u64 {
        self.tokens * TOKEN
    }
}

/// Memory of the three layouts at one moment, bytes.
#[derive(Clone, Copy, Default)]
struct Moment {
    needed: u64,
    growable: u64,
    blocks: u64,
    preallocated: u64,
}

/// Numbers without rhyme or reason, the same at each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Most sequences are short, few are long.
    fn length(&mut self) -> u64 {
        64 + self.below(LONGEST - 64).min(self.below(LONGEST - 64)).min(self.below(LONGEST - 64))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device(0);
    let config = SimConfig { backing: true, ..SimConfig::with_capacity(Bytes(16 << 30)) };
    let sim = Sim::new(config);
    let mut numbers = Numbers(7);
    let start = |numbers: &mut Numbers| {
        let options = GrowOptions { page: PAGE, ..GrowOptions::up_to(LONGEST * TOKEN) };
        let cache = Growable::new(sim.clone(), device, &options)?;
        Ok::<_, millpond_elastic::Error>(Sequence { cache, tokens: 0, end: numbers.length() })
    };

    let mut slots = (0..SLOTS).map(|_| start(&mut numbers)).collect::<Result<Vec<_>, _>>()?;
    let mut worst = Moment::default();
    let mut ended = 0;
    while ended < 200 {
        for slot in &mut slots {
            // A few tokens more; the first of them says whose sequence it is.
            let (addr, first) = (slot.cache.addr(), slot.needs());
            slot.tokens = (slot.tokens + 1 + numbers.below(48)).min(slot.end);
            slot.cache.grow_to(slot.needs())?;
            assert_eq!(slot.cache.addr(), addr, "kernels keep their pointer");
            sim.write(addr + first, &slot.end.to_le_bytes())?;
            assert_eq!(sim.read(addr, 8)?, slot.end.to_le_bytes(), "the first token is still there");
            if slot.tokens == slot.end {
                *slot = start(&mut numbers)?;
                ended += 1;
            }
        }
        let sum = |of: fn(&Sequence) -> u64| slots.iter().map(of).sum();
        let now = Moment {
            needed: sum(Sequence::needs),
            growable: sum(|slot| slot.cache.committed()),
            blocks: sum(|slot| slot.tokens.div_ceil(BLOCK) * BLOCK * TOKEN),
            preallocated: SLOTS as u64 * LONGEST * TOKEN,
        };
        let (free, total) = sim.mem_info(device)?;
        assert_eq!(total - free, now.growable, "the device holds what the buffers have committed");
        if now.growable > worst.growable {
            worst = now;
        }
    }

    println!("at the moment of the most memory, {SLOTS} sequences, {ended} ended so far:");
    let idle = |bytes: u64| bytes - worst.needed;
    for (layout, bytes) in [
        ("preallocated", worst.preallocated),
        ("blocks and a table", worst.blocks),
        ("growing in place", worst.growable),
    ] {
        println!("  {layout:<20} {:>10}, idle {:>10}", Bytes(bytes).to_string(), Bytes(idle(bytes)).to_string());
    }
    // At most a page for each sequence lies idle, and no table stands between a kernel and its data.
    assert!(idle(worst.growable) < SLOTS as u64 * PAGE);
    assert!(idle(worst.blocks) < SLOTS as u64 * BLOCK * TOKEN);
    assert!(idle(worst.growable) * 10 < idle(worst.preallocated));
    drop(slots);
    assert_eq!(sim.mem_info(device)?.0, 16 << 30, "all memory is back");
    println!("ok");
    Ok(())
}
