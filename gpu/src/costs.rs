//! How long the calls take that an allocator makes: medians, and a cost table of them.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context;
use millpond_cuda::Cuda;
use millpond_driver::{Access, Handle, HandleProps, Location, Memory, Order, Result, Status, Stream, Virtual};
use millpond_sim::CostTable;
use serde_json::{Value, json};

use crate::{D, MIB};

/// Each is measured so often; the median does not mind a few that were disturbed.
const ROUNDS: usize = 31;
/// The two sizes of pages of the allocator's pools (R4.1).
const PAGES: [u64; 2] = [2 * MIB, 20 * MIB];
/// So many small pages are mapped and unmapped as one range, as an allocator does.
const PAGES_OF_A_RANGE: u64 = 10;
/// What cudaMalloc is asked for: the segments of the allocator, and larger ones.
const PLAIN: [u64; 5] = [2 * MIB, 20 * MIB, 128 * MIB, 512 * MIB, 2048 * MIB];

/// The table that the simulated device has by itself; it gives the calls that are not measured.
const BUILT_IN: &str = include_str!("../../crates/sim/data/cost.json");

/// The call, the handles and the MiB that it touches.
type Case = (&'static str, u64, u64);

/// Microseconds that calls took.
#[derive(Debug, Default)]
pub struct Costs {
    device: String,
    times: BTreeMap<Case, Vec<f64>>,
}

/// Measures.
///
/// # Errors
/// Whatever the driver refuses.
pub fn measure(cuda: &Cuda) -> Result<Costs> {
    let mut costs = Costs { device: cuda.caps(D)?.name, ..Costs::default() };
    let stream = cuda.stream_create(D)?;
    let room = cuda.mem_info(D)?.0 / 2;
    // The first of everything is dearer than all that follow: contexts and tables come into being.
    Costs::default().round(cuda, stream, room)?;
    for _ in 0..ROUNDS {
        costs.round(cuda, stream, room)?;
    }
    cuda.stream_destroy(stream)?;
    Ok(costs)
}

impl Costs {
    fn round(&mut self, cuda: &Cuda, stream: Stream, room: u64) -> Result<()> {
        for page in PAGES {
            self.pages(cuda, page, 1)?;
        }
        self.pages(cuda, PAGES[0], PAGES_OF_A_RANGE)?;
        for bytes in PLAIN.into_iter().filter(|&bytes| bytes <= room) {
            let addr = self.time("cuMemAlloc", 1, bytes, || cuda.mem_alloc(D, bytes))?;
            self.time("cuMemFree", 1, bytes, || cuda.mem_free(D, addr))?;
        }
        self.events(cuda, stream)
    }

    fn time<T>(&mut self, call: &'static str, handles: u64, bytes: u64, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let started = Instant::now();
        let done = run()?;
        let us = started.elapsed().as_secs_f64() * 1e6;
        self.times.entry((call, handles, bytes / MIB)).or_default().push(us);
        Ok(done)
    }

    /// A range of pages comes and goes.
    fn pages(&mut self, cuda: &Cuda, page: u64, count: u64) -> Result<()> {
        let bytes = page * count;
        let device = Location::Device(D);
        let addr = self.time("cuMemAddressReserve", 1, bytes, || cuda.mem_address_reserve(bytes, 0, 0))?;
        let mut handles: Vec<Handle> = Vec::new();
        for at in (0..count).map(|number| addr + number * page) {
            let handle = self.time("cuMemCreate", 1, page, || cuda.mem_create(page, HandleProps::on(D)))?;
            self.time("cuMemMap", 1, page, || cuda.mem_map(at, page, 0, handle))?;
            handles.push(handle);
        }
        self.time("cuMemSetAccess", count, bytes, || cuda.mem_set_access(addr, bytes, device, Access::ReadWrite))?;
        self.time("cuMemUnmap", count, bytes, || cuda.mem_unmap(addr, bytes))?;
        for handle in handles {
            self.time("cuMemRelease", 1, page, || cuda.mem_release(handle))?;
        }
        self.time("cuMemAddressFree", 1, bytes, || cuda.mem_address_free(addr, bytes))
    }

    fn events(&mut self, cuda: &Cuda, stream: Stream) -> Result<()> {
        let event = self.time("cuEventCreate", 1, 0, || cuda.event_create(D))?;
        self.time("cuEventRecord", 1, 0, || cuda.event_record(event, stream))?;
        cuda.stream_synchronize(stream)?;
        self.time("cuEventQuery", 1, 0, || cuda.event_query(event))?;
        self.time("cuStreamSynchronize", 1, 0, || cuda.stream_synchronize(stream))?;
        self.time("cuEventDestroy", 1, 0, || cuda.event_destroy(event))?;
        self.time("cuMemGetInfo", 1, 0, || cuda.mem_info(D)).map(drop)
    }

    /// The median of each case, microseconds.
    fn medians(&self) -> impl Iterator<Item = (Case, f64)> + '_ {
        self.times.iter().map(|(&case, times)| {
            let mut times = times.clone();
            times.sort_by(f64::total_cmp);
            (case, times[times.len() / 2])
        })
    }

    /// The medians, for people.
    pub fn text(&self) -> String {
        let line = |((call, handles, mib), us): (Case, f64)| {
            let what = match (handles, mib) {
                (_, 0) => String::new(),
                (1, _) => format!("{mib} MiB"),
                _ => format!("{handles} × {} MiB", mib / handles),
            };
            format!("{call:20} {what:>11} {us:10.2} µs\n")
        };
        let lines: String = self.medians().map(line).collect();
        format!("Medians of {ROUNDS} on {} (cudaMalloc is cuMemAlloc, cudaFree is cuMemFree)\n{lines}", self.device)
    }

    /// The built-in table with the measured calls in the place of its own, for `millpond sim --cost` and `crates/sim/data`.
    ///
    /// # Errors
    /// The simulated device would not read it.
    pub fn table(&self) -> anyhow::Result<String> {
        let mut table: Value = serde_json::from_str(BUILT_IN)?;
        let measured: Vec<(Case, f64)> = self.medians().collect();
        for calls in measured.chunk_by(|((a, ..), _), ((b, ..), _)| a == b) {
            let ((call, ..), _) = calls[0];
            table["calls"][call] = entry(calls, &self.device);
        }
        let before = table["about"].as_str().unwrap_or_default();
        table["about"] =
            format!("Calls whose source says 'measured': on {}, by gpu/check.sh. {before}", self.device).into();
        let text = serde_json::to_string_pretty(&table)?;
        CostTable::from_json(&text).context("the simulated device does not read the table")?;
        Ok(text)
    }
}

