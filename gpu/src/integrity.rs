//! Whether memory keeps what was written to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use millpond_cuda::Cuda;
use millpond_driver::{Access, Handle, HandleProps, Host, HostFlags, Location, Memory, Order, Result, Stream, Virtual};

use crate::kernel::{Churn, churned};
use crate::{D, MIB, host, is_simulated};

const PAGE: u64 = 2 * MIB;
const PAGES: u64 = 16;
const WORDS: u32 = (PAGE / 4) as u32;
/// A kernel of this many rounds takes milliseconds, during which dozens of ranges are mapped and unmapped.
const ROUNDS: u32 = 20_000;

/// What ran while other ranges came and went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Kernels that read and write memory.
    Kernels,
    /// Fills and copies, and why not kernels.
    FillsAndCopies(&'static str),
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// What worked.
    pub beside: Beside,
    /// How often it worked, and its bytes were right.
    pub rounds: u64,
    /// How many ranges were mapped, written to and unmapped meanwhile.
    pub ranges: u64,
}

/// Writes through one mapping and reads through another; then works for so long while other ranges are mapped and unmapped.
///
/// # Errors
/// Bytes that are not what was written; whatever the driver refuses.
pub fn run(cuda: &Arc<Cuda>, long: Duration) -> anyhow::Result<Seen> {
    two_mappings(cuda)?;
    beside_work(cuda, long)
}

/// The byte of a page: never 0, which is what fresh memory may have.
fn mark(page: u64) -> u8 {
    (page as u8).wrapping_mul(13) | 1
}

fn give_access(cuda: &Cuda, addr: u64, bytes: u64) -> Result<()> {
    cuda.mem_set_access(addr, bytes, Location::Device(D), Access::ReadWrite)
}

/// A page of page-locked memory by which a page of the device is read, on a stream of its own.
struct Window<'a> {
    cuda: &'a Cuda,
    stream: Stream,
    host: u64,
}

impl<'a> Window<'a> {
    fn open(cuda: &'a Cuda) -> Result<Self> {
        Ok(Window { cuda, stream: cuda.stream_create(D)?, host: cuda.host_alloc(PAGE, HostFlags::default())? })
    }

    /// The page at a device address, once the stream's work is done.
    fn read(&self, addr: u64) -> Result<Vec<u8>> {
        self.cuda.memcpy_async(self.host, addr, PAGE, self.stream)?;
        self.cuda.stream_synchronize(self.stream)?;
        Ok(host::read(self.host, PAGE as usize))
    }

    fn all_are(&self, addr: u64, value: u8) -> Result<bool> {
        Ok(self.read(addr)?.iter().all(|&byte| byte == value))
    }

    fn close(self) -> Result<()> {
        self.cuda.host_free(self.host)?;
        self.cuda.stream_destroy(self.stream)
    }
}

/// The pages of a reservation once more, backwards, in a second one: each side reads what the other wrote.
fn two_mappings(cuda: &Cuda) -> anyhow::Result<()> {
    let window = Window::open(cuda)?;
    let reserve = || cuda.mem_address_reserve(PAGE * PAGES, 0, 0);
    let (here, there) = (reserve()?, reserve()?);
    let handles: Vec<Handle> = (0..PAGES).map(|_| cuda.mem_create(PAGE, HandleProps::on(D))).collect::<Result<_>>()?;
    let (front, back) = (|page| here + page * PAGE, |page| there + (PAGES - 1 - page) * PAGE);
    for (page, &handle) in (0..).zip(&handles) {
        cuda.mem_map(front(page), PAGE, 0, handle)?;
        cuda.mem_map(back(page), PAGE, 0, handle)?;
    }
    [here, there].iter().try_for_each(|&addr| give_access(cuda, addr, PAGE * PAGES))?;
    for page in 0..PAGES {
        cuda.memset_async(front(page), mark(page), PAGE, window.stream)?;
    }
    for page in 0..PAGES {
        ensure!(window.all_are(back(page), mark(page))?, "page {page} reads otherwise through its second mapping");
    }
    for page in 0..PAGES {
        cuda.memset_async(back(page), !mark(page), PAGE, window.stream)?;
    }
    for page in 0..PAGES {
        ensure!(window.all_are(front(page), !mark(page))?, "page {page} reads otherwise through its first mapping");
    }
    for addr in [here, there] {
        cuda.mem_unmap(addr, PAGE * PAGES)?;
        cuda.mem_address_free(addr, PAGE * PAGES)?;
    }
    handles.into_iter().try_for_each(|handle| cuda.mem_release(handle))?;
    Ok(window.close()?)
}

/// Works while another thread maps, fills and unmaps pages beside it.
fn beside_work(cuda: &Arc<Cuda>, long: Duration) -> anyhow::Result<Seen> {
    let (stop, ranges) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let mapper = scope.spawn(|| come_and_go(cuda, &stop, &ranges));
        let worked = work(cuda, long);
        stop.store(true, Relaxed);
        mapper.join().map_err(|_| anyhow!("the thread that maps ended early"))??;
        let (beside, rounds) = worked?;
        Ok(Seen { beside, rounds, ranges: ranges.load(Relaxed) })
    })
}

