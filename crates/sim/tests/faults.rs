//! Calls that fail on purpose, and the log of calls.

use millpond_driver::*;
use millpond_sim::{Call, CallKind, FaultCalls, FaultRule, FaultWhen, Sim, SimConfig};

const D: Device = Device(0);
const G: u64 = 2 << 20;
const OOM: Code = Code::ERROR_OUT_OF_MEMORY;

fn failures(sim: &Sim, n: usize) -> Vec<usize> {
    (1..=n).filter(|_| sim.mem_alloc(D, 1).is_err()).collect()
}

fn rule(when: FaultWhen) -> FaultRule {
    FaultRule { calls: FaultCalls::Only(CallKind::Malloc), when, code: OOM, sticky: false }
}

#[test]
fn the_nth_call_of_a_kind_fails_with_any_code() {
    let sim =
        Sim::new(SimConfig { faults: vec![FaultRule::nth(CallKind::Malloc, 2, Code(12345))], ..SimConfig::default() });
    sim.mem_info(D).unwrap();
    let first = sim.mem_alloc(D, 1).unwrap();
    let error = sim.mem_alloc(D, 1).unwrap_err();
    assert_eq!((error.code, error.call, error.detail.as_str()), (Code(12345), "cuMemAlloc", "injected"));
    assert_eq!(sim.mem_alloc(D, 1), Ok(first + G), "the failed call did nothing");
    assert_eq!((sim.faults_injected(), sim.take_last_error()), (1, Some(Code(12345))));
}

#[test]
fn rules_can_strike_once_from_a_call_on_or_every_nth() {
    for (when, expected) in [
        (FaultWhen::Nth(3), vec![3]),
        (FaultWhen::From(3), vec![3, 4, 5, 6]),
        (FaultWhen::Every(2), vec![2, 4, 6]),
        (FaultWhen::At(4), vec![5]),
    ] {
        let sim = Sim::new(SimConfig::default());
        sim.fail(rule(when));
        assert_eq!(failures(&sim, 6), expected, "{when:?}");
        sim.clear_faults();
        assert!(failures(&sim, 6).is_empty());
    }
}

#[test]
fn kinds_can_be_counted_together() {
    let sim = Sim::new(SimConfig::default());
    let calls = FaultCalls::OneOf(vec![CallKind::Create, CallKind::Reserve]);
    sim.fail(FaultRule { calls, when: FaultWhen::Nth(2), code: OOM, sticky: false });
    sim.mem_address_reserve(G, 0, 0).unwrap();
    sim.mem_alloc(D, 1).unwrap();
    assert!(sim.mem_create(G, HandleProps::on(D)).is_err());
}

/// Some calls of every kind that an allocator makes; the index of the first that failed.
fn script(sim: &Sim) -> Result<()> {
    let base = sim.mem_address_reserve(2 * G, 0, 0)?;
    let page = sim.mem_create(G, HandleProps::on(D))?;
    sim.mem_map(base, G, 0, page)?;
    sim.mem_set_access(base, G, Location::Device(D), Access::ReadWrite)?;
    let event = sim.event_create(D)?;
    sim.event_record(event, Stream::new(D, 1))?;
    sim.event_query(event)?;
    sim.mem_unmap(base, G)?;
    sim.mem_release(page)?;
    sim.mem_address_free(base, 2 * G)
}

#[test]
fn a_sweep_reaches_every_call_by_its_number() {
    let clean = Sim::new(SimConfig::default());
    script(&clean).unwrap();
    assert_eq!(clean.calls_made(), 10);
    let mut struck = Vec::new();
    for index in 0..clean.calls_made() {
        let sim = Sim::new(SimConfig::default());
        sim.fail(FaultRule::at(index, OOM));
        struck.push(script(&sim).unwrap_err().call);
        assert_eq!(sim.calls_made(), index + 1);
    }
    assert_eq!(struck[..4], ["cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"]);
    struck.sort_unstable();
    struck.dedup();
    assert_eq!(struck.len(), 10);
}

#[test]
fn a_sticky_failure_breaks_the_device_and_stays_pending() {
    let sim = Sim::new(SimConfig::default());
    sim.fail(FaultRule::nth(CallKind::EventRecord, 1, Code::ERROR_LAUNCH_FAILED).sticky());
    script(&sim).unwrap_err();
    let later = sim.mem_alloc(D, 1).unwrap_err();
    assert_eq!(later.code, Code::ERROR_LAUNCH_FAILED);
    assert!(later.detail.contains("cuEventRecord"), "{later}");
    assert_eq!(sim.take_last_error(), Some(Code::ERROR_LAUNCH_FAILED));
    assert_eq!(sim.peek_last_error(), Some(Code::ERROR_LAUNCH_FAILED));
    assert_eq!(sim.faults_injected(), 1);
    sim.clear_faults();
    sim.mem_alloc(D, 1).unwrap();
}

#[test]
fn failures_of_the_driver_api_alone_leave_no_last_error() {
    let sim = Sim::new(SimConfig::default());
    sim.fail(FaultRule::nth(CallKind::Create, 1, OOM));
    script(&sim).unwrap_err();
    assert_eq!(sim.peek_last_error(), None);
}

#[test]
fn the_log_has_memory_calls_in_the_manner_of_the_golden_recordings() {
    let sim = Sim::new(SimConfig { log: true, ..SimConfig::with_capacity(Bytes(4 * G)) });
    script(&sim).unwrap();
    let addr = sim.mem_alloc(D, 5).unwrap();
    sim.mem_alloc(D, 9 * G).unwrap_err();
    sim.mem_free(D, addr).unwrap();
    let base = addr;
    let call = |kind, addr, size| Call { kind, addr, size, code: None };
    assert_eq!(
        sim.take_log(),
        [
            call(CallKind::Reserve, base, 2 * G),
            call(CallKind::Create, 0, G),
            call(CallKind::Map, base, G),
            call(CallKind::SetAccess, base, G),
            call(CallKind::Unmap, base, G),
            call(CallKind::Release, 0, G),
            call(CallKind::AddrFree, base, 2 * G),
            call(CallKind::Malloc, addr, 5),
            Call { kind: CallKind::Malloc, addr: 0, size: 9 * G, code: Some(OOM) },
            call(CallKind::Free, addr, 0),
        ]
    );
    assert_eq!(sim.take_log(), []);
    let silent = Sim::new(SimConfig::default());
    script(&silent).unwrap();
    assert_eq!(silent.take_log(), []);
}
