//! A server that captures one graph a batch size. All graphs share the pool of the first; captured in rising order, each
//! finds the blocks of the one before too small.

use super::random::Random;
use super::script::{Script, Tensor};
use super::transformer::{FULL, HALF, Model};
use crate::workload::Op;

pub(super) const CAPACITY_MIB: u64 = 2432;

const GRAPHS: u32 = 24;
/// The stream on which graphs are captured.
const STREAM: u32 = 1;
const REQUESTS: u64 = 2000;

pub(super) fn write(script: &mut Script, random: &mut Random) {
    let model = Model { layers: 16, ..Model::MEDIUM };
    let weights = model.weights(script, HALF);
    let mut outputs: Vec<Tensor> = Vec::new();
    for graph in 0..GRAPHS {
        let batch = u64::from(graph + 1) * 8;
        // A warm-up run outside of the capture.
        let warm = pass(script, &model, batch, 0);
        script.free(warm);
        script.then(Op::EmptyCache);
        script.then(Op::CaptureBegin { graph, share: 0, stream: STREAM });
        outputs.push(pass(script, &model, batch, STREAM));
        script.then(Op::CaptureEnd { graph });
    }
    let mut waiting: Vec<Tensor> = Vec::new();
    for _ in 0..REQUESTS {
        let graph = random.between(0, u64::from(GRAPHS) - 1) as u32;
        script.scratch(u64::from(graph + 1) * 8 * 8);
        script.then(Op::Replay { graph });
        // Results are copied out of the graph's memory and wait for their readers.
        waiting.push(script.alloc(u64::from(graph + 1) * 8 * model.vocabulary * FULL));
        if waiting.len() > 8 {
            let place = random.between(0, waiting.len() as u64 - 1) as usize;
            script.free(waiting.swap_remove(place));
        }
    }
    script.free_all(waiting.into_iter().chain(outputs));
    for graph in 0..GRAPHS {
        script.then(Op::GraphReset { graph });
    }
    script.then(Op::EmptyCache);
    script.free_all(weights);
}

/// One step for `batch` sequences; the logits stay, for a graph writes them at every replay.
fn pass(script: &mut Script, model: &Model, batch: u64, stream: u32) -> Tensor {
    let mut hidden = script.alloc_on(batch * model.hidden * HALF, stream);
    for _ in 0..model.layers {
        let attended = script.alloc_on(batch * model.hidden * 3 * HALF, stream);
        let wide = script.alloc_on(batch * model.inner * 2 * HALF, stream);
        script.free(attended);
        let next = script.alloc_on(batch * model.hidden * HALF, stream);
        script.free_all([wide, hidden]);
        hidden = next;
    }
    let logits = script.alloc_on(batch * model.vocabulary * FULL, stream);
    script.free(hidden);
    logits
}
