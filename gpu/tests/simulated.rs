//! The checks of a real GPU, tried on the real driver's code path over the simulated library.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use millpond_cuda::Cuda;
use millpond_gpu::integrity::{self, Beside};
use millpond_gpu::{about, costs, is_simulated, parity, suite};
use millpond_sim::{CallKind, CostTable};

/// The driver over the simulated library, if this is the child process of the test `name`. If it is not, runs that child and
/// fails if it does.
fn over_the_shim(name: &str) -> Option<Arc<Cuda>> {
    if std::env::var_os("MILLPOND_SIM").is_some() {
        return Some(Cuda::load().unwrap());
    }
    let this = std::env::current_exe().unwrap();
    let library: PathBuf = this.parent().unwrap().join("libmillpond_libcuda.so");
    let mut child = Command::new(&this);
    child.args(["--exact", name, "--nocapture"]).env("MILLPOND_SIM", "1").env("MILLPOND_LIBCUDA", library);
    let output = child.env("MILLPOND_SIM_BACKING", "1").env("MILLPOND_SIM_CAPACITY", "8G").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    None
}

#[test]
fn the_suite_passes_and_the_device_says_that_it_is_simulated() {
    let Some(cuda) = over_the_shim("the_suite_passes_and_the_device_says_that_it_is_simulated") else { return };
    assert!(is_simulated(&cuda).unwrap());
    let about = about(&cuda).unwrap();
    assert!(about.contains("Millpond simulated device, 8GiB, CUDA 13.2 (SIMULATED"), "{about}");
    assert!(suite::run(&cuda).len() > 30);
}

#[test]
fn the_measured_costs_are_a_table_that_the_simulated_device_reads() {
    let Some(cuda) = over_the_shim("the_measured_costs_are_a_table_that_the_simulated_device_reads") else { return };
    let costs = costs::measure(&cuda).unwrap();
    let text = costs.table().unwrap();
    let table = CostTable::from_json(&text).unwrap();
    for kind in [
        CallKind::Malloc,
        CallKind::Free,
        CallKind::Reserve,
        CallKind::AddrFree,
        CallKind::Create,
        CallKind::Release,
        CallKind::Map,
        CallKind::Unmap,
        CallKind::SetAccess,
    ] {
        let source = table.source(kind.name()).unwrap_or_default();
        assert!(source.starts_with("measured on Millpond simulated device"), "{}: {source}", kind.name());
        assert!(source.contains(" at 2 MiB") && source.contains(" at 20 MiB"), "{source}");
    }
    let text = costs.text();
    assert!(text.contains("cuMemUnmap") && text.contains("10 × 2 MiB") && text.contains("2048 MiB"), "{text}");
}

#[test]
fn blocks_lie_where_they_lie_on_the_simulated_device() {
    let Some(cuda) = over_the_shim("blocks_lie_where_they_lie_on_the_simulated_device") else { return };
    let compared = parity::run(&cuda).unwrap();
    assert_eq!(compared.len(), 3);
    assert!(compared.iter().all(|&(_, count)| count == 4000), "{compared:?}");
}

#[test]
fn bytes_stay_while_other_ranges_come_and_go() {
    let Some(cuda) = over_the_shim("bytes_stay_while_other_ranges_come_and_go") else { return };
    let seen = integrity::run(&cuda, Duration::ZERO).unwrap();
    assert!(matches!(seen.beside, Beside::FillsAndCopies(why) if why.contains("compute nothing")), "{seen:?}");
    assert!(seen.rounds >= 2, "{seen:?}");
}
