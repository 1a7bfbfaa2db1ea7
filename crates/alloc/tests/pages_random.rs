//! Random programs on several streams while pages move: no live byte changes by a move, and no use of memory comes too early.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{BASE, DEVICE, KIB, MIB, Machine, on, stream};
use millpond::{BlockUse, MemPool, MemPoolOptions};
use millpond_driver::{Bytes, CaptureMode, Order};
use millpond_sim::{CallKind, EventMode, SimConfig};

/// A live block of a program: bytes, stream, mark.
struct Owned {
    size: u64,
    raw: u64,
    mark: u64,
}

/// A program that does what is right: it waits before it reads elsewhere, and records what it reads there.
struct Program {
    m: Machine,
    pools: Vec<MemPool>,
    live: BTreeMap<u64, Owned>,
    seed: u64,
    last: u64,
    captures: bool,
}

impl Program {
    fn new(seed: u64, reuse: &str) -> Self {
        let config = SimConfig {
            events: EventMode::Manual,
            hazards: true,
            backing: true,
            ..SimConfig::with_capacity(Bytes(160 * MIB))
        };
        let keys = format!("expandable_segments:True,page_size_mb:2,page_reuse:{reuse}");
        let m = Machine::written(config, &keys);
        let pools = (0..2).map(|_| MemPool::new(&m.a, MemPoolOptions::default()).unwrap()).collect();
        Program { m, pools, live: BTreeMap::new(), seed, last: 0, captures: true }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    /// Where the marks of a block are: at its ends and at each page's edge.
    fn places(addr: u64, size: u64) -> impl Iterator<Item = u64> {
        (addr..addr + size - 7).step_by(2 << 20).chain([addr + size - 8])
    }

    /// Where the new block is.
    fn alloc(&mut self) -> Option<(u64, u64)> {
        let size = match self.draw(4) {
            0 => (1 + self.draw(2000)) * 512,
            1 => MIB + self.draw(8) * 300 * KIB,
            _ => (1 + self.draw(30)) * MIB,
        };
        let (raw, which) = (self.draw(3), self.draw(6) as usize);
        let scope = self.pools.get(which).map(|pool| pool.enter().unwrap());
        let outcome = self.m.a.alloc(size, stream(raw), &on(raw));
        drop(scope);
        let addr = outcome.ok()?;
        self.m.sim.hand_out(addr, size, stream(raw), "");
        self.m.work(raw, addr, size);
        self.last += 1;
        let mark = self.last;
        for place in Self::places(addr, size) {
            self.m.sim.write(place, &mark.to_le_bytes()).unwrap();
        }
        self.live.insert(addr, Owned { size, raw, mark });
        Some((addr, self.m.a.size_of(addr)?.1))
    }

    fn pick(&mut self) -> Option<u64> {
        let nth = self.draw(self.live.len().max(1) as u64) as usize;
        self.live.keys().nth(nth).copied()
    }

    fn free(&mut self, addr: u64) {
        let Owned { raw, .. } = self.live.remove(&addr).unwrap();
        self.m.sim.give_back(addr, "");
        self.m.a.free(addr, &on(raw)).unwrap();
    }

    fn read_elsewhere(&mut self, addr: u64) {
        let (size, raw) = (self.live[&addr].size, self.live[&addr].raw);
        let reader = self.draw(3);
        if reader != raw {
            self.m.wait(reader, raw);
            self.m.sim.launch(stream(reader), 10, &[(addr, size)], &[]).unwrap();
            self.m.record(addr, reader);
        }
    }

    /// A graph with memory of its own, which is used whenever the graph is launched.
    fn capture(&mut self) {
        let pool = MemPool::for_graphs(&self.m.a).unwrap();
        let capture = pool.capture(stream(5), CaptureMode::Relaxed).unwrap();
        let addr = self.m.a.alloc(5 * MIB, stream(5), &on(5));
        if let Ok(addr) = addr {
            self.m.sim.hand_out(addr, 5 * MIB, stream(5), "");
            self.m.work(5, addr, 5 * MIB);
            self.m.sim.give_back(addr, "");
            self.m.a.free(addr, &on(5)).unwrap();
        }
        let _ = capture.end();
        self.pools.push(pool);
    }

    fn step(&mut self) {
        match self.draw(100) {
            0..50 => drop(self.alloc()),
            50..82 => {
                if let Some(addr) = self.pick() {
                    self.free(addr);
                }
            }
            82..90 => {
                if let Some(addr) = self.pick() {
                    self.read_elsewhere(addr);
                }
            }
            90..97 => {
                let n = self.draw(4);
                self.m.sim.advance(n);
            }
            97 => self.m.empty(),
            98 => self.m.sim.stream_synchronize(stream(1)).unwrap(),
            _ if !self.captures => {}
            _ if self.pools.len() < 5 => self.capture(),
            _ => drop(self.pools.pop().filter(|_| self.pools.len() > 2)),
        }
        self.m.verify();
        for (&addr, Owned { size, mark, .. }) in &self.live {
            for place in Self::places(addr, *size) {
                assert_eq!(self.m.sim.read(place, 8).unwrap(), mark.to_le_bytes(), "{place:#x} has changed");
            }
        }
    }
}

/// Every page is mapped when it is made, unless the device has no room for the next one, and again whenever it moves.
fn pages_moved(m: &Machine) -> i64 {
    let (mut moved, mut given_up) = (0, false);
    for call in m.sim.take_log() {
        match (call.kind, call.code) {
            (CallKind::Create, None) => moved -= 1,
            (CallKind::Create, Some(_)) => given_up = true,
            (CallKind::Release, None) if given_up => moved += 1,
            (CallKind::Map, None) => moved += 1,
            (CallKind::Release, _) => {}
            _ => given_up = false,
        }
    }
    moved
}

#[test]
fn no_live_byte_changes_and_no_use_comes_too_early() {
    for reuse in ["always", "pressure"] {
        let (mut moved, mut waits) = (0, 0);
        for seed in 0..20 {
            let mut program = Program::new(seed, reuse);
            (0..400).for_each(|_| program.step());
            let Program { m, .. } = &program;
            assert_eq!(m.sim.hazards(), [], "{reuse}, seed {seed}");
            moved += pages_moved(m);
            waits += m.calls(CallKind::StreamWaitEvent);
            let addrs: Vec<u64> = program.live.keys().copied().collect();
            addrs.into_iter().for_each(|addr| program.free(addr));
            program.m.sim.sync();
            program.pools.clear();
            program.m.empty();
            assert_eq!(program.m.reserved(), 0, "{reuse}, seed {seed}");
            let (free, total) = millpond_driver::Memory::mem_info(&*program.m.sim, DEVICE).unwrap();
            assert_eq!(free, total, "{reuse}, seed {seed}");
        }
        println!("{reuse}: {moved} pages moved, {waits} waits");
        assert!(moved > 1000 && waits > 500, "{reuse}: {moved} pages moved, {waits} waits");
    }
}

/// Offsets of the pages that lie wholly in free blocks, without the block that begins at `but`.
fn free_pages(m: &Machine, but: u64) -> Vec<u64> {
    let mut pages = Vec::new();
    for segment in m.a.segments() {
        for block in segment.blocks.iter().filter(|block| block.state == BlockUse::Free && block.addr != but) {
            let first = block.addr.next_multiple_of(segment.page);
            pages.extend(
                (first..).step_by(segment.page as usize).take_while(|at| at + segment.page <= block.addr + block.size),
            );
        }
    }
    pages.into_iter().map(|at| at - BASE).collect()
}

/// A model from what trackers are told and nothing else: where pages are, and how often each place has lost its own.
#[test]
fn new_memory_is_made_only_when_no_page_is_free_but_those_that_rest() {
    let mut made = 0;
    for seed in 100..110 {
        let mut program = Program { captures: false, ..Program::new(seed, "always") };
        program.m.record_all();
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        let mut homes: BTreeSet<u64> = BTreeSet::new();
        for _ in 0..400 {
            let before = program.m.reserved();
            let new = if program.draw(2) == 0 { program.alloc() } else { None };
            let after = program.m.reserved();
            if new.is_none() {
                program.step();
            }
            for (action, addr, size) in program.m.take_history() {
                for page in (addr..addr + size).step_by(2 << 20) {
                    match action {
                        "segment_map" => assert!(homes.insert(page), "seed {seed}: {page:#x} is mapped twice"),
                        "segment_unmap" => {
                            assert!(homes.remove(&page), "seed {seed}: {page:#x} was not mapped");
                            *left.entry(page).or_default() += 1;
                        }
                        _ => break,
                    }
                }
            }
            assert_eq!(homes.len() as u64 * (2 << 20), program.m.reserved(), "seed {seed}");
            let Some((addr, size)) = new.filter(|_| after > before) else { continue };
            made += 1;
            let idle: Vec<u64> = free_pages(&program.m, addr + size);
            let restless: Vec<&u64> =
                idle.iter().filter(|page| left.get(page).is_none_or(|&times| times < 4)).collect();
            assert!(restless.is_empty(), "seed {seed}: {restless:x?} are free, and memory was made for {addr:#x}");
        }
    }
    assert!(made > 100, "new memory was made {made} times");
}
