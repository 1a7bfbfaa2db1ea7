//! A decoder-only transformer: what its parameters and activations take.

use super::script::{Script, Tensor};

/// The shape of a model. Numbers of elements, and bytes an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub layers: u64,
    pub hidden: u64,
    /// Width of the feed-forward part.
    pub inner: u64,
    pub vocabulary: u64,
}

/// Bytes of a bf16 element.
pub(super) const HALF: u64 = 2;
/// Bytes of an f32 element.
pub(super) const FULL: u64 = 4;

/// What one layer keeps from its forward pass until its backward pass.
pub(super) struct Kept(Vec<Tensor>);

impl Model {
    /// A model of 1.3 billion parameters.
    pub const MEDIUM: Model = Model { layers: 24, hidden: 2048, inner: 5504, vocabulary: 32_000 };

    /// The weight matrices of one layer, in elements: q, k, v, o, gate, up, down.
    pub fn matrices(&self) -> [u64; 7] {
        let (square, wide) = (self.hidden * self.hidden, self.hidden * self.inner);
        [square, square, square, square, wide, wide, wide]
    }

    /// All weights of a layer, in elements, with its two norms.
    pub fn layer(&self) -> u64 {
        self.matrices().iter().sum::<u64>() + 2 * self.hidden
    }

    /// All weights, each a tensor of `bytes` an element.
    pub fn weights(&self, script: &mut Script, bytes: u64) -> Vec<Tensor> {
        let mut tensors = vec![script.alloc(self.vocabulary * self.hidden * bytes)];
        for _ in 0..self.layers {
            for matrix in self.matrices() {
                tensors.push(script.alloc(matrix * bytes));
            }
            tensors.extend([script.alloc(self.hidden * bytes), script.alloc(self.hidden * bytes)]);
        }
        tensors.push(script.alloc(self.vocabulary * self.hidden * bytes));
        tensors
    }

    /// The forward pass of one layer over `tokens` tokens.
    pub fn forward(&self, script: &mut Script, tokens: u64) -> Kept {
        let narrow = tokens * self.hidden * HALF;
        let wide = tokens * self.inner * HALF;
        let mut kept = Vec::new();
        let normed = script.alloc(narrow);
        script.scratch(tokens * FULL);
        kept.push(normed);
        kept.extend([script.alloc(narrow), script.alloc(narrow), script.alloc(narrow)]);
        script.scratch(narrow);
        script.scratch(narrow / 2);
        // Attention: the result, and the sums that its backward pass needs.
        kept.extend([script.alloc(narrow), script.alloc(tokens * 16 * FULL)]);
        let projected = script.alloc(narrow);
        let residual = script.alloc(narrow);
        script.free(projected);
        kept.push(residual);
        kept.push(script.alloc(narrow));
        let (gate, up) = (script.alloc(wide), script.alloc(wide));
        let activated = script.alloc(wide);
        kept.extend([gate, up, activated, script.alloc(wide)]);
        let down = script.alloc(narrow);
        kept.push(script.alloc(narrow));
        script.free(down);
        Kept(kept)
    }

    /// The backward pass of one layer: what was kept goes, last first, each with a gradient of passing life.
    pub fn backward(&self, script: &mut Script, tokens: u64, Kept(kept): Kept) {
        let narrow = tokens * self.hidden * HALF;
        let wide = tokens * self.inner * HALF;
        let mut incoming = script.alloc(narrow);
        for (place, tensor) in kept.into_iter().rev().enumerate() {
            let outgoing = script.alloc(if (1..5).contains(&place) { wide } else { narrow });
            script.free(incoming);
            script.free(tensor);
            incoming = outgoing;
        }
        script.free(incoming);
    }

    /// The loss over `tokens` tokens: logits in half, then full precision, and their gradient.
    pub fn loss(&self, script: &mut Script, tokens: u64) {
        let logits = script.alloc(tokens * self.vocabulary * HALF);
        let precise = script.alloc(tokens * self.vocabulary * FULL);
        let normalised = script.alloc(tokens * self.vocabulary * FULL);
        script.scratch(512);
        let gradient = script.alloc(tokens * self.vocabulary * FULL);
        script.free_all([normalised, precise]);
        let half = script.alloc(tokens * self.vocabulary * HALF);
        script.free_all([gradient, logits]);
        script.scratch(tokens * self.hidden * HALF);
        script.free(half);
    }
}
