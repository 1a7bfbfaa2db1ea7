//! Sharded training with prefetch: a layer's weights are gathered on a second stream while the first computes with the
//! layer before, and freed while its work is still queued. Memory so freed waits for the other stream's events.

use std::collections::VecDeque;

use super::random::Random;
use super::script::{Script, Tensor};
use super::transformer::{FULL, HALF, Model};
use crate::workload::Op;

pub(super) const CAPACITY_MIB: u64 = 15_808;

const STEPS: u64 = 30;
/// Of how many cards this is one.
const CARDS: u64 = 8;
/// The stream on which weights are gathered.
const GATHER: u32 = 1;
/// The stream on which gradients are scattered.
const SCATTER: u32 = 2;

/// Gathers a layer's weights and lets the computing stream wait for them.
fn gather(script: &mut Script, model: &Model) -> Tensor {
    let whole = script.alloc_on(model.layer() * HALF, GATHER);
    script.record_stream(whole, 0);
    whole
}

pub(super) fn write(script: &mut Script, random: &mut Random) {
    let model = Model { layers: 32, hidden: 4096, inner: 11_008, vocabulary: 32_000 };
    let shard = model.layer() / CARDS;
    let mut held: Vec<Tensor> = Vec::new();
    for _ in 0..model.layers {
        // Weights in half precision, and the master copy with its two moments in full.
        held.push(script.alloc(shard * HALF));
        held.extend((0..3).map(|_| script.alloc(shard * FULL)));
    }
    for _ in 0..STEPS {
        let tokens = random.between(4, 16) * 256;
        let narrow = tokens * model.hidden * HALF;
        let (mut ahead, mut kept) = (VecDeque::from([gather(script, &model)]), Vec::new());
        for layer in 0..model.layers {
            if layer + 1 < model.layers {
                ahead.push_back(gather(script, &model));
            }
            script.then(Op::ForkJoin { a: GATHER, b: 0 });
            // With recomputation only a layer's input is kept.
            kept.push(script.alloc(narrow));
            (0..3).for_each(|_| script.scratch(narrow));
            script.scratch(tokens * model.inner * HALF);
            script.free_all(ahead.pop_front());
            // The device lags behind by some layers.
            script.then(Op::Advance { n: random.between(0, 3) });
        }
        script.scratch(tokens * model.vocabulary * HALF);
        ahead.push_back(gather(script, &model));
        for layer in (0..model.layers).rev() {
            if layer > 0 {
                ahead.push_back(gather(script, &model));
            }
            script.then(Op::ForkJoin { a: GATHER, b: 0 });
            let again = model.forward(script, tokens);
            let gradient = script.alloc(model.layer() * HALF);
            model.backward(script, tokens, again);
            script.then(Op::ForkJoin { a: 0, b: SCATTER });
            let scattered = script.alloc_on(shard * FULL, SCATTER);
            script.record_stream(gradient, SCATTER);
            script.free(gradient);
            script.free_all(ahead.pop_front());
            script.free_all(kept.pop());
            held.push(scattered);
            script.then(Op::Advance { n: random.between(0, 4) });
        }
        script.then(Op::Sync);
        // The optimiser uses the scattered gradients up.
        let gradients = held.split_off(held.len() - model.layers as usize);
        script.free_all(gradients);
    }
    script.free_all(held);
}
