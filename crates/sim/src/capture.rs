//! Stream capture: which streams record into which graph, by CUDA's rules.
//!
//! A capturing stream has *terminals*: the nodes on which its next node depends. Work becomes a node and the only
//! terminal; an event recorded in a capture remembers the terminals; a stream that waits for such an event joins the
//! capture (a fork) or adds them to its own (a join).

use std::thread::ThreadId;

use millpond_driver::{Capture, CaptureInfo, CaptureMode, CaptureStatus, Code, Event, Graph, Node, Result, Stream};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::calls::CallKind;
use crate::events::{EventState, Recording};
use crate::sim::{Sim, State, refuse};
use crate::work::NodeWork;

/// `CUDA_ERROR_ILLEGAL_STATE`.
const ILLEGAL_STATE: Code = Code(401);

#[derive(Debug, Default)]
pub(crate) struct Captures {
    /// Ids of captures start at 1 and are never used twice.
    last_id: u64,
    last_graph: u64,
    pub active: FxHashMap<u64, CaptureState>,
    pub graphs: FxHashMap<u64, GraphState>,
    /// Threads whose mode is not the default.
    modes: FxHashMap<ThreadId, CaptureMode>,
}

#[derive(Debug)]
pub(crate) struct CaptureState {
    origin: usize,
    streams: Vec<usize>,
    mode: CaptureMode,
    thread: ThreadId,
    graph: u64,
    invalid: bool,
}

#[derive(Debug, Default)]
pub(crate) struct GraphState {
    /// Each node's dependencies and work; a node can only depend on earlier ones.
    pub nodes: Vec<(Vec<Node>, NodeWork)>,
}

fn node(graph: u64, index: usize) -> Node {
    Node((graph << 32) | (index as u64 + 1))
}

fn place(node: Node) -> (u64, usize) {
    (node.0 >> 32, (node.0 as u32 as usize).wrapping_sub(1))
}

impl Sim {
    /// The nodes of a graph in the order in which they were recorded; none for a graph that does not exist.
    pub fn graph_nodes(&self, graph: Graph) -> Vec<Node> {
        let state = self.lock();
        let count = state.captures.graphs.get(&graph.0).map_or(0, |graph| graph.nodes.len());
        (0..count).map(|index| node(graph.0, index)).collect()
    }
}

impl Capture for Sim {
    fn capture_begin(&self, stream: Stream, mode: CaptureMode) -> Result<()> {
        const KIND: CallKind = CallKind::CaptureBegin;
        self.call(KIND, 0, 0, |state| {
            let index = state.streams.find(stream, KIND)?;
            if stream.raw == 0 {
                return refuse(KIND, Code::ERROR_STREAM_CAPTURE_UNSUPPORTED, "the default stream cannot capture");
            }
            if state.streams.at(index).capture.is_some() {
                return refuse(KIND, ILLEGAL_STATE, format!("{stream} is capturing already"));
            }
            let captures = &mut state.captures;
            captures.last_id += 1;
            captures.last_graph += 1;
            let (id, graph) = (captures.last_id, captures.last_graph);
            captures.graphs.insert(graph, GraphState::default());
            let thread = std::thread::current().id();
            captures
                .active
                .insert(id, CaptureState { origin: index, streams: vec![index], mode, thread, graph, invalid: false });
            state.streams.at_mut(index).capture = Some(id);
            Ok(())
        })
    }

    fn capture_end(&self, stream: Stream) -> Result<Graph> {
        self.call(CallKind::CaptureEnd, 0, 0, |state| state.end_capture(stream))
    }

    fn capture_status(&self, stream: Stream) -> Result<CaptureStatus> {
        self.call(CallKind::CaptureStatus, 0, 0, |state| {
            let index = state.streams.find(stream, CallKind::CaptureStatus)?;
            Ok(state.capture_of(index).map_or(CaptureStatus::None, |(_, capture)| capture.status()))
        })
    }

    fn capture_info(&self, stream: Stream) -> Result<CaptureInfo> {
        self.call(CallKind::CaptureInfo, 0, 0, |state| {
            let index = state.streams.find(stream, CallKind::CaptureInfo)?;
            let Some((id, capture)) = state.capture_of(index) else { return Ok(CaptureInfo::default()) };
            let terminals = state.streams.at(index).terminals.clone();
            Ok(CaptureInfo { status: capture.status(), id, graph: Some(Graph(capture.graph)), terminals })
        })
    }

    fn node_dependencies(&self, node: Node) -> Result<Vec<Node>> {
        const KIND: CallKind = CallKind::NodeDependencies;
        self.call(KIND, 0, 0, |state| {
            let (graph, index) = place(node);
            match state.captures.graphs.get(&graph).and_then(|graph| graph.nodes.get(index)) {
                Some((dependencies, _)) => Ok(dependencies.clone()),
                None => refuse(KIND, Code::ERROR_INVALID_VALUE, format!("node {:#x} does not exist", node.0)),
            }
        })
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        self.call(CallKind::ExchangeCaptureMode, 0, 0, |state| {
            let thread = std::thread::current().id();
            let before = match mode {
                CaptureMode::Global => state.captures.modes.remove(&thread),
                _ => state.captures.modes.insert(thread, mode),
            };
            Ok(before.unwrap_or_default())
        })
    }