/// The form in which a table has a call: what every call costs, and what each MiB and each handle adds.
fn entry(calls: &[(Case, f64)], device: &str) -> Value {
    let single: Vec<(f64, f64)> =
        calls.iter().filter(|((_, handles, _), _)| *handles == 1).map(|&((_, _, mib), us)| (mib as f64, us)).collect();
    let n = single.len() as f64;
    let (x, y) = single.iter().fold((0.0, 0.0), |(x, y), (mib, us)| (x + mib / n, y + us / n));
    let spread: f64 = single.iter().map(|(mib, _)| (mib - x).powi(2)).sum();
    let common: f64 = single.iter().map(|(mib, us)| (mib - x) * (us - y)).sum();
    // A part below nothing is noise.
    let per_mib = if spread > 0.0 { (common / spread).max(0.0) } else { 0.0 };
    let one = (y - per_mib * x).max(0.0);
    // Of ranges of several handles, what lies above a range of one handle and the same bytes is due to the handles.
    let several = calls.iter().find(|((_, handles, _), _)| *handles > 1);
    let per_handle = several.map_or(0.0, |&((_, handles, mib), us)| {
        ((us - one - per_mib * mib as f64) / (handles - 1) as f64).clamp(0.0, one)
    });
    let medians = calls.iter().map(|((_, handles, mib), us)| match handles {
        1 => format!("{us:.2} µs at {mib} MiB"),
        _ => format!("{us:.2} µs at {mib} MiB of {handles} handles"),
    });
    let source = format!("measured on {device}, medians: {}", medians.collect::<Vec<_>>().join(", "));
    json!({
        "fixed_us": rounded(one - per_handle),
        "per_handle_us": rounded(per_handle),
        "per_mib_us": rounded(per_mib),
        "source": source,
    })
}

fn rounded(us: f64) -> f64 {
    (us * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use millpond_sim::CallKind;

    use super::*;

    fn costs(times: &[(Case, f64)]) -> Costs {
        let times = times.iter().map(|&(case, us)| (case, vec![us * 9.0, us, us / 9.0])).collect();
        Costs { device: "Grindstone".to_owned(), times }
    }

    #[test]
    fn a_call_is_split_into_what_is_fixed_and_what_bytes_and_handles_add() {
        let measured = [
            (("cuMemUnmap", 1, 2), 10.0 + 3.0 + 2.0),
            (("cuMemUnmap", 1, 20), 10.0 + 3.0 + 20.0),
            (("cuMemUnmap", 10, 20), 10.0 + 30.0 + 20.0),
            (("cuMemCreate", 1, 2), 8.0),
            (("cuMemCreate", 1, 20), 7.0),
        ];
        let text = costs(&measured).table().unwrap();
        let table = CostTable::from_json(&text).unwrap();
        let unmap = table.call(CallKind::Unmap);
        assert_eq!((unmap.fixed_ns, unmap.per_handle_ns), (10_000, 3_000.0));
        assert_eq!(unmap.variable_ns(0, 5 * MIB, 0), 5_000);
        assert_eq!(table.call(CallKind::Create).per_byte_ns, 0.0, "less for more is noise");
        assert!(table.source("cuMemUnmap").is_some_and(|source| source.contains("Grindstone")), "{text}");
    }

    #[test]
    fn calls_that_are_not_measured_stay_as_they_were() {
        let table = CostTable::from_json(&costs(&[(("cuMemMap", 1, 2), 4.0)]).table().unwrap()).unwrap();
        let built_in = CostTable::default();
        assert_eq!(table.call(CallKind::Map).fixed_ns, 4_000);
        assert_eq!(table.call(CallKind::Malloc), built_in.call(CallKind::Malloc));
        assert_eq!(table.source("cuMemAlloc"), built_in.source("cuMemAlloc"));
        assert_eq!(table.copy_ns_per_byte, built_in.copy_ns_per_byte);
    }
}
