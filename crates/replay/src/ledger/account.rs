//! Running a program and writing its ledger.

use std::collections::BTreeMap;

use millpond::{Metric, SegmentState};
use millpond_driver::Device;
use millpond_sim::{CallKind, Hazard};

use super::holdings::{ExpandableHolding, SegmentHolding};
use super::peaks::{Coarse, Fine, STRIDE};
use super::{FirstOom, Ledger};
use crate::program::Program;
use crate::runner::{Outcome, OwnCalls, RunError};

/// A ledger, and the segments at the moment it is read for most.
#[derive(Clone, Debug)]
pub struct Account {
    /// What the run came to.
    pub ledger: Ledger,
    /// The segments of the device when reserved memory first stood at its peak.
    pub at_peak: Vec<SegmentState>,
    /// Uses of memory that nothing orders, where the machine checks for them.
    pub hazards: Vec<Hazard>,
}

/// The driver calls that a ledger counts, by the names that recordings use.
const COUNTED: [(&str, CallKind); 12] = [
    ("malloc", CallKind::Malloc),
    ("free", CallKind::Free),
    ("reserve", CallKind::Reserve),
    ("addrfree", CallKind::AddrFree),
    ("create", CallKind::Create),
    ("release", CallKind::Release),
    ("map", CallKind::Map),
    ("unmap", CallKind::Unmap),
    ("set_access", CallKind::SetAccess),
    ("event_record", CallKind::EventRecord),
    ("event_query", CallKind::EventQuery),
    ("stream_sync", CallKind::StreamSynchronize),
];

/// Runs a program twice on fresh machines and writes the ledger of one device: the first run finds what the peaks are, the
/// second when they were. `fresh` makes the program anew; with `until` only requests 0 to `until` are made. `progress` is
/// told now and then how many requests were made, of both runs together.
///
/// # Errors
/// What `fresh` returns; a request that makes no sense.
pub fn account<P: Program, E: From<RunError>>(
    fresh: impl Fn() -> Result<P, E>,
    device: Device,
    until: Option<u64>,
    mut progress: impl FnMut(u64),
) -> Result<Account, E> {
    let limit = until.map_or(u64::MAX, |until| until.saturating_add(1));
    let mut program = fresh()?;
    let mut ledger = Ledger { schema: 1, ..Ledger::default() };
    let mut coarse = Coarse::default();
    while ledger.events < limit
        && let Some(outcome) = program.next_request()?
    {
        if let Outcome::Failed(failure) = outcome {
            if !failure.is_out_of_memory() {
                ledger.errors += 1;
            } else if ledger.first_oom.is_none() {
                ledger.first_oom = Some(FirstOom { request: ledger.events, text: failure.to_string() });
            }
        }
        ledger.events += 1;
        if ledger.events.is_multiple_of(STRIDE) {
            coarse.look(&program.machine().allocators()[device.0 as usize], ledger.events);
            progress(ledger.events);
        }
    }
    coarse.look(&program.machine().allocators()[device.0 as usize], ledger.events);
    close(&mut ledger, &program, device);
    let hazards = program.machine().sim().hazards();

    let before = ledger.events;
    let (mut program, mut fine, mut request) = (fresh()?, Fine::new(coarse), 0);
    let mut at_peak = Vec::new();
    while !fine.is_complete() && request < before && program.next_request()?.is_some() {
        let allocator = &program.machine().allocators()[device.0 as usize];
        let stood = fine.at[3].is_some();
        fine.look(allocator, request);
        if !stood && fine.at[3].is_some() {
            at_peak = allocator.segments();
        }
        request += 1;
        if request % STRIDE == 0 {
            progress(before + request);
        }
    }
    let at = |metric: usize| fine.at[metric].unwrap_or(0);
    [ledger.peak_allocated, ledger.peak_active, ledger.peak_requested, ledger.peak_reserved] = coarse.peaks;
    [ledger.peak_allocated_at, ledger.peak_active_at] = [at(0), at(1)];
    [ledger.peak_requested_at, ledger.peak_reserved_at] = [at(2), at(3)];
    Ok(Account { ledger, at_peak, hazards })
}

/// The figures that are read when all requests are made.
fn close(ledger: &mut Ledger, program: &impl Program, device: Device) {
    let machine = program.machine();
    let allocator = &machine.allocators()[device.0 as usize];
    let stats = allocator.stats();
    let held = |metric| u64::try_from(stats.all(metric).current).unwrap_or(0);
    ledger.final_allocated = held(Metric::AllocatedBytes);
    ledger.final_reserved = held(Metric::ReservedBytes);
    ledger.ooms = stats.num_ooms + stats.num_oom_rejections;
    ledger.retries = stats.num_alloc_retries;
    ledger.driver_calls = driver_calls(program);
    ledger.driver_time_us = driver_time_us(program);
    ledger.segments = allocator.segments().iter().map(SegmentHolding::of).collect();
    ledger.expandable = ExpandableHolding::all(allocator);
}

/// How many calls of a kind the program made itself.
fn made_by_program(kind: CallKind, own: OwnCalls) -> u64 {
    match kind {
        CallKind::EventRecord => own.event_records,
        CallKind::EventSynchronize => own.event_syncs,
        CallKind::StreamSynchronize => own.stream_syncs,
        CallKind::StreamWaitEvent => own.stream_waits,
        _ => 0,
    }
}

/// The allocator's driver calls so far, by the names that recordings use.
pub fn driver_calls(program: &(impl Program + ?Sized)) -> BTreeMap<&'static str, u64> {
    let (sim, own) = (program.machine().sim(), program.own_calls());
    COUNTED.map(|(name, kind)| (name, sim.count(kind).saturating_sub(made_by_program(kind, own)))).into()
}

/// What the allocator's driver calls have cost so far, in microseconds by the cost table: of kinds that the program calls
/// too, its part.
pub fn driver_time_us(program: &(impl Program + ?Sized)) -> u64 {
    let (sim, own) = (program.machine().sim(), program.own_calls());
    let others = [CallKind::EventSynchronize, CallKind::MemInfo, CallKind::StreamWaitEvent];
    let kinds = COUNTED.map(|(_, kind)| kind).into_iter().chain(others);
    let times: BTreeMap<&str, u64> = sim.call_times_us().into_iter().collect();
    let time = kinds.map(|kind| {
        let (all, time) = (sim.count(kind), times.get(kind.name()).copied().unwrap_or(0));
        let ours = all.saturating_sub(made_by_program(kind, own));
        if all == 0 { 0 } else { (u128::from(time) * u128::from(ours) / u128::from(all)) as u64 }
    });
    time.sum()
}
