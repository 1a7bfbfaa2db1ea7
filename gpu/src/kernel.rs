//! A kernel that works on memory for as long as it is told, and what must come of it.

use std::ffi::CStr;
use std::sync::Arc;

use millpond_cuda::{Cuda, Kernel};
use millpond_driver::{Result, Stream};

use crate::D;

/// `churn(words, count, rounds)`: one thread for each of `count` words of 32 bits. Thread `i` reads its word, multiplies it, adds
/// `i` and a constant, and writes it back, `rounds` times over, each time through memory.
const PTX: &CStr = c"
.version 6.0
.target sm_50
.address_size 64

.visible .entry churn(.param .u64 words, .param .u64 count, .param .u64 rounds)
{
    .reg .pred %done;
    .reg .b32 %block, %threads, %thread, %i, %x, %add;
    .reg .b64 %at, %most, %left, %wide;

    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.s32 %i, %block, %threads, %thread;
    cvt.u64.u32 %wide, %i;
    ld.param.u64 %most, [count];
    setp.ge.u64 %done, %wide, %most;
    @%done bra END;
    ld.param.u64 %at, [words];
    cvta.to.global.u64 %at, %at;
    mul.wide.u32 %wide, %i, 4;
    add.s64 %at, %at, %wide;
    add.s32 %add, %i, 1013904223;
    ld.param.u64 %left, [rounds];
AGAIN:
    setp.eq.u64 %done, %left, 0;
    @%done bra END;
    ld.volatile.global.u32 %x, [%at];
    mad.lo.s32 %x, %x, 1664525, %add;
    st.volatile.global.u32 [%at], %x;
    sub.s64 %left, %left, 1;
    bra AGAIN;
END:
    ret;
}
";

const FACTOR: u32 = 1_664_525;
const TERM: u32 = 1_013_904_223;
const THREADS: u32 = 256;

/// The kernel.
pub struct Churn(Kernel);

impl Churn {
    /// # Errors
    /// The driver cannot compile it.
    pub fn new(cuda: &Arc<Cuda>) -> Result<Self> {
        cuda.kernel(D, PTX, c"churn").map(Churn)
    }

    /// Starts it on `count` words at `words`, which belong to the caller.
    ///
    /// # Errors
    /// The driver does not launch it.
    pub fn start(&self, words: u64, count: u32, rounds: u32, stream: Stream) -> Result<()> {
        let parameters = [words, u64::from(count), u64::from(rounds)];
        // SAFETY: three parameters, as the kernel takes; it writes the `count` words at `words`, device memory that the caller
        // has made and nobody else uses.
        unsafe { self.0.launch(count.div_ceil(THREADS), THREADS, &parameters, stream) }
    }
}

/// The words that the kernel makes of `count` words `from`.
///
/// A round is x → a·x + (c + i), so n rounds are x → aⁿ·x + (1 + a + … + aⁿ⁻¹)·(c + i).
pub fn churned(from: u32, count: u32, rounds: u32) -> impl Iterator<Item = u32> {
    let step = |(power, sum): (u32, u32), _| (power.wrapping_mul(FACTOR), sum.wrapping_mul(FACTOR).wrapping_add(1));
    let (power, sum) = (0..rounds).fold((1, 0), step);
    (0..count).map(move |i| power.wrapping_mul(from).wrapping_add(sum.wrapping_mul(TERM.wrapping_add(i))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rounds_are_as_many_times_one() {
        let slow = |i: u32| (0..100).fold(0x0d0d_0d0d_u32, |x, _| x.wrapping_mul(FACTOR).wrapping_add(TERM + i));
        assert!(churned(0x0d0d_0d0d, 50, 100).eq((0..50).map(slow)));
        assert!(churned(7, 3, 0).eq([7, 7, 7]));
    }
}
