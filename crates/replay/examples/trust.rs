//! How many recorded decisions of each file a replay of the recorded settings reproduces.
use millpond::TieOrder;
use millpond_replay::snapshot::{Recording, SnapshotRun, devices};

fn main() {
    for path in std::env::args().skip(1) {
        let snapshot = millpond_snapshot::Snapshot::open(&path).unwrap();
        for device in devices(&snapshot) {
            let recording = Recording::new(&snapshot, device).unwrap();
            for order in [TieOrder::Registration, TieOrder::Address] {
                let conditions = recording.conditions(order);
                match SnapshotRun::new(&recording, &conditions) {
                    Ok(mut run) => {
                        let mut first = None;
                        run.to_the_end(|recorded, outcome| {
                            if first.is_none()
                                && matches!(outcome, millpond_replay::Outcome::Failed(_))
                                && !matches!(recorded.request, millpond_replay::snapshot::Request::Oom { .. })
                            {
                                first = Some(format!("{recorded:?} {outcome:?}"));
                            }
                        });
                        println!(
                            "{path} device {device} {order:?}: {} of {} contradictions {} capacity {} verify {:?} {first:?}",
                            run.reproduced,
                            run.decisions,
                            recording.start.contradictions,
                            conditions.capacity,
                            run.machine().allocator().verify()
                        );
                    }
                    Err(error) => println!("{path} device {device} {order:?}: {error}"),
                }
            }
        }
    }
}
