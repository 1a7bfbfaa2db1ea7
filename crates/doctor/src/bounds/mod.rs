//! What the requests need at least, whoever serves them.
//!
//! No setting can go below the largest sum of live bytes. An allocator that never moves what it placed cannot go below the
//! best offline packing either, which lies between that sum and the packing found here.

mod lifetimes;
mod packing;
mod skyline;

use serde::Serialize;

use crate::trial::Patient;
use lifetimes::Lifetime;

/// Two lines to hold every setting against. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// The largest sum of the sizes of blocks that live at the same time, each a multiple of 512: no setting can beat it.
    pub live: u64,
    /// What a packer needs that knows all lifetimes in advance and gives each block one place for life. The best such packing
    /// lies between `live` and this.
    pub packing: u64,
    /// How the packing was found.
    pub method: &'static str,
}

impl Bounds {
    /// Those of the requests, on the first device.
    pub fn of(patient: &Patient<'_>) -> Self {
        let lives = patient.lifetimes();
        let live = live(&lives);
        Bounds { live, packing: packing::pack(&lives, live), method: packing::METHOD }
    }
}

/// The largest sum of the sizes of blocks that live at the same time. `lives` are sorted by birth.
fn live(lives: &[Lifetime]) -> u64 {
    let mut deaths: Vec<(u32, u64)> = lives.iter().map(|life| (life.death, life.size)).collect();
    deaths.sort_unstable();
    let mut deaths = deaths.into_iter().peekable();
    let (mut now, mut most) = (0u64, 0);
    for life in lives {
        while let Some((_, size)) = deaths.next_if(|&(death, _)| death <= life.birth) {
            now = now.saturating_sub(size);
        }
        now = now.saturating_add(life.size);
        most = most.max(now);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(birth: u32, death: u32, size: u64) -> Lifetime {
        Lifetime { birth, death, size }
    }

    #[test]
    fn neighbours_in_time_count_together_and_successors_do_not() {
        let lives = [life(0, 2, 512), life(1, 3, 1024), life(2, u32::MAX, 2048)];
        assert_eq!(live(&lives), 3072);
        assert_eq!(packing::pack(&lives, 3072), 3072);
        assert_eq!((live(&[]), packing::pack(&[], 0)), (0, 0));
    }

    #[test]
    fn a_gap_between_two_blocks_is_used() {
        let mib = 1 << 20;
        // Two stand for long with room between them once the middle one is gone; another fits just there.
        let lives = [life(0, 9, 8 * mib), life(1, 4, 4 * mib), life(2, 9, 2 * mib), life(5, 9, 4 * mib)];
        assert_eq!(packing::pack(&lives, live(&lives)), 14 * mib);
    }

    #[test]
    fn no_packing_is_smaller_than_what_lives() {
        let mut seed = 3u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..40 {
            let mut lives: Vec<Lifetime> =
                (0..200).map(|birth| life(birth, birth + 1 + draw(60) as u32, (1 + draw(6000)) * 512)).collect();
            lives.sort_by_key(|life| life.birth);
            let live = live(&lives);
            let packed = packing::pack(&lives, live);
            assert!(live <= packed && packed <= 2 * live, "{live} {packed}");
        }
    }
}
