//! What LLM programs ask of their allocator, as seeded generators: the same seed gives the same requests.
//!
//! Sizes follow real models; what is random is what is random in real programs: lengths of sequences, routes of tokens,
//! arrivals of requests. A scenario's device is so large that its requests fit with expandable segments and do not by default.

mod fsdp;
mod graphs;
mod inference;
mod moe;
mod random;
mod script;
mod shared_card;
mod transformer;
mod varlen;

use millpond_driver::Bytes;
use millpond_sim::EventMode;

use crate::machine::Setup;
use crate::workload::Workload;
use random::Random;
use script::Script;

/// A generator of requests, and the device that they are meant for.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What the program does, in a line.
    pub about: &'static str,
    /// Memory of its device, MiB.
    capacity_mib: u64,
    /// Of that, what others use, MiB.
    others_mib: u64,
    /// When events complete.
    pub events: EventMode,
    write: fn(&mut Script, &mut Random),
}

/// All scenarios.
pub const SCENARIOS: [Scenario; 6] = [
    Scenario {
        name: "varlen-training",
        about: "full fine-tuning of a 1.3B model on batches of very different lengths",
        capacity_mib: varlen::CAPACITY_MIB,
        others_mib: 0,
        events: EventMode::Immediate,
        write: varlen::write,
    },
    Scenario {
        name: "moe-training",
        about: "a mixture of experts: how many tokens each expert gets changes with every batch",
        capacity_mib: moe::CAPACITY_MIB,
        others_mib: 0,
        events: EventMode::Immediate,
        write: moe::write,
    },
    Scenario {
        name: "fsdp-prefetch",
        about: "sharded training: layers are gathered ahead on a second stream and freed while the first still uses them",
        capacity_mib: fsdp::CAPACITY_MIB,
        others_mib: 0,
        events: EventMode::Manual,
        write: fsdp::write,
    },
    Scenario {
        name: "kv-cache-inference",
        about: "serving with caches of keys and values that grow by concatenation as sequences do",
        capacity_mib: inference::CAPACITY_MIB,
        others_mib: 0,
        events: EventMode::Immediate,
        write: inference::write,
    },
    Scenario {
        name: "graph-capture",
        about: "a server that captures a graph for each of 24 batch sizes into one pool, smallest first, then replays them",
        capacity_mib: graphs::CAPACITY_MIB,
        others_mib: 0,
        events: EventMode::Immediate,
        write: graphs::write,
    },
    Scenario {
        name: "shared-card",
        about: "training, evaluation and serving by turns, on a card of which other jobs use half",
        capacity_mib: shared_card::CAPACITY_MIB,
        others_mib: shared_card::OTHERS_MIB,
        events: EventMode::Immediate,
        write: shared_card::write,
    },
];

/// A name that no scenario has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no scenario '{name}'; there are {}", SCENARIOS.map(|scenario| scenario.name).join(", "))]
pub struct UnknownScenario {
    /// As it was given.
    pub name: String,
}

impl Scenario {
    /// The scenario of a name.
    ///
    /// # Errors
    /// [`UnknownScenario`], which names them all.
    pub fn named(name: &str) -> Result<&'static Scenario, UnknownScenario> {
        let found = const { &SCENARIOS }.iter().find(|scenario| scenario.name == name);
        found.ok_or_else(|| UnknownScenario { name: name.to_owned() })
    }

    /// Memory of its device.
    pub const fn capacity(&self) -> Bytes {
        Bytes(self.capacity_mib << 20)
    }

    /// Of that, what others use.
    pub const fn others(&self) -> Bytes {
        Bytes(self.others_mib << 20)
    }

    /// The machine that it is meant for, with default settings.
    pub fn setup(&self) -> Setup {
        Setup { capacity: self.capacity(), others: self.others(), events: self.events, ..Setup::default() }
    }

    /// Its requests.
    pub fn workload(&self, seed: u64) -> Workload {
        let mut script = Script::default();
        (self.write)(&mut script, &mut Random::new(seed));
        script.finish()
    }
}
