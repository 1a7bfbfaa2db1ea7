//! What the process that makes the requests does, operation by operation.

use millpond::config::Settings;
use millpond::{BlockUse, Metric, PoolId};
use millpond_driver::Bytes;
use millpond_replay::{Failure, Launch, Machine, Nonsense, Op, Outcome, Runner, Setup, Workload};
use millpond_sim::{CallKind, EventMode};

const MIB: u64 = 1 << 20;

fn manual() -> Setup {
    Setup { events: EventMode::Manual, ..Setup::default() }
}

fn alloc(id: u64, mib: u64, stream: u32) -> Op {
    Op::Alloc { id, size: mib * MIB, stream, pool: None }
}

fn in_pool(id: u64, mib: u64, pool: u32) -> Op {
    Op::Alloc { id, size: mib * MIB, stream: 0, pool: Some(pool) }
}

fn make_pool(pool: u32) -> Op {
    Op::PoolCreate { pool, use_on_oom: false, no_split: false }
}

/// Makes requests, all of which succeed.
fn make(runner: &mut Runner, ops: &[Op]) {
    runner
        .run(ops, |request, op, outcome| {
            assert!(!matches!(outcome, Outcome::Failed(_)), "request {request}, {op}: {outcome:?}");
        })
        .unwrap();
}

/// The memory pool of each block in use, by address.
fn pools(machine: &Machine) -> Vec<PoolId> {
    let segments = machine.allocator().segments();
    let live = segments.iter().flat_map(|segment| {
        let live = segment.blocks.iter().filter(|block| block.state == BlockUse::Live);
        live.map(|_| segment.pool)
    });
    live.collect()
}

fn active(machine: &Machine) -> i64 {
    machine.allocator().stats().all(Metric::ActiveBytes).current / MIB as i64
}

#[test]
fn a_pool_named_by_an_alloc_is_active_for_it_alone_also_when_it_fails() {
    let machine = Machine::new(&Setup { capacity: Bytes(100 * MIB), ..Setup::default() }).unwrap();
    let mut runner = Runner::new(&machine);
    make(&mut runner, &[make_pool(0), in_pool(0, 30, 0), alloc(1, 30, 0)]);
    assert_eq!(pools(&machine), [PoolId(0, 1), PoolId::DEFAULT]);
    let failed = runner.step(&in_pool(2, 90, 0)).unwrap();
    assert!(matches!(&failed, Outcome::Failed(failure) if failure.is_out_of_memory()), "{failed:?}");
    assert_eq!(machine.allocator().pool_use_count(PoolId(0, 1)).unwrap(), 1);
    make(&mut runner, &[Op::Free { id: 2 }, alloc(2, 20, 0)]);
    assert_eq!(pools(&machine)[2], PoolId::DEFAULT);
}

#[test]
fn of_entered_pools_the_innermost_wins() {
    let machine = Machine::new(&Setup::default()).unwrap();
    let mut runner = Runner::new(&machine);
    make(&mut runner, &[make_pool(4), make_pool(9), Op::PoolEnter { pool: 4 }, alloc(0, 20, 0)]);
    make(&mut runner, &[Op::PoolEnter { pool: 9 }, alloc(1, 20, 0), Op::PoolLeave { pool: 9 }, alloc(2, 20, 0)]);
    make(&mut runner, &[Op::PoolLeave { pool: 4 }, alloc(3, 20, 0)]);
    assert_eq!(pools(&machine), [PoolId(0, 1), PoolId(0, 2), PoolId(0, 1), PoolId::DEFAULT]);
}

#[test]
fn r5_12_a_destroyed_pool_gives_its_memory_back() {
    let machine = Machine::new(&Setup::default()).unwrap();
    let mut runner = Runner::new(&machine);
    make(&mut runner, &[make_pool(0), in_pool(0, 20, 0), in_pool(1, 20, 0), Op::Free { id: 0 }]);
    make(&mut runner, &[Op::PoolDestroy { pool: 0 }, make_pool(0)]);
    assert_eq!(machine.allocator().stats().all(Metric::ReservedBytes).current, 20 * MIB as i64);
    assert_eq!(machine.sim().count(CallKind::Free), 1);
}

#[test]
fn r5_22_a_free_is_in_capture_context_and_an_alloc_on_another_stream_is_not() {
    let machine = Machine::new(&manual()).unwrap();
    let mut runner = Runner::new(&machine);
    let used_elsewhere = |id| [alloc(id, 20, 0), Op::RecordStream { id, stream: 2 }, Op::Free { id }];
    make(&mut runner, &[Op::CaptureBegin { graph: 0, share: 0, stream: 1 }, alloc(0, 20, 1), alloc(1, 20, 0)]);
    assert_eq!(pools(&machine), [PoolId(1, 0), PoolId::DEFAULT]);
    // A deferred free records no event; one outside of a capture does.
    let recorded = || machine.sim().count(CallKind::EventRecord);
    make(&mut runner, &used_elsewhere(2));
    assert_eq!(recorded(), 0);
    make(&mut runner, &[Op::CaptureEnd { graph: 0 }]);
    make(&mut runner, &used_elsewhere(3));
    // The stream that was recorded in the capture is dropped, so the deferred block waits for nothing (R5.37).
    assert_eq!((recorded(), active(&machine)), (1, 60));
}

