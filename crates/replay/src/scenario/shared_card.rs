//! A job that trains, evaluates and serves by turns, on a card half of which belongs to others: what one phase leaves
//! cached stands in the way of the next.

use super::random::Random;
use super::script::{Script, Tensor};
use super::transformer::{FULL, HALF, Model};
use crate::workload::Op;

pub(super) const CAPACITY_MIB: u64 = 22_016;
pub(super) const OTHERS_MIB: u64 = 12 << 10;

const ROUNDS: u64 = 12;

pub(super) fn write(script: &mut Script, random: &mut Random) {
    let model = Model { layers: 12, ..Model::MEDIUM };
    let weights = model.weights(script, HALF);
    let mut moments: Vec<Tensor> = Vec::new();
    for round in 0..ROUNDS {
        for _ in 0..4 {
            train(script, &model, 4 * random.skewed(128, 1024));
        }
        if round == 0 {
            moments = model.weights(script, FULL);
        }
        serve(script, random, &model);
        if random.once_in(3) {
            // Somebody put this between the phases, in the hope that it helps.
            script.then(Op::EmptyCache);
        }
        evaluate(script, random, &model);
    }
    script.free_all(moments.into_iter().chain(weights));
}

fn train(script: &mut Script, model: &Model, tokens: u64) {
    let layers: Vec<_> = (0..model.layers).map(|_| model.forward(script, tokens)).collect();
    model.loss(script, tokens);
    for kept in layers.into_iter().rev() {
        model.backward(script, tokens, kept);
    }
}

/// A few sequences are continued; their caches are as long as they will ever be.
fn serve(script: &mut Script, random: &mut Random, model: &Model) {
    let mut caches: Vec<Vec<Tensor>> = Vec::new();
    for _ in 0..40 {
        let tokens = random.skewed(256, 8192);
        caches.push((0..model.layers).map(|_| script.alloc(2 * tokens * model.hidden * HALF)).collect());
        script.scratch(tokens * model.inner * HALF);
        if caches.len() > 6 {
            let place = random.between(0, caches.len() as u64 - 1) as usize;
            script.free_all(caches.swap_remove(place));
        }
    }
    script.free_all(caches.into_iter().flatten());
}

/// Long batches without gradients; every batch's result is kept until the mean is taken.
fn evaluate(script: &mut Script, random: &mut Random, model: &Model) {
    let mut results = Vec::new();
    for _ in 0..10 {
        let tokens = random.between(1024, 4096);
        for _ in 0..model.layers {
            let hidden = script.alloc(tokens * model.hidden * HALF);
            script.scratch(tokens * model.inner * HALF);
            script.free(hidden);
        }
        results.push(script.alloc(tokens * 1024 * FULL));
    }
    script.free_all(results);
}