    fn graph_destroy(&self, graph: Graph) -> Result<()> {
        const KIND: CallKind = CallKind::GraphDestroy;
        self.call(KIND, 0, 0, |state| {
            if state.captures.active.values().any(|capture| capture.graph == graph.0) {
                return refuse(KIND, Code::ERROR_INVALID_VALUE, "the graph is being captured");
            }
            match state.captures.graphs.remove(&graph.0) {
                Some(_) => Ok(()),
                None => refuse(KIND, Code::ERROR_INVALID_VALUE, format!("graph {} does not exist", graph.0)),
            }
        })
    }
}

impl CaptureState {
    fn status(&self) -> CaptureStatus {
        if self.invalid { CaptureStatus::Invalidated } else { CaptureStatus::Active }
    }
}

impl State {
    pub fn capture_of(&self, stream: usize) -> Option<(u64, &CaptureState)> {
        let id = self.streams.at(stream).capture?;
        Some((id, self.captures.active.get(&id)?))
    }

    fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.active.get_mut(&capture) {
            capture.invalid = true;
        }
    }

    pub fn invalidate_capture_of(&mut self, stream: usize) {
        if let Some(id) = self.streams.at(stream).capture {
            self.invalidate(id);
        }
    }

    /// Fails a call that is unsafe during capture, by the thread's mode, and invalidates the captures in its way.
    #[inline]
    pub fn forbid_during_capture(&mut self, kind: CallKind) -> Result<()> {
        if self.captures.active.is_empty() || !self.capture_checks { Ok(()) } else { self.forbid(kind) }
    }

    #[cold]
    fn forbid(&mut self, kind: CallKind) -> Result<()> {
        let thread = std::thread::current().id();
        let mode = self.captures.modes.get(&thread).copied().unwrap_or_default();
        let mut in_the_way = 0;
        for capture in self.captures.active.values_mut() {
            let own = capture.thread == thread && capture.mode != CaptureMode::Relaxed;
            let forbids = match mode {
                CaptureMode::Relaxed => false,
                CaptureMode::ThreadLocal => own,
                CaptureMode::Global => own || capture.mode == CaptureMode::Global,
            };
            if forbids {
                capture.invalid = true;
                in_the_way += 1;
            }
        }
        if in_the_way == 0 {
            return Ok(());
        }
        refuse(kind, Code::ERROR_STREAM_CAPTURE_UNSUPPORTED, "a capture is under way; the call has invalidated it")
    }

    /// The host asks for an event that was last recorded in a capture.
    pub fn captured_event(&mut self, kind: CallKind, capture: u64) -> Result<()> {
        if !self.capture_checks {
            return Ok(());
        }
        self.invalidate(capture);
        refuse(kind, Code::ERROR_CAPTURED_EVENT, "the event was last recorded in a capture")
    }

    pub fn record_in_capture(&mut self, event: Event, stream: usize) -> Result<()> {
        const KIND: CallKind = CallKind::EventRecord;
        let Some((id, capture)) = self.capture_of(stream) else { return Ok(()) };
        if capture.invalid {
            return refuse(KIND, Code::ERROR_STREAM_CAPTURE_INVALIDATED, "");
        }
        let terminals = self.streams.at(stream).terminals.clone();
        if let Some(event) = self.events.slab.get_mut(event.0) {
            event.recording = Recording::Captured { capture: id, terminals };
        }
        if let Some(clocks) = &mut self.clocks {
            clocks.record(event.0, stream);
        }
        Ok(())
    }

    /// A capturing stream waits for an event that was recorded outside.
    pub fn wait_crosses_into_capture(&mut self, stream: usize, event: Event) -> Result<()> {
        const KIND: CallKind = CallKind::StreamWaitEvent;
        if !self.capture_checks {
            return Ok(());
        }
        self.invalidate_capture_of(stream);
        let detail = format!("event {:#x} was recorded outside of the capture", event.0);
        refuse(KIND, Code::ERROR_STREAM_CAPTURE_ISOLATION, detail)
    }

    /// A stream waits for an event that was recorded in a capture.
    pub fn wait_in_capture(&mut self, stream: usize, event: Event) -> Result<()> {
        const KIND: CallKind = CallKind::StreamWaitEvent;
        let Some(EventState { recording: Recording::Captured { capture: id, terminals }, .. }) =
            self.events.slab.get(event.0)
        else {
            return Ok(());
        };
        let (id, terminals) = (*id, terminals.clone());
        let mine = self.streams.at(stream).capture;
        let Some(capture) = self.captures.active.get_mut(&id) else {
            // The capture is over: its work runs when the graph is launched, which no event can say.
            if !self.capture_checks {
                return Ok(());
            }
            return match mine {
                Some(_) => self.wait_crosses_into_capture(stream, event),
                None => {
                    refuse(KIND, Code::ERROR_CAPTURED_EVENT, "the event was last recorded in a capture, which is over")
                }
            };
        };
        if capture.invalid {
            return refuse(KIND, Code::ERROR_STREAM_CAPTURE_INVALIDATED, "");
        }
        match mine {
            Some(other) if other != id => {
                capture.invalid = true;
                self.invalidate(other);
                refuse(KIND, Code::ERROR_STREAM_CAPTURE_MERGE, "the stream belongs to another capture")
            }
            Some(_) => {
                let own = &mut self.streams.at_mut(stream).terminals;
                own.extend(terminals.into_iter().filter(|node| !own.contains(node)).collect::<Vec<_>>());
                Ok(())
            }
            None if self.capture_checks && self.streams.at(stream).stream.raw == 0 => {
                capture.invalid = true;
                refuse(KIND, Code::ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream cannot be part of a capture")
            }
            None => {
                capture.streams.push(stream);
                let joined = self.streams.at_mut(stream);
                joined.capture = Some(id);
                joined.terminals = terminals;
                Ok(())
            }
        }
    }

    /// Work on a capturing stream becomes a node; false if the stream is not capturing.
    pub fn capture_work(&mut self, stream: usize, kind: CallKind, work: impl FnOnce() -> NodeWork) -> Result<bool> {
        let Some((_, capture)) = self.capture_of(stream) else { return Ok(false) };
        if capture.invalid {
            return refuse(kind, Code::ERROR_STREAM_CAPTURE_INVALIDATED, "");
        }
        let graph = capture.graph;
        let Some(nodes) = self.captures.graphs.get_mut(&graph).map(|graph| &mut graph.nodes) else { return Ok(false) };
        let new = node(graph, nodes.len());
        let dependencies = std::mem::replace(&mut self.streams.at_mut(stream).terminals, vec![new]);
        nodes.push((dependencies, work()));
        Ok(true)
    }

    fn end_capture(&mut self, stream: Stream) -> Result<Graph> {
        const KIND: CallKind = CallKind::CaptureEnd;
        let index = self.streams.find(stream, KIND)?;
        let Some((id, capture)) = self.capture_of(index) else {
            return refuse(KIND, ILLEGAL_STATE, format!("{stream} is not capturing"));
        };
        if capture.origin != index {
            let origin = self.streams.at(capture.origin).stream;
            self.invalidate(id);
            return refuse(KIND, Code::ERROR_STREAM_CAPTURE_UNMATCHED, format!("the capture began on {origin}"));
        }
        let local = capture.mode != CaptureMode::Relaxed;
        if self.capture_checks && local && capture.thread != std::thread::current().id() {
            return refuse(KIND, Code::ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread");
        }
        let unjoined = if self.capture_checks { self.unjoined(index, id) } else { None };
        let Some(capture) = self.close_capture(id) else { return refuse(KIND, ILLEGAL_STATE, "") };
        let graph = capture.graph;
        if capture.invalid {
            self.captures.graphs.remove(&graph);
            return refuse(KIND, Code::ERROR_STREAM_CAPTURE_INVALIDATED, "");
        }
        if let Some(stream) = unjoined {
            self.captures.graphs.remove(&graph);
            return refuse(KIND, Code::ERROR_STREAM_CAPTURE_UNJOINED, format!("work of {stream} was not joined"));
        }
        Ok(Graph(graph))
    }

    /// All streams of a capture stop capturing.
    fn close_capture(&mut self, id: u64) -> Option<CaptureState> {
        let capture = self.captures.active.remove(&id)?;
        for &member in &capture.streams {
            let member = self.streams.at_mut(member);
            member.capture = None;
            member.terminals.clear();
        }
        if let Some(check) = &mut self.hazards {
            check.forget_capture(id);
        }
        Some(capture)
    }

    /// The stream is about to go: a capture that began on it can never end, and any other is invalid.
    pub fn abandon_capture_of(&mut self, stream: usize) {
        let Some((id, capture)) = self.capture_of(stream) else { return };
        if capture.origin != stream {
            self.invalidate(id);
        } else if let Some(capture) = self.close_capture(id) {
            self.captures.graphs.remove(&capture.graph);
        }
    }

    /// A stream of the capture with work that the origin does not wait for.
    fn unjoined(&self, origin: usize, id: u64) -> Option<Stream> {
        let capture = self.captures.active.get(&id)?;
        let graph = self.captures.graphs.get(&capture.graph)?;
        if capture.streams.len() == 1 {
            return None;
        }
        let mut reached: FxHashSet<Node> = FxHashSet::default();
        let mut open = self.streams.at(origin).terminals.clone();
        while let Some(node) = open.pop() {
            if reached.insert(node)
                && let Some((dependencies, _)) = graph.nodes.get(place(node).1)
            {
                open.extend_from_slice(dependencies);
            }
        }
        let lost = |&&member: &&usize| self.streams.at(member).terminals.iter().any(|node| !reached.contains(node));
        capture.streams.iter().find(lost).map(|&member| self.streams.at(member).stream)
    }
}
