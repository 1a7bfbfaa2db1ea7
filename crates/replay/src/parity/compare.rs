//! A run of the recorded requests, compared decision by decision.

use millpond::{Action, Error, Event, HistoryOptions, Level};
use millpond_sim::{Call, CallKind};

use super::line::{Called, Traced};
use super::ranges::Ranges;
use super::recording::{Allocated, ParityError, Recording};
use super::{Difference, rules, segments, stats};
use crate::machine::Machine;
use crate::runner::{Failure, Outcome, Runner};
use crate::workload::Op;

/// Runs the recorded requests and compares every decision: how many were equal, and the first that was not.
///
/// With `unordered_frees` the frees that complete within one request are compared as a multiset, and the statistics that
/// depend on their order are left out.
///
/// # Errors
/// A header that is not understood; requests that make no sense.
pub fn compare(recording: &Recording, unordered_frees: bool) -> Result<(u64, Option<Difference>), ParityError> {
    let machine = Machine::new(&recording.setup()?).map_err(Box::new)?;
    let partial = recording.header.trace_lines.is_some();
    let skip_actions =
        if partial { vec![Action::Alloc, Action::FreeRequested, Action::FreeCompleted] } else { Vec::new() };
    machine.allocator().record_history(Some(HistoryOptions {
        level: Level::State,
        skip_actions,
        ..Default::default()
    }));
    let mut comparison = Comparison {
        recording,
        machine: &machine,
        unordered_frees,
        ranges: Ranges::default(),
        next: Next::default(),
        decisions: 0,
    };
    let mut runner = Runner::new(&machine);
    for op in &recording.workload.ops {
        let request = runner.requests();
        let outcome = runner.step(op)?;
        if let Err(difference) = comparison.request(request, op, outcome) {
            return Ok((comparison.decisions, Some(*difference)));
        }
    }
    let difference = comparison.end().err().map(|difference| *difference);
    Ok((comparison.decisions, difference))
}

/// How far each list of the recording has been compared.
#[derive(Default)]
struct Next {
    allocated: usize,
    checkpoint: usize,
    trace: usize,
    call: usize,
}

struct Comparison<'a> {
    recording: &'a Recording,
    machine: &'a Machine,
    unordered_frees: bool,
    ranges: Ranges,
    next: Next,
    decisions: u64,
}

type Verdict = Result<(), Box<Difference>>;

const NOTHING: &str = "nothing";

fn differ(
    request: u64,
    what: &'static str,
    rule: &'static str,
    expected: impl ToString,
    got: impl ToString,
) -> Verdict {
    let (expected, got) = (expected.to_string(), got.to_string());
    Err(Box::new(Difference { file: String::new(), request, what, expected, got, rule }))
}

