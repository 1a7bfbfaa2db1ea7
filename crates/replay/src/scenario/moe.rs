//! A mixture of experts: each batch sends other numbers of tokens to each expert, so that hardly any size comes back.

use super::random::Random;
use super::script::{Script, Tensor};
use super::transformer::{FULL, HALF};

pub(super) const CAPACITY_MIB: u64 = 12_544;

const LAYERS: u64 = 16;
const EXPERTS: u64 = 32;
/// Experts that each token is sent to.
const CHOICES: u64 = 2;
const HIDDEN: u64 = 2048;
const INNER: u64 = 1408;
const STEPS: u64 = 25;

/// How many of `tokens` each expert gets: a few are popular.
fn routes(random: &mut Random, tokens: u64) -> Vec<u64> {
    let weights: Vec<u64> = (0..EXPERTS).map(|_| random.skewed(1, 64)).collect();
    let sum: u64 = weights.iter().sum();
    weights.iter().map(|weight| tokens * CHOICES * weight / sum).collect()
}

pub(super) fn write(script: &mut Script, random: &mut Random) {
    let expert = 3 * HIDDEN * INNER * HALF;
    let mut held: Vec<Tensor> = Vec::new();
    for _ in 0..LAYERS {
        held.extend((0..4).map(|_| script.alloc(HIDDEN * HIDDEN * HALF)));
        held.push(script.alloc(HIDDEN * EXPERTS * FULL));
        held.extend((0..EXPERTS).map(|_| script.alloc(expert)));
    }
    for _ in 0..STEPS {
        let tokens = 2 * random.between(1024, 2048);
        let narrow = tokens * HIDDEN * HALF;
        let mut layers: Vec<Vec<Tensor>> = Vec::new();
        for _ in 0..LAYERS {
            let mut kept: Vec<Tensor> = (0..5).map(|_| script.alloc(narrow)).collect();
            let chances = script.alloc(tokens * EXPERTS * FULL);
            script.scratch(tokens * CHOICES * 8);
            kept.push(chances);
            let gathered = script.alloc(tokens * CHOICES * HIDDEN * HALF);
            for routed in routes(random, tokens).into_iter().filter(|&routed| routed > 0) {
                kept.push(script.alloc(routed * HIDDEN * HALF));
                let (gate, up) = (script.alloc(routed * INNER * HALF), script.alloc(routed * INNER * HALF));
                kept.extend([gate, up, script.alloc(routed * INNER * HALF)]);
                script.scratch(routed * HIDDEN * HALF);
            }
            script.free(gathered);
            kept.push(script.alloc(narrow));
            layers.push(kept);
        }
        script.scratch(tokens * 32_000 * HALF);
        for kept in layers.into_iter().rev() {
            let mut incoming = script.alloc(narrow);
            for (place, tensor) in kept.into_iter().rev().enumerate() {
                // Gradients of experts are as uneven as their tokens.
                let bytes = if place % 4 == 0 { narrow } else { random.skewed(8, 1024) * INNER * HALF };
                let outgoing = script.alloc(bytes);
                script.free_all([incoming, tensor]);
                incoming = outgoing;
            }
            script.free(incoming);
        }
    }
    script.free_all(held);
}
