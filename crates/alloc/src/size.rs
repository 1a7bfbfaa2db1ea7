//! Sizes: rounding, size class, segment size, the split rule. Pure functions of numbers (section 1 of the law).

use millpond_driver::Bytes;

/// Smallest block and rounding quantum, bytes (`kMinBlockSize`).
pub const MIN_BLOCK: u64 = 512;
/// Largest rounded size of the small class, and the remainder above which a large block is split, bytes (`kSmallSize`).
pub const SMALL_SIZE: u64 = 1 << 20;
/// Segment, and expandable page, of the small class, bytes (`kSmallBuffer`).
pub const SMALL_SEGMENT: u64 = 2 << 20;
/// Below this a large request gets a whole large segment, bytes (`kMinLargeAlloc`).
pub const MIN_LARGE_ALLOC: u64 = 10 << 20;
/// Rounding of segments for requests of 10 MiB and more, bytes (`kRoundLarge`).
pub const ROUND_LARGE: u64 = 2 << 20;
/// A request of this many bytes or more fails at once (R2.1).
pub const TOO_LARGE: u64 = 1 << 60;

/// Which of the two classes a rounded size belongs to (R1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    /// Up to 1 MiB.
    Small,
    /// Above 1 MiB.
    Large,
}

impl SizeClass {
    /// Both classes, in PyTorch's order of statistics.
    pub const ALL: [SizeClass; 2] = [SizeClass::Small, SizeClass::Large];

    /// The class of a rounded size (R1.8).
    pub const fn of(rounded: u64) -> Self {
        if rounded <= SMALL_SIZE { SizeClass::Small } else { SizeClass::Large }
    }

    /// `small` or `large`, as in a snapshot.
    pub const fn name(self) -> &'static str {
        match self {
            SizeClass::Small => "small",
            SizeClass::Large => "large",
        }
    }
}

/// The next multiple of `to`, saturating.
#[inline]
pub const fn round_up(n: u64, to: u64) -> u64 {
    match n.checked_next_multiple_of(to) {
        Some(rounded) => rounded,
        None => u64::MAX - u64::MAX % to,
    }
}

/// The interval of a size in the table of divisions: 0 below 2 MiB, k for [2^(20+k), 2^(21+k)), 15 from 32 GiB (R1.3).
pub const fn division_interval(n: u64) -> usize {
    let log = if n == 0 { 0 } else { n.ilog2() };
    let interval = log.saturating_sub(20);
    (if interval > 15 { 15 } else { interval }) as usize
}

/// Rounds `n` up to the next of `divisions` steps between two powers of two (R1.5); `divisions` is at least 2.
pub const fn round_to_division(n: u64, divisions: u64) -> u64 {
    if n == 0 || n.is_power_of_two() {
        return n;
    }
    let power = 1u64 << n.ilog2();
    let step = power.unbounded_shr(divisions.ilog2());
    if step == 0 {
        return power.saturating_mul(2);
    }
    let floor = n & !(step - 1);
    if floor == n { n } else { floor.saturating_add(step) }
}

/// The rounded size of a request (R1.2–R1.4). `divisions` is the entry of the request's own interval.
#[inline]
pub const fn round(n: u64, divisions: u64) -> u64 {
    if n < MIN_BLOCK {
        MIN_BLOCK
    } else if divisions > 1 && n > MIN_BLOCK.saturating_mul(divisions) {
        round_to_division(n, divisions)
    } else {
        round_up(n, MIN_BLOCK)
    }
}

/// What is asked of the driver for a rounded size (R1.10), bytes.
pub const fn segment_size(rounded: u64, large_segment_size: u64) -> u64 {
    if rounded <= SMALL_SIZE {
        SMALL_SEGMENT
    } else if rounded < MIN_LARGE_ALLOC {
        large_segment_size
    } else {
        round_up(rounded, ROUND_LARGE)
    }
}

/// A size as PyTorch writes it in its messages (R2.45): exactly 1 MiB is `1024.00 KiB`.
pub fn format_size(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..=1024 => format!("{bytes} bytes"),
        _ if bytes <= 1 << 20 => format!("{:.2} KiB", value / 1024.0),
        _ if bytes <= 1 << 30 => format!("{:.2} MiB", value / 1_048_576.0),
        _ => format!("{:.2} GiB", value / 1_073_741_824.0),
    }
}

/// A size for our own messages.
pub(crate) fn show(bytes: u64) -> Bytes {
    Bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a1_default_rounding_class_and_segment() {
        for (request, rounded, class, segment) in [
            (1, 512, SizeClass::Small, 2 * MIB),
            (511, 512, SizeClass::Small, 2 * MIB),
            (512, 512, SizeClass::Small, 2 * MIB),
            (513, 1_024, SizeClass::Small, 2 * MIB),
            (1_048_576, 1_048_576, SizeClass::Small, 2 * MIB),
            (1_048_577, 1_049_088, SizeClass::Large, 20 * MIB),
            (10_485_248, 10_485_248, SizeClass::Large, 20 * MIB),
            (10_485_249, 10_485_760, SizeClass::Large, 10_485_760),
            (10_485_760, 10_485_760, SizeClass::Large, 10_485_760),
            (10_485_761, 10_486_272, SizeClass::Large, 12_582_912),
            (16_777_216, 16_777_216, SizeClass::Large, 16_777_216),
        ] {
            assert_eq!(round(request, 0), rounded, "{request}");
            assert_eq!(SizeClass::of(rounded), class, "{request}");
            assert_eq!(segment_size(rounded, 20 * MIB), segment, "{request}");
        }
    }

    #[test]
    fn a2_division_rounding() {
        for (n, divisions, rounded) in [
            (1_200, 2, 1_536),
            (1_200, 4, 1_536),
            (2_048, 4, 2_048),
            (2_049, 4, 2_560),
            (3_000, 4, 3_072),
            (700_000, 8, 720_896),
            (88_080_384, 4, 100_663_296),
            (88_080_384, 8, 92_274_688),
            (419_430_400, 2, 536_870_912),
            (419_430_400, 1, 419_430_400),
        ] {
            assert_eq!(round(n, divisions), rounded, "{n} in {divisions}");
        }
        assert_eq!(round_to_division(1_200, 4), 1_280, "R1.5 as a pure function");
        assert_eq!(round_to_division(3, 8), 4, "a step of 0 gives the next power");
    }

    #[test]
    fn r1_3_intervals_clamp_at_both_ends() {
        for (n, interval) in
            [(1, 0), ((2 << 20) - 1, 0), (2 << 20, 1), ((4 << 20) - 1, 1), (1 << 30, 10), (32 << 30, 15), (1 << 50, 15)]
        {
            assert_eq!(division_interval(n), interval, "{n}");
        }
    }

    #[test]
    fn r2_45_the_unit_changes_above_the_power_of_two() {
        for (bytes, text) in [
            (1024, "1024 bytes"),
            (1025, "1.00 KiB"),
            (1 << 20, "1024.00 KiB"),
            ((1 << 20) + 1, "1.00 MiB"),
            (1 << 30, "1024.00 MiB"),
            (3 << 30, "3.00 GiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }

    #[test]
    fn nothing_overflows_at_the_top() {
        assert_eq!(round(u64::MAX, 0), u64::MAX - 511);
        assert_eq!(round_to_division(u64::MAX, 2), u64::MAX);
        assert_eq!(segment_size(u64::MAX - 511, 20 * MIB), u64::MAX - u64::MAX % ROUND_LARGE);
    }
}
