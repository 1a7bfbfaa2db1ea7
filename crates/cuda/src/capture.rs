//! Stream capture.

use millpond_driver::{Capture, CaptureInfo, CaptureMode, CaptureStatus, Graph, Node, Result, Stream};

use crate::cuda::Cuda;
use crate::order::handle;
use crate::sys::{CUgraph, CUgraphNode, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status};

impl Capture for Cuda {
    fn capture_begin(&self, stream: Stream, mode: CaptureMode) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuStreamBeginCapture")?;
            call!(self, cuStreamBeginCapture_v2 as "cuStreamBeginCapture", handle(stream), to_driver(mode))
        })
    }

    fn capture_end(&self, stream: Stream) -> Result<Graph> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuStreamEndCapture")?;
            let mut graph = CUgraph(0);
            call!(self, cuStreamEndCapture as "cuStreamEndCapture", handle(stream), &mut graph)?;
            Ok(Graph(graph.0 as u64))
        })
    }

    fn capture_status(&self, stream: Stream) -> Result<CaptureStatus> {
        self.remember(|| {
            let _entered = self.enter(stream.device, "cuStreamIsCapturing")?;
            let mut status = Status::default();
            call!(self, cuStreamIsCapturing as "cuStreamIsCapturing", handle(stream), &mut status)?;
            Ok(from_driver(status))
        })
    }

    fn capture_info(&self, stream: Stream) -> Result<CaptureInfo> {
        self.remember(|| self.ask_capture_info(stream))
    }

    fn node_dependencies(&self, node: Node) -> Result<Vec<Node>> {
        self.remember(|| {
            let _entered = self.enter_any("cuGraphNodeGetDependencies")?;
            let node = CUgraphNode(node.0 as usize);
            let ask = |to: *mut CUgraphNode, count: &mut usize| match self.functions.cuGraphNodeGetDependencies {
                Some(_) => call_optional!(
                    self,
                    cuGraphNodeGetDependencies as "cuGraphNodeGetDependencies",
                    node,
                    to,
                    count
                ),
                None => call_optional!(
                    self,
                    cuGraphNodeGetDependencies_v2 as "cuGraphNodeGetDependencies",
                    node,
                    to,
                    std::ptr::null_mut(),
                    count
                ),
            };
            let mut count = 0;
            ask(std::ptr::null_mut(), &mut count)?;
            let mut nodes = vec![CUgraphNode(0); count];
            if count != 0 {
                ask(nodes.as_mut_ptr(), &mut count)?;
            }
            nodes.truncate(count);
            Ok(nodes.into_iter().map(|node| Node(node.0 as u64)).collect())
        })
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        let mut mode = to_driver(mode);
        call!(self, cuThreadExchangeStreamCaptureMode as "cuThreadExchangeStreamCaptureMode", &mut mode)?;
        Ok(match mode {
            Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => CaptureMode::ThreadLocal,
            Mode::CU_STREAM_CAPTURE_MODE_RELAXED => CaptureMode::Relaxed,
            _ => CaptureMode::Global,
        })
    }

    fn graph_destroy(&self, graph: Graph) -> Result<()> {
        self.remember(|| {
            let _entered = self.enter_any("cuGraphDestroy")?;
            call!(self, cuGraphDestroy as "cuGraphDestroy", CUgraph(graph.0 as usize))
        })
    }
}

impl Cuda {
    fn ask_capture_info(&self, stream: Stream) -> Result<CaptureInfo> {
        let _entered = self.enter(stream.device, "cuStreamGetCaptureInfo")?;
        let (mut status, mut id, mut graph) = (Status::default(), 0, CUgraph(0));
        let (mut terminals, mut count) = (std::ptr::null(), 0);
        let (stream, s, i, g) = (handle(stream), &mut status, &mut id, &mut graph);
        let (t, c) = (&mut terminals, &mut count);
        if self.functions.cuStreamGetCaptureInfo_v3.is_some() {
            // The graphs of a capture have plain edges unless somebody asks for others: no edge data.
            let no_edges = std::ptr::null_mut();
            call_optional!(
                self,
                cuStreamGetCaptureInfo_v3 as "cuStreamGetCaptureInfo",
                stream,
                s,
                i,
                g,
                t,
                no_edges,
                c
            )?;
        } else {
            call_optional!(self, cuStreamGetCaptureInfo_v2 as "cuStreamGetCaptureInfo", stream, s, i, g, t, c)?;
        }
        let status = from_driver(status);
        if status == CaptureStatus::None {
            return Ok(CaptureInfo::default());
        }
        let terminals = if count == 0 || terminals.is_null() {
            Vec::new()
        } else {
            // SAFETY: the driver's own array of `count` nodes, which stays until the stream's next call; the stream is
            // the caller's, who does not use it from another thread meanwhile.
            let nodes = unsafe { std::slice::from_raw_parts(terminals, count) };
            nodes.iter().map(|node| Node(node.0 as u64)).collect()
        };
        let graph = (graph.0 != 0).then_some(Graph(graph.0 as u64));
        Ok(CaptureInfo { status, id, graph, terminals })
    }
}

fn to_driver(mode: CaptureMode) -> Mode {
    match mode {
        CaptureMode::Global => Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        CaptureMode::ThreadLocal => Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CaptureMode::Relaxed => Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
    }
}

fn from_driver(status: Status) -> CaptureStatus {
    match status {
        Status::CU_STREAM_CAPTURE_STATUS_NONE => CaptureStatus::None,
        Status::CU_STREAM_CAPTURE_STATUS_ACTIVE => CaptureStatus::Active,
        _ => CaptureStatus::Invalidated,
    }
}
