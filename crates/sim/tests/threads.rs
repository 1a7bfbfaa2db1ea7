//! One machine, several threads.

use std::sync::Arc;

use millpond_driver::*;
use millpond_sim::{CallKind, EventMode, Sim, SimConfig};

#[test]
fn threads_share_a_machine_as_a_driver_and_leave_nothing_behind() {
    let sim = Sim::new(SimConfig { events: EventMode::Manual, hazards: true, ..SimConfig::default() });
    let driver: Arc<dyn Driver> = sim.clone();
    std::thread::scope(|scope| {
        for thread in 1..5 {
            let (driver, stream) = (Arc::clone(&driver), Stream::new(Device(0), thread));
            scope.spawn(move || {
                let event = driver.event_create(Device(0)).unwrap();
                for _ in 0..500 {
                    let addr = driver.mem_alloc(Device(0), 1 << 20).unwrap();
                    driver.memset_async(addr, 1, 1 << 20, stream).unwrap();
                    driver.event_record(event, stream).unwrap();
                    driver.event_synchronize(event).unwrap();
                    assert_eq!(driver.event_query(event), Ok(true));
                    driver.mem_free(Device(0), addr).unwrap();
                }
            });
        }
    });
    assert_eq!(sim.mem_info(Device(0)), Ok((80 << 30, 80 << 30)));
    assert_eq!((sim.pending_events(), sim.count(CallKind::Malloc)), (0, 2000));
    assert_eq!(sim.hazards(), []);
}
