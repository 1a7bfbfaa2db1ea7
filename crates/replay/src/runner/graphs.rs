//! Graphs of the program (`torch.cuda.CUDAGraph`), and the thread's current stream, which captures change.

use std::sync::{Arc, OnceLock};

use millpond::{Allocator, Filter, PoolId};
use millpond_driver::{Capture, CaptureMode, Device, Graph, Stream};
use rustc_hash::FxHashMap;

use super::{Failure, Nonsense, Outcome, Runner, Step, done};

/// The graphs of the program, by the workload's number.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    known: FxHashMap<u32, Captured>,
    /// Captures under way, oldest first.
    open: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Captured {
    stream: Stream,
    pool: PoolId,
    /// What the driver made; nothing until the capture has ended well.
    graph: Option<Graph>,
    /// Destroyed: only its pool's id is still known, to those who want to share it.
    reset: bool,
}

impl Graphs {
    /// The thread's current stream on a device: that of the newest capture there, else the default one.
    pub fn current_stream(&self, device: Device) -> Stream {
        let open = self.open.iter().rev().map(|graph| self.known[graph].stream);
        open.into_iter().find(|stream| stream.device == device).unwrap_or(Stream::default_of(device))
    }
}

impl Runner {
    fn captured(&self, graph: u32) -> Result<Captured, Nonsense> {
        self.graphs.known.get(&graph).copied().ok_or(Nonsense::UnknownGraph { graph })
    }

    fn allocator_of(&self, stream: Stream) -> &Allocator {
        &self.machine.allocators()[stream.device.0 as usize]
    }

    /// R5.23: the scope opens, then the capture begins, then the scope learns which it is.
    pub(super) fn begin_capture(&mut self, graph: u32, share: u32, stream: u32) -> Step {
        if self.graphs.known.get(&graph).is_some_and(|captured| !captured.reset) {
            return Err(Nonsense::GraphInUse { graph });
        }
        let pool = if share == graph { self.machine.world().graph_pool_id() } else { self.captured(share)?.pool };
        let stream = self.stream(stream);
        let (allocator, sim) = (self.allocator().clone(), self.machine.sim().clone());
        let capture = Arc::new(OnceLock::new());
        if let Err(error) = allocator.begin_allocate_to_pool(pool, Filter::Capture(Arc::clone(&capture))) {
            return Ok(Outcome::Failed(error.into()));
        }
        let begun = sim.capture_begin(stream, CaptureMode::Relaxed).and_then(|()| sim.capture_info(stream));
        match begun {
            Ok(info) => {
                // The cell is fresh, so this is its first value.
                let _ = capture.set(info.id);
                allocator.mark_capture_begin();
                self.graphs.known.insert(graph, Captured { stream, pool, graph: None, reset: false });
                self.graphs.open.push(graph);
                Ok(Outcome::Done)
            }
            Err(error) => {
                let closed = allocator.end_allocate_to_pool(pool).and_then(|()| allocator.release_pool(pool));
                Ok(Outcome::Failed(closed.err().map_or(Failure::Driver(error), Failure::Allocator)))
            }
        }
    }

    /// R5.24: the scope closes also when the capture failed.
    pub(super) fn end_capture(&mut self, graph: u32) -> Step {
        let Some(place) = self.graphs.open.iter().position(|&open| open == graph) else {
            return Err(Nonsense::NotCapturing { graph });
        };
        let Captured { stream, pool, .. } = self.captured(graph)?;
        let ended = self.sim().capture_end(stream);
        self.allocator_of(stream).mark_capture_end();
        let closed = self.allocator_of(stream).end_allocate_to_pool(pool);
        self.graphs.open.remove(place);
        if let (Ok(made), Some(captured)) = (&ended, self.graphs.known.get_mut(&graph)) {
            captured.graph = Some(*made);
        }
        Ok(match ended {
            Ok(_) => done(closed),
            Err(error) => Outcome::Failed(error.into()),
        })
    }

    /// The allocator does not hear of it.
    pub(super) fn replay(&mut self, graph: u32) -> Step {
        let captured = self.captured(graph)?;
        match captured.graph {
            Some(made) if self.launches_graphs => {
                let stream = self.graphs.current_stream(captured.stream.device);
                Ok(done(self.sim().graph_launch_as(&format!("graph {graph}"), made, stream)))
            }
            _ => Ok(Outcome::Done),
        }
    }

    /// The destructor (R5.25): a capture under way ends, and the reference to the pool goes.
    pub(super) fn reset_graph(&mut self, graph: u32) -> Step {
        let captured = self.captured(graph)?;
        if captured.reset {
            return Ok(Outcome::Done);
        }
        if self.graphs.open.contains(&graph) {
            self.end_capture(graph)?;
        }
        if let Some(captured) = self.graphs.known.get_mut(&graph) {
            captured.reset = true;
        }
        let destroyed = captured.graph.map_or(Ok(()), |made| self.sim().graph_destroy(made));
        let released = self.allocator_of(captured.stream).release_pool(captured.pool);
        Ok(match destroyed {
            Ok(()) => done(released),
            Err(error) => Outcome::Failed(error.into()),
        })
    }
}
