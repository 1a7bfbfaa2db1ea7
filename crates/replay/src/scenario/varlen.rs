//! Full fine-tuning on batches of very different lengths: every step asks for other sizes than the one before, and what
//! was cached for a short batch is too small for a long one.

use super::random::Random;
use super::script::{MIB, Script};
use super::transformer::{FULL, HALF, Model};

pub(super) const CAPACITY_MIB: u64 = 34_048;

const STEPS: u64 = 60;

pub(super) fn write(script: &mut Script, random: &mut Random) {
    let model = Model::MEDIUM;
    let weights = model.weights(script, HALF);
    let gradients = model.weights(script, HALF);
    let mut moments = Vec::new();
    for step in 0..STEPS {
        let tokens = 4 * (random.skewed(128, 2048) / 8 * 8);
        let ids = script.alloc(tokens * 8);
        let embedded = script.alloc(tokens * model.hidden * HALF);
        let layers: Vec<_> = (0..model.layers).map(|_| model.forward(script, tokens)).collect();
        model.loss(script, tokens);
        for kept in layers.into_iter().rev() {
            model.backward(script, tokens, kept);
        }
        script.free_all([embedded, ids]);
        if step == 0 {
            // Adam makes its two moments in the first step, among what the pass left cached.
            moments = model.weights(script, FULL);
            moments.extend(model.weights(script, FULL));
        }
        // The optimiser works through the parameters in groups.
        (0..8).for_each(|_| script.scratch(64 * MIB));
        if random.once_in(20) {
            // A look at the validation set: no gradients, longer sequences.
            let tokens = 2 * 2048;
            for _ in 0..model.layers {
                let narrow = script.alloc(tokens * model.hidden * HALF);
                script.scratch(tokens * model.inner * HALF);
                script.free(narrow);
            }
            script.scratch(tokens * model.vocabulary * HALF);
        }
    }
    script.free_all(moments.into_iter().chain(gradients).chain(weights));
}
