//! What a driver and its devices are.

use std::fmt::Write;

use millpond_driver::{Bytes, Caps};
use serde::Serialize;

use crate::grid::Grid;
use crate::{Document, Paint, plain};

/// A driver, and what was found by it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The library, as it was found.
    pub library: String,
    /// The driver's version: 1000 × major + 10 × minor.
    pub driver_version: i32,
    /// Its devices, by index.
    pub devices: Vec<Found>,
}

/// A device.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it is able to do.
    pub caps: Caps,
    /// Bytes that nobody uses.
    pub free: u64,
    /// The smallest size of a physical handle, bytes; none without virtual memory management.
    pub granularity: Option<u64>,
    /// The size that the driver recommends, bytes.
    pub recommended_granularity: Option<u64>,
    /// The other devices whose memory it can reach, by index.
    pub peers: Vec<u32>,
}

impl Serialize for Found {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Found { caps, .. } = self;
        serde_json::json!({
            "name": caps.name,
            "compute": format!("{}.{}", caps.compute.0, caps.compute.1),
            "total": caps.total,
            "free": self.free,
            "granularity": self.granularity,
            "recommended_granularity": self.recommended_granularity,
            "vmm": caps.vmm,
            "rdma_with_vmm": caps.rdma_with_vmm,
            "posix_fd": caps.posix_fd,
            "fabric": caps.fabric,
            "pools": caps.pools,
            "managed": caps.managed,
            "host_numa": caps.host_numa,
            "host_numa_vmm": caps.host_numa_vmm,
            "peers": self.peers,
        })
        .serialize(serializer)
    }
}

/// `{"schema", "library", "driver_version", "devices"}`.
pub fn json(machine: &Machine) -> String {
    Document::new(machine).line()
}

/// A table for the driver and one for each device.
pub fn text(machine: &Machine, paint: Paint) -> String {
    let mut driver = Grid::new(&[]);
    driver.row(&["library", &plain(&machine.library)]);
    driver.row(&["CUDA version", &version(machine.driver_version)]);
    let mut text = format!("{}\n{driver}", paint.strong("driver"));
    for (index, found) in machine.devices.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{}\n{}", paint.strong(&format!("GPU {index}")), table(found));
    }
    text
}

fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

fn table(found: &Found) -> Grid {
    let caps = &found.caps;
    let mut grid = Grid::new(&[]);
    grid.row(&["name", &plain(&caps.name)]);
    grid.row(&["compute capability", &format!("{}.{}", caps.compute.0, caps.compute.1)]);
    grid.row(&["memory", &format!("{}, {} free", caps.total, Bytes(found.free))]);
    grid.row(&["virtual memory", &granularities(found)]);
    grid.row(&["exported as", exports(caps)]);
    grid.row(&["RDMA to mapped memory", yes(caps.rdma_with_vmm)]);
    let node = caps.host_numa.map_or("unknown".to_owned(), |node| format!("node {node}"));
    let maps = if caps.host_numa_vmm { "its memory can be mapped" } else { "its memory cannot be mapped" };
    grid.row(&["host NUMA", &format!("{node}, {maps}")]);
    grid.row(&["driver pools", yes(caps.pools)]);
    grid.row(&["managed memory", yes(caps.managed)]);
    let peers: Vec<String> = found.peers.iter().map(|peer| format!("GPU {peer}")).collect();
    let reaches = if peers.is_empty() { "no other device".to_owned() } else { peers.join(", ") };
    grid.row(&["reaches", &reaches]);
    grid
}

fn granularities(found: &Found) -> String {
    match (found.granularity, found.recommended_granularity) {
        (Some(least), Some(best)) => format!("pages of {}, {} recommended", Bytes(least), Bytes(best)),
        (Some(least), None) => format!("pages of {}", Bytes(least)),
        (None, _) => "no".to_owned(),
    }
}

fn exports(caps: &Caps) -> &'static str {
    match (caps.posix_fd, caps.fabric) {
        (true, true) => "file descriptor, fabric handle",
        (true, false) => "file descriptor, no fabric handle",
        (false, true) => "fabric handle, no file descriptor",
        (false, false) => "nothing",
    }
}

fn yes(able: bool) -> &'static str {
    if able { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let caps = Caps {
            name: "Grindstone".to_owned(),
            total: Bytes(24 << 30),
            compute: (8, 6),
            vmm: true,
            rdma_with_vmm: false,
            posix_fd: true,
            fabric: false,
            pools: true,
            host_numa: Some(1),
            host_numa_vmm: false,
            managed: true,
            map_beside_kernels: true,
        };
        let granularity = Some(2 << 20);
        let found = Found { caps, free: 23 << 30, granularity, recommended_granularity: granularity, peers: vec![1] };
        Machine { library: "libcuda.so.1".to_owned(), driver_version: 12080, devices: vec![found] }
    }

    #[test]
    fn people_see_what_the_device_is_able_to_do() {
        let text = text(&machine(), Paint::OFF);
        for words in [
            "12.8",
            "Grindstone",
            "24GiB, 23GiB free",
            "pages of 2MiB",
            "file descriptor, no fabric handle\n",
            "node 1, its memory cannot",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.lines().any(|line| line.contains("reaches") && line.ends_with("GPU 1")), "{text}");
    }

    #[test]
    fn programs_see_the_shape_of_schema_1() {
        let json: serde_json::Value = serde_json::from_str(&json(&machine())).unwrap();
        assert_eq!((&json["schema"], &json["driver_version"]), (&1.into(), &12080.into()));
        assert_eq!(json["devices"][0]["total"], 24u64 << 30);
        assert_eq!(json["devices"][0]["vmm"], true);
        assert_eq!(json["devices"][0]["peers"], serde_json::json!([1]));
    }
}