#[test]
fn graphs_share_a_pool_which_goes_with_the_last_of_them() {
    let machine = Machine::new(&Setup::default()).unwrap();
    let mut runner = Runner::new(&machine);
    for graph in [0, 1] {
        make(&mut runner, &[Op::CaptureBegin { graph, share: 0, stream: 1 }]);
        make(&mut runner, &[alloc(graph.into(), 20, 1), Op::Free { id: graph.into() }, Op::CaptureEnd { graph }]);
    }
    let reserved = || machine.allocator().stats().all(Metric::ReservedBytes).current / MIB as i64;
    assert_eq!((reserved(), machine.allocator().pool_use_count(PoolId(1, 0)).unwrap()), (20, 2));
    make(&mut runner, &[Op::Replay { graph: 1 }, Op::GraphReset { graph: 0 }, Op::EmptyCache]);
    assert_eq!(reserved(), 20);
    make(&mut runner, &[Op::GraphReset { graph: 1 }, Op::GraphReset { graph: 1 }, Op::EmptyCache]);
    assert_eq!(reserved(), 0);
}

#[test]
fn resetting_a_graph_ends_its_capture_and_its_number_is_free_again() {
    let machine = Machine::new(&Setup::default()).unwrap();
    let mut runner = Runner::new(&machine);
    let begin = Op::CaptureBegin { graph: 0, share: 0, stream: 1 };
    make(&mut runner, &[begin.clone(), alloc(0, 20, 1), Op::GraphReset { graph: 0 }]);
    assert_eq!(runner.step(&Op::CaptureEnd { graph: 0 }).unwrap_err().why, Nonsense::NotCapturing { graph: 0 });
    make(&mut runner, &[begin, alloc(1, 20, 1), Op::CaptureEnd { graph: 0 }]);
    assert_eq!(pools(&machine), [PoolId(1, 0), PoolId(2, 0)]);
}

#[test]
fn events_complete_when_the_workload_says_so() {
    let machine = Machine::new(&manual()).unwrap();
    let mut runner = Runner::new(&machine);
    for (id, stream) in [(0, 1), (1, 2), (2, 1)] {
        make(&mut runner, &[alloc(id, 20, 0), Op::RecordStream { id, stream }, Op::Free { id }]);
    }
    assert_eq!(active(&machine), 60);
    let looks = |runner: &mut Runner, id, op: Op| {
        make(runner, &[op, alloc(id, 1, 3), Op::Free { id }]);
        active(&machine)
    };
    assert_eq!(looks(&mut runner, 10, Op::Advance { n: 1 }), 40);
    assert_eq!(looks(&mut runner, 10, Op::StreamSync { stream: 1 }), 20);
    // The event of a fork counts in the list, behind the one before.
    make(&mut runner, &[Op::ForkJoin { a: 0, b: 1 }]);
    assert_eq!(machine.sim().pending_events(), 2);
    assert_eq!(looks(&mut runner, 10, Op::Sync), 0);
}

#[test]
fn complete_frees_just_what_it_names() {
    let machine = Machine::new(&manual()).unwrap();
    let mut runner = Runner::new(&machine);
    runner.expect_completions();
    for (id, stream) in [(0, 1), (1, 1), (2, 2)] {
        make(&mut runner, &[alloc(id, 20, 0), Op::RecordStream { id, stream }, Op::Free { id }]);
    }
    make(&mut runner, &[Op::Complete { id: 2 }]);
    assert_eq!(active(&machine), 40);
    make(&mut runner, &[Op::Complete { id: 0 }, Op::Complete { id: 0 }]);
    assert_eq!(active(&machine), 20);
    make(&mut runner, &[Op::Complete { id: 1 }]);
    assert_eq!(active(&machine), 0);
}

#[test]
fn devices_have_allocators_of_their_own() {
    let workload = Workload {
        ops: vec![
            alloc(0, 20, 0),
            Op::Device { device: 1 },
            alloc(1, 30, 0),
            Op::Free { id: 0 },
            Op::Device { device: 0 },
            Op::Free { id: 1 },
            alloc(1, 40, 0),
        ],
    };
    let machine = Machine::new(&Setup { devices: workload.devices(), ..Setup::default() }).unwrap();
    make(&mut Runner::new(&machine), &workload.ops);
    let figures = |device: usize| {
        let stats = machine.allocators()[device].stats();
        [Metric::AllocatedBytes, Metric::ReservedBytes].map(|metric| stats.all(metric).current / MIB as i64)
    };
    assert_eq!((figures(0), figures(1)), ([40, 60], [0, 30]));
}

