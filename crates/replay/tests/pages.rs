//! Pages move under the recordings (`page_reuse`): no use of memory comes too early, and no request fails that pages could serve.

mod common;

use millpond::config::Dialect;
use millpond::size::SizeClass;
use millpond::{Allocator, BlockState, BlockUse, Error, Oom, PoolId, SegmentState};
use millpond_driver::{Device, Stream};
use millpond_replay::parity::{Case, Recording, find};
use millpond_replay::{Failure, Launch, Machine, Op, Outcome, Runner, Setup, Workload};
use rayon::prelude::*;

const PAGE: u64 = 2 << 20;

/// Laid over the settings of a recording.
const POLICIES: [&str; 3] = ["off", "pressure", "always"];

struct Subject {
    name: String,
    setup: Setup,
    workload: Workload,
}

impl Subject {
    /// All recordings of some folders; nothing (with a note) where they are not there.
    fn all(folders: &[&str]) -> Vec<Subject> {
        let folders: Vec<_> = folders.iter().filter_map(|folder| common::shared(folder)).collect();
        if folders.is_empty() {
            return Vec::new();
        }
        let subject = |case: &Case| {
            let recording = Recording::open(case).unwrap();
            let name = case.outcome.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let setup = Setup { log: false, ..recording.setup().unwrap() };
            Subject { name, setup, workload: recording.workload }
        };
        find(&folders).unwrap().par_iter().map(subject).collect()
    }

    fn setup(&self, policy: &str) -> Setup {
        let mut setup = self.setup.clone();
        let keys = format!("expandable_segments:True,page_size_mb:2,page_reuse:{policy}");
        setup.settings.apply(&keys, Dialect::Millpond).unwrap();
        setup
    }

    fn has(&self, what: impl Fn(&Op) -> bool) -> bool {
        self.workload.ops.iter().any(what)
    }
}

/// Each block of a program is written by a kernel on its stream, and where another stream is recorded, that one waits for the
/// block's own and reads it.
fn with_kernels(workload: &Workload) -> Vec<Op> {
    let mut ops = Vec::with_capacity(2 * workload.ops.len());
    let mut owners = std::collections::HashMap::new();
    let mut captures = 0;
    let kernel =
        |stream, reads, writes| Op::Launch(Box::new(Launch { stream, us: 20, reads, writes, ..Launch::default() }));
    for op in &workload.ops {
        // The order inside a capture is the capture's own affair.
        match *op {
            Op::CaptureBegin { .. } => captures += 1,
            Op::CaptureEnd { .. } => captures -= 1,
            Op::RecordStream { id, stream } if captures == 0 => {
                ops.push(Op::ForkJoin { a: owners[&id], b: stream });
                ops.push(kernel(stream, vec![id], vec![]));
            }
            _ => {}
        }
        ops.push(op.clone());
        if let Op::Alloc { id, stream, .. } = *op {
            owners.insert(id, stream);
            if captures == 0 {
                ops.push(kernel(stream, vec![], vec![id]));
            }
        }
    }
    ops
}

fn no_use_comes_too_early(subjects: &[Subject]) {
    let wrong: Vec<String> = subjects
        .par_iter()
        .flat_map(|subject| {
            let ops = with_kernels(&subject.workload);
            let judged = |policy: &&str| {
                let machine = Machine::new(&Setup { hazards: true, ..subject.setup(policy) }).unwrap();
                let mut runner = Runner::new(&machine);
                // An allocation that failed has no memory to use.
                for op in &ops {
                    runner.step(op).unwrap();
                }
                machine.allocator().verify().unwrap();
                let hazards = machine.sim().hazards();
                let first = hazards.first()?;
                Some(format!("{}, {policy}: {} hazards: {first}", subject.name, hazards.len()))
            };
            POLICIES.iter().filter_map(judged).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), subjects.len());
}

#[test]
fn no_use_of_memory_comes_too_early_in_golden_recordings() {
    no_use_comes_too_early(&Subject::all(&["golden", "golden/fuzz"]));
}

#[test]
#[ignore = "minutes; ci/faults.sh"]
fn no_use_of_memory_comes_too_early_in_long_recordings() {
    no_use_comes_too_early(&Subject::all(&["workloads"]));
}

/// Of a segment, the pages that lie wholly in free blocks.
fn free_pages(segment: &SegmentState) -> u64 {
    let whole = |from: u64, size: u64| ((from + size) / PAGE).saturating_sub(from.div_ceil(PAGE));
    segment.blocks.iter().filter(|block| block.state == BlockUse::Free).map(|block| whole(block.addr, block.size)).sum()
}