fn come_and_go(cuda: &Cuda, stop: &AtomicBool, ranges: &AtomicU64) -> anyhow::Result<()> {
    let (window, addr) = (Window::open(cuda)?, cuda.mem_address_reserve(PAGE * PAGES, 0, 0)?);
    while !stop.load(Relaxed) {
        let at = addr + ranges.load(Relaxed) % PAGES * PAGE;
        let handle = cuda.mem_create(PAGE, HandleProps::on(D))?;
        cuda.mem_map(at, PAGE, 0, handle)?;
        give_access(cuda, at, PAGE)?;
        cuda.memset_async(at, 0xff, PAGE, window.stream)?;
        ensure!(window.all_are(at, 0xff)?, "a page that was just mapped reads otherwise than it was filled");
        cuda.mem_unmap(at, PAGE)?;
        cuda.mem_release(handle)?;
        ranges.fetch_add(1, Relaxed);
    }
    cuda.mem_address_free(addr, PAGE * PAGES)?;
    Ok(window.close()?)
}

/// Kernels where the device has some, else fills and copies. Only the simulated device's kernels may compute nothing.
fn work(cuda: &Arc<Cuda>, long: Duration) -> anyhow::Result<(Beside, u64)> {
    let why = match Churn::new(cuda) {
        Ok(churn) => match kernels(cuda, &churn, long) {
            Err(_) if is_simulated(cuda)? => "kernels of the simulated device compute nothing",
            outcome => return Ok((Beside::Kernels, outcome?)),
        },
        Err(error) => {
            eprintln!("the driver does not take the kernel: {error}");
            "the driver does not take the kernel"
        }
    };
    Ok((Beside::FillsAndCopies(why), copies(cuda, long)?))
}

/// A kernel reads and writes a page for milliseconds, again and again, in mapped memory and in plain memory in turn.
fn kernels(cuda: &Cuda, churn: &Churn, long: Duration) -> anyhow::Result<u64> {
    let window = Window::open(cuda)?;
    let (plain, mapped) = (cuda.mem_alloc(D, PAGE)?, cuda.mem_address_reserve(PAGE, 0, 0)?);
    let handle = cuda.mem_create(PAGE, HandleProps::on(D))?;
    cuda.mem_map(mapped, PAGE, 0, handle)?;
    give_access(cuda, mapped, PAGE)?;
    let (started, mut rounds, mut wrong) = (Instant::now(), 0, None);
    while wrong.is_none() && (started.elapsed() < long || rounds < 2) {
        wrong = churn_once(&window, churn, [mapped, plain][rounds as usize % 2], mark(rounds))?;
        rounds += 1;
    }
    cuda.mem_unmap(mapped, PAGE)?;
    cuda.mem_release(handle)?;
    cuda.mem_address_free(mapped, PAGE)?;
    cuda.mem_free(D, plain)?;
    window.close()?;
    match wrong {
        None => Ok(rounds),
        Some((at, found, right)) => Err(anyhow!("kernel {rounds}: word {at} is {found:#x} and must be {right:#x}")),
    }
}

/// The first word that is not what the kernel must make of it: its number, the word, the right one.
fn churn_once(window: &Window<'_>, churn: &Churn, page: u64, value: u8) -> Result<Option<(usize, u32, u32)>> {
    window.cuda.memset_async(page, value, PAGE, window.stream)?;
    churn.start(page, WORDS, ROUNDS, window.stream)?;
    let found = window.read(page)?;
    let found = found.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let right = churned(u32::from_le_bytes([value; 4]), WORDS, ROUNDS);
    Ok(found.zip(right).enumerate().find(|(_, (found, right))| found != right).map(|(at, (f, r))| (at, f, r)))
}

/// A chain of copies through several blocks: what was filled in at its start arrives at its end.
fn copies(cuda: &Cuda, long: Duration) -> anyhow::Result<u64> {
    const BLOCKS: u64 = 8;
    let window = Window::open(cuda)?;
    let blocks: Vec<u64> = (0..BLOCKS).map(|_| cuda.mem_alloc(D, PAGE)).collect::<Result<_>>()?;
    let (started, mut rounds) = (Instant::now(), 0);
    while started.elapsed() < long || rounds < 2 {
        let value = mark(rounds);
        cuda.memset_async(blocks[0], value, PAGE, window.stream)?;
        for pair in blocks.windows(2) {
            cuda.memcpy_async(pair[1], pair[0], PAGE, window.stream)?;
        }
        let last = blocks[blocks.len() - 1];
        ensure!(window.all_are(last, value)?, "chain {rounds}: what arrives is not what was filled in");
        rounds += 1;
    }
    blocks.into_iter().try_for_each(|block| cuda.mem_free(D, block))?;
    window.close()?;
    Ok(rounds)
}