#[test]
fn settings_and_limits_change_while_running_and_faults_in_them_are_failures() {
    let machine = Machine::new(&Setup { capacity: Bytes(100 * MIB), ..Setup::default() }).unwrap();
    let mut runner = Runner::new(&machine);
    make(&mut runner, &[Op::SetConf { conf: "expandable_segments:True".into() }, alloc(0, 20, 0)]);
    assert!(machine.allocator().segments()[0].expandable);
    make(&mut runner, &[Op::SetFraction { fraction: 0.5 }]);
    assert!(matches!(runner.step(&alloc(1, 40, 0)).unwrap(), Outcome::Failed(failure) if failure.is_out_of_memory()));
    let outcome = runner.step(&Op::SetConf { conf: "nonsense:1".into() }).unwrap();
    assert!(matches!(outcome, Outcome::Failed(Failure::Settings(_))), "{outcome:?}");
    let outcome = runner.step(&Op::SetFraction { fraction: 1.5 }).unwrap();
    assert!(matches!(outcome, Outcome::Failed(Failure::Allocator(_))), "{outcome:?}");
}

#[test]
fn work_reaches_the_device_and_memory_that_failed_is_left_out() {
    let setup = Setup { capacity: Bytes(100 * MIB), settings: Settings::default(), ..manual() };
    let machine = Machine::new(&setup).unwrap();
    let mut runner = Runner::new(&machine);
    make(&mut runner, &[alloc(0, 20, 0)]);
    assert!(matches!(runner.step(&alloc(1, 200, 0)).unwrap(), Outcome::Failed(_)));
    let launch = |reads: &[u64]| {
        Op::Launch(Box::new(Launch { stream: 1, us: 5, reads: reads.to_vec(), writes: vec![0], label: "k".into() }))
    };
    make(&mut runner, &[Op::Work { id: 0, stream: 1 }, Op::Work { id: 1, stream: 1 }, launch(&[1])]);
    assert_eq!([CallKind::Memset, CallKind::Launch].map(|kind| machine.sim().count(kind)), [1, 1]);
    make(&mut runner, &[Op::EventRecord { event: 7, stream: 1 }, Op::EventWait { event: 7, stream: 2 }]);
    assert_eq!(machine.sim().count(CallKind::StreamWaitEvent), 1);
}

#[test]
fn requests_that_make_no_sense_name_their_number_and_why() {
    let begin = |graph, share| Op::CaptureBegin { graph, share, stream: 1 };
    let cases: [(&[Op], Nonsense); 14] = [
        (&[Op::Free { id: 3 }], Nonsense::UnknownId { id: 3 }),
        (&[alloc(3, 1, 0), Op::Free { id: 3 }, Op::Free { id: 3 }], Nonsense::FreedId { id: 3 }),
        (&[alloc(3, 1, 0), alloc(3, 1, 0)], Nonsense::IdInUse { id: 3 }),
        (&[make_pool(0), in_pool(3, 1, 0), in_pool(3, 1, 0)], Nonsense::IdInUse { id: 3 }),
        (&[Op::RecordStream { id: 3, stream: 1 }], Nonsense::UnknownId { id: 3 }),
        (&[Op::Launch(Box::new(Launch { reads: vec![3], ..Launch::default() }))], Nonsense::UnknownId { id: 3 }),
        (&[in_pool(0, 1, 5)], Nonsense::UnknownPool { pool: 5 }),
        (&[make_pool(5), make_pool(5)], Nonsense::PoolInUse { pool: 5 }),
        (&[make_pool(5), Op::PoolDestroy { pool: 5 }, Op::PoolEnter { pool: 5 }], Nonsense::UnknownPool { pool: 5 }),
        (&[Op::Replay { graph: 5 }], Nonsense::UnknownGraph { graph: 5 }),
        (&[begin(5, 6)], Nonsense::UnknownGraph { graph: 6 }),
        (&[begin(5, 5), begin(5, 5)], Nonsense::GraphInUse { graph: 5 }),
        (&[Op::EventWait { event: 5, stream: 1 }], Nonsense::UnknownEvent { event: 5 }),
        (&[Op::Device { device: 1 }], Nonsense::UnknownDevice { device: 1 }),
    ];
    for (ops, why) in cases {
        let machine = Machine::new(&Setup::default()).unwrap();
        let error = Runner::new(&machine).run(ops, |_, _, _| ()).unwrap_err();
        assert_eq!((error.request, &error.why), (ops.len() as u64 - 1, &why));
        assert_eq!(error.to_string(), format!("request {}: {why}", error.request));
    }
}
