//! Serving without pages: every sequence has a cache of keys and values in each layer, which is concatenated anew as the
//! sequence grows. Old and new live side by side for a moment, and no freed cache is large enough for the next.

use super::random::Random;
use super::script::{Script, Tensor};
use super::transformer::{HALF, Model};

pub(super) const CAPACITY_MIB: u64 = 18 << 10;

const STEPS: u64 = 1600;
/// Sequences at once.
const SLOTS: usize = 24;
/// Tokens by which a cache grows.
const GROWTH: u64 = 32;
/// Heads of keys and values share the queries' four to one.
const GROUPS: u64 = 4;

/// A sequence that is being continued.
struct Sequence {
    /// Keys and values of each layer.
    cache: Vec<Tensor>,
    tokens: u64,
    target: u64,
}

pub(super) fn write(script: &mut Script, random: &mut Random) {
    let model = Model { layers: 32, hidden: 4096, inner: 11_008, vocabulary: 32_000 };
    let weights = model.weights(script, HALF);
    let bytes = |tokens: u64| tokens * model.hidden / GROUPS * HALF;
    let mut sequences: Vec<Sequence> = Vec::new();
    for _ in 0..STEPS {
        if sequences.len() < SLOTS && random.once_in(3) {
            let tokens = random.skewed(64, 4096);
            let hidden = script.alloc(tokens * model.hidden * HALF);
            let mut cache = Vec::new();
            for _ in 0..model.layers {
                script.scratch(tokens * model.hidden * HALF);
                cache.extend([script.alloc(bytes(tokens)), script.alloc(bytes(tokens))]);
                script.scratch(tokens * model.inner * HALF);
            }
            script.free(hidden);
            sequences.push(Sequence { cache, tokens, target: tokens + random.skewed(32, 1024) });
        }
        for sequence in &mut sequences {
            sequence.tokens += 1;
            if sequence.tokens % GROWTH == 0 {
                for tensor in &mut sequence.cache {
                    let longer = script.alloc(bytes(sequence.tokens + GROWTH));
                    script.free(*tensor);
                    *tensor = longer;
                }
            }
        }
        let running = sequences.len() as u64;
        if running > 0 {
            script.scratch(running * model.hidden * HALF);
            script.scratch(running * model.vocabulary * 4);
        }
        let (done, left): (Vec<_>, Vec<_>) =
            sequences.into_iter().partition(|sequence| sequence.tokens >= sequence.target);
        sequences = left;
        script.free_all(done.into_iter().flat_map(|sequence| sequence.cache));
    }
    script.free_all(sequences.into_iter().flat_map(|sequence| sequence.cache).chain(weights));
}