/// How many pages the best place in a segment needs, its own ones included; `None` if the segment has no room.
fn pages_at_best(segment: &SegmentState, size: u64) -> Option<u64> {
    let is_idle = |state| matches!(state, BlockUse::Free | BlockUse::Unmapped);
    let runs = segment.blocks.chunk_by(|one, next| is_idle(one.state) && is_idle(next.state));
    let idle = runs.filter(|run| is_idle(run[0].state));
    let place = |run: &[BlockState]| {
        let (start, bytes) = (run[0].addr, run.iter().map(|block| block.size).sum::<u64>());
        let (first, end) = (start.next_multiple_of(PAGE), (start + bytes) / PAGE * PAGE);
        (bytes >= size).then(|| size.saturating_sub(first - start).div_ceil(PAGE).min(end.saturating_sub(first) / PAGE))
    };
    idle.filter_map(place).min()
}

/// A request that failed.
struct Failed {
    size: u64,
    stream: Stream,
    pool: PoolId,
    /// What may be held in all, bytes.
    limit: u64,
}

impl Failed {
    fn of(error: &Error, op: &Op, allocator: &Allocator) -> Option<Self> {
        match (error, op) {
            (Error::OutOfMemory(oom), _) => {
                let Oom { rounded, stream, pool, limit, device_total, .. } = **oom;
                Some(Failed { size: rounded, stream, pool, limit: limit.unwrap_or(device_total) })
            }
            (&Error::Rejected { requested }, &Op::Alloc { stream, pool: None, .. }) => {
                let (_, total) = allocator.driver().mem_info(Device(0)).unwrap();
                let fraction = allocator.world().settings().per_process_memory_fraction;
                let limit = (fraction * total as f64) as u64;
                let stream = Stream::new(Device(0), stream.into());
                Some(Failed { size: requested.next_multiple_of(512), stream, pool: PoolId::DEFAULT, limit })
            }
            _ => None,
        }
    }

    /// How it could have been served: with so many pages, of so many that are there.
    fn could_be_served(&self, allocator: &Allocator) -> Option<(u64, u64)> {
        let segments = allocator.segments();
        let (free, _) = allocator.driver().mem_info(Device(0)).unwrap();
        let held: u64 = segments.iter().map(SegmentState::mapped).sum();
        let room = free.min(self.limit.saturating_sub(held));
        let there = room / PAGE + segments.iter().filter(|segment| segment.page == PAGE).map(free_pages).sum::<u64>();
        let class = if self.size <= 1 << 20 { SizeClass::Small } else { SizeClass::Large };
        let is_own = |segment: &&SegmentState| {
            segment.expandable && (segment.stream, segment.class, segment.pool) == (self.stream, class, self.pool)
        };
        let best = segments.iter().filter(is_own).filter_map(|segment| pages_at_best(segment, self.size)).min();
        let needed = best.unwrap_or(u64::MAX).min(self.size.div_ceil(PAGE));
        (needed <= there).then_some((needed, there))
    }
}

/// A policy may fail what `off` serves, when it has served what `off` failed. But nothing fails for which pages are there.
#[test]
fn what_fails_needs_more_pages_than_are_free() {
    let subjects = Subject::all(&["golden", "golden/fuzz", "workloads"]);
    // Pages of a graph and blocks of a pool that hands out whole ones stay.
    let all_give = |subject: &&Subject| {
        !subject.has(|op| matches!(op, Op::CaptureBegin { .. } | Op::PoolCreate { no_split: true, .. }))
    };
    let subjects: Vec<&Subject> = subjects.iter().filter(all_give).collect();
    let outcomes: Vec<(u64, Vec<String>)> = subjects
        .par_iter()
        .flat_map(|subject| POLICIES[1..].par_iter().map(move |policy| (subject, policy)))
        .map(|(subject, policy)| {
            let machine = Machine::new(&subject.setup(policy)).unwrap();
            let mut runner = Runner::new(&machine);
            let (mut failed, mut wrong) = (0, Vec::new());
            for (number, op) in subject.workload.ops.iter().enumerate() {
                let Outcome::Failed(Failure::Allocator(error)) = runner.step(op).unwrap() else { continue };
                let Some(request) = Failed::of(&error, op, machine.allocator()) else { continue };
                failed += 1;
                if let Some((needed, there)) = request.could_be_served(machine.allocator()) {
                    let (name, size) = (&subject.name, request.size);
                    wrong.push(format!(
                        "{name}, {policy}, request {number}: {size} bytes need {needed} pages of {there}"
                    ));
                }
            }
            (failed, wrong)
        })
        .collect();
    let failed: u64 = outcomes.iter().map(|(failed, _)| failed).sum();
    let wrong: Vec<&String> = outcomes.iter().flat_map(|(_, wrong)| wrong).collect();
    eprintln!("{failed} requests failed");
    assert!(wrong.is_empty(), "{} of {failed}: {:#?}", wrong.len(), &wrong[..wrong.len().min(30)]);
    assert!(failed > 100 || subjects.is_empty(), "{failed} requests failed");
}