impl Comparison<'_> {
    fn request(&mut self, request: u64, op: &Op, outcome: Outcome) -> Verdict {
        self.calls(request)?;
        self.trace(request)?;
        match (op, outcome) {
            (Op::Alloc { .. }, outcome) => self.allocation(request, outcome),
            (_, Outcome::Checkpoint) => self.checkpoint(request),
            (_, Outcome::Failed(failure)) => differ(request, "error", rules::SUCCESS, NOTHING, failure),
            _ => Ok(()),
        }
    }

    /// An address minus the lowest one; calls without an address have 0.
    fn relative(&self, addr: u64) -> u64 {
        addr.saturating_sub(self.recording.header.va_base)
    }

    fn calls(&mut self, request: u64) -> Verdict {
        let log = self.machine.sim().take_log();
        for call in log {
            let Some(name) = recorded_name(&call) else { continue };
            let got = Called {
                request,
                call: name.to_owned(),
                addr: self.relative(call.addr),
                size: call.size,
                // Recordings hold failed reservations like any other, at address 0.
                error: call.code.filter(|_| call.kind != CallKind::Reserve).map(|code| code.0),
            };
            match self.recording.calls.get(self.next.call) {
                Some(expected) if *expected == got => {}
                Some(expected) if expected.request == request => {
                    return differ(request, "driver call", rules::of_call(&expected.call), expected, got);
                }
                _ => return differ(request, "driver call", rules::of_call(name), NOTHING, got),
            }
            self.next.call += 1;
            self.decisions += 1;
            self.ranges.follow(&call);
        }
        match self.recording.calls.get(self.next.call) {
            Some(expected) if expected.request <= request => {
                differ(request, "driver call", rules::of_call(&expected.call), expected, NOTHING)
            }
            _ => Ok(()),
        }
    }

    fn trace(&mut self, request: u64) -> Verdict {
        let rest = &self.recording.trace[self.next.trace..];
        let expected = &rest[..rest.iter().take_while(|traced| traced.request <= request).count()];
        let got: Vec<Traced> = match self.machine.allocator().take_history() {
            events if events.is_empty() => Vec::new(),
            events => events.iter().map(|event| self.traced(request, event)).collect(),
        };
        self.next.trace += expected.len();
        let (mut want, mut have): (Vec<&Traced>, Vec<&Traced>) = (expected.iter().collect(), got.iter().collect());
        if self.unordered_frees {
            // Frees that complete first, sorted; what else happened keeps its order.
            let key = |traced: &&Traced| {
                let completed = traced.action == Action::FreeCompleted.name();
                (!completed, if completed { (traced.addr, traced.size) } else { (0, 0) })
            };
            want.sort_by_key(key);
            have.sort_by_key(key);
        }
        for (want, have) in want.iter().zip(&have) {
            if want != have {
                return differ(request, "trace event", rules::of_event(&want.action), want, have);
            }
            self.decisions += 1;
        }
        if let Some(want) = want.get(have.len()) {
            return differ(request, "trace event", rules::of_event(&want.action), want, NOTHING);
        }
        match have.get(want.len()) {
            Some(have) => differ(request, "trace event", rules::of_event(&have.action), NOTHING, have),
            None => Ok(()),
        }
    }

    fn traced(&self, request: u64, event: &Event) -> Traced {
        let oom = event.action == Action::Oom;
        Traced {
            request,
            action: event.action.name().to_owned(),
            addr: if oom { 0 } else { self.relative(event.addr) },
            size: event.size,
            stream: event.stream.raw,
            pool: (event.pool.0, event.pool.1),
            device_free: oom.then_some(event.addr),
        }
    }

    fn allocation(&mut self, request: u64, outcome: Outcome) -> Verdict {
        let expected = match self.recording.allocated.get(self.next.allocated) {
            Some((at, expected)) if *at == request => expected,
            _ => return differ(request, "allocation", rules::SUCCESS, "no outcome", self.described(&outcome)),
        };
        self.next.allocated += 1;
        match (expected, &outcome) {
            (&Allocated::At { seg, off, va }, &Outcome::Allocated(addr)) => {
                if (va, Some((seg, off))) != (self.relative(addr), self.ranges.find(addr)) {
                    let expected = format!("{va}: range {seg}, offset {off}");
                    return differ(request, "address", rules::ADDRESS, expected, self.described(&outcome));
                }
            }
            (Allocated::Oom(text), Outcome::Failed(failure)) if failure.is_out_of_memory() => {
                let got = without_pids(&failure.to_string());
                if *text != got {
                    return differ(request, "out-of-memory text", rules::OOM_TEXT, text, got);
                }
            }
            (Allocated::Error(text), Outcome::Failed(failure)) if !failure.is_out_of_memory() => {
                let got = format!("{}: {failure}", type_name(failure));
                if !got.starts_with(text.as_str()) {
                    return differ(request, "error", rules::SUCCESS, text, got);
                }
            }
            (Allocated::At { seg, off, va }, _) => {
                let expected = format!("{va}: range {seg}, offset {off}");
                return differ(request, "allocation", rules::SUCCESS, expected, self.described(&outcome));
            }
            (Allocated::Oom(text) | Allocated::Error(text), _) => {
                return differ(request, "allocation", rules::SUCCESS, text, self.described(&outcome));
            }
        }
        self.decisions += 1;
        Ok(())
    }

    fn described(&self, outcome: &Outcome) -> String {
        match outcome {
            &Outcome::Allocated(addr) => {
                let at = self.relative(addr);
                match self.ranges.find(addr) {
                    Some((seg, off)) => format!("{at}: range {seg}, offset {off}"),
                    None => format!("{at}, outside of all ranges"),
                }
            }
            Outcome::Failed(failure) => failure.to_string(),
            Outcome::Done | Outcome::Checkpoint => NOTHING.to_owned(),
        }
    }

    fn checkpoint(&mut self, request: u64) -> Verdict {
        match self.recording.checkpoints.get(self.next.checkpoint) {
            Some((at, expected)) if *at == request => {
                self.next.checkpoint += 1;
                self.statistics(request, expected)
            }
            // A recording may hold fewer checkpoints than requests for one, never others.
            _ => Ok(()),
        }
    }

    fn statistics(&mut self, request: u64, expected: &std::collections::BTreeMap<String, i64>) -> Verdict {
        let got = stats::non_zero(&self.machine.allocator().stats());
        let leave_out = |name: &str| self.unordered_frees && stats::depends_on_order(name);
        if let Some((name, expected, got)) = stats::differ(expected, &got, leave_out) {
            let (want, have) = (format!("{name} = {expected}"), format!("{name} = {got}"));
            return differ(request, "statistic", rules::of_statistic(&name), want, have);
        }
        self.decisions += expected.len() as u64;
        Ok(())
    }

    /// What is looked at when all requests are done.
    fn end(&mut self) -> Verdict {
        let request = self.recording.workload.ops.len() as u64;
        if let Some((at, _)) = self.recording.allocated.get(self.next.allocated) {
            return differ(*at, "allocation", rules::SUCCESS, "an outcome", "no such request");
        }
        if let Some((at, _)) = self.recording.checkpoints.get(self.next.checkpoint) {
            return differ(*at, "statistic", "R8.1", "a checkpoint", "no such request");
        }
        if let Some(expected) = &self.recording.end {
            self.statistics(request, expected)?;
        }
        self.segments(request)
    }

    fn segments(&mut self, request: u64) -> Verdict {
        let expected = &self.recording.segments;
        let va_base = self.recording.header.va_base;
        let got = segments::recorded_form(&self.machine.allocator().segments(), &self.ranges, va_base);
        for (want, have) in expected.iter().zip(&got) {
            for (a, b) in want.blocks.iter().zip(&have.blocks) {
                if !segments::same(a, b) {
                    let (a, b) = (format!("{want}: {a:?}"), format!("{have}: {b:?}"));
                    return differ(request, "final block", rules::BLOCK, a, b);
                }
                self.decisions += 1;
            }
            if want.blocks.len() != have.blocks.len() || want.to_string() != have.to_string() {
                return differ(request, "final segment", rules::SEGMENT, want, have);
            }
            self.decisions += 1;
        }
        match (expected.get(got.len()), got.get(expected.len())) {
            (Some(want), _) => differ(request, "final segment", rules::SEGMENT, want, NOTHING),
            (_, Some(have)) => differ(request, "final segment", rules::SEGMENT, NOTHING, have),
            _ => Ok(()),
        }
    }
}

/// The name of a driver call in a recording; `None` for calls that recordings leave out.
fn recorded_name(call: &Call) -> Option<&'static str> {
    Some(match call.kind {
        CallKind::Malloc => "malloc",
        CallKind::Free => "free",
        CallKind::Reserve => "reserve",
        CallKind::AddrFree => "addrfree",
        CallKind::Create => "create",
        CallKind::Release => "release",
        CallKind::Map => "map",
        CallKind::Unmap => "unmap",
        _ => return None,
    })
}

/// The Python type that PyTorch raises.
fn type_name(failure: &Failure) -> &'static str {
    match failure {
        Failure::Allocator(Error::OutOfMemory(_) | Error::TooLarge { .. } | Error::Rejected { .. }) => {
            "OutOfMemoryError"
        }
        _ => "RuntimeError",
    }
}

/// A text with the ids of other processes replaced, as recordings have it.
fn without_pids(text: &str) -> String {
    let mut parts = text.split("Process ");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str("Process PID");
        masked.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    masked
}
