//! Stream capture.

use std::cell::RefCell;
use std::collections::BTreeMap;

use millpond_cuda::sys::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUstream, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status,
};
use millpond_driver::{Capture, CaptureMode, CaptureStatus, Code, Stream};

use crate::export::Answer;
use crate::handles::stream;
use crate::machine::sim;
use millpond_shim::Out;

thread_local! {
    /// The nodes of the last answer for each stream. A program may read them until the stream gets more work, also after
    /// further questions: so they are replaced only by others.
    static TERMINALS: RefCell<BTreeMap<Stream, Vec<CUgraphNode>>> = const { RefCell::new(BTreeMap::new()) };
}

exports! {
    fn cuStreamBeginCapture("cuStreamBeginCapture" 10000, which: CUstream) {
        Ok(sim()?.capture_begin(stream(which)?, CaptureMode::Global)?)
    }

    fn cuStreamBeginCapture_v2("cuStreamBeginCapture" 10010, which: CUstream, mode: Mode) {
        Ok(sim()?.capture_begin(stream(which)?, from_program(mode)?)?)
    }

    fn cuStreamEndCapture("cuStreamEndCapture" 10000, which: CUstream, graph: Out<CUgraph>) {
        // A capture that failed leaves no graph.
        graph.set(CUgraph(0))?;
        let made = sim()?.capture_end(stream(which)?)?;
        crate::graphs::captured(made);
        graph.set(CUgraph(made.0 as usize))
    }

    fn cuStreamIsCapturing("cuStreamIsCapturing" 10000, which: CUstream, status: Out<Status>) {
        status.set(to_program(sim()?.capture_status(stream(which)?)?))
    }

    fn cuStreamGetCaptureInfo("cuStreamGetCaptureInfo" 10010, which: CUstream, status: Out<Status>, id: Out<u64>) {
        let info = sim()?.capture_info(stream(which)?)?;
        status.set(to_program(info.status))?;
        id.offer(info.id);
        Ok(())
    }

    fn cuStreamGetCaptureInfo_v2("cuStreamGetCaptureInfo" 11030,
        which: CUstream, status: Out<Status>, id: Out<u64>, graph: Out<CUgraph>, nodes: Out<*const CUgraphNode>,
        count: Out<usize>) {
        info(which, status, id, graph, nodes, count)
    }

    fn cuStreamGetCaptureInfo_v3("cuStreamGetCaptureInfo" 12030,
        which: CUstream, status: Out<Status>, id: Out<u64>, graph: Out<CUgraph>, nodes: Out<*const CUgraphNode>,
        edges: Out<*const CUgraphEdgeData>, count: Out<usize>) {
        // All edges are plain ones.
        edges.offer(std::ptr::null());
        info(which, status, id, graph, nodes, count)
    }

    fn cuThreadExchangeStreamCaptureMode("cuThreadExchangeStreamCaptureMode" 10010, mode: Out<Mode>) {
        let before = sim()?.exchange_capture_mode(from_program(mode.now()?)?)?;
        mode.set(match before {
            CaptureMode::Global => Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            CaptureMode::ThreadLocal => Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            CaptureMode::Relaxed => Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
        })
    }
}

fn info(
    which: CUstream,
    status: Out<Status>,
    id: Out<u64>,
    graph: Out<CUgraph>,
    nodes: Out<*const CUgraphNode>,
    count: Out<usize>,
) -> Answer {
    let which = stream(which)?;
    let info = sim()?.capture_info(which)?;
    status.set(to_program(info.status))?;
    if info.status == CaptureStatus::None {
        return Ok(());
    }
    id.offer(info.id);
    graph.offer(CUgraph(info.graph.map_or(0, |graph| graph.0 as usize)));
    TERMINALS.with_borrow_mut(|answers| {
        let now: Vec<_> = info.terminals.iter().map(|node| CUgraphNode(node.0 as usize)).collect();
        let terminals = answers.entry(which).or_default();
        if *terminals != now {
            *terminals = now;
        }
        nodes.offer(terminals.as_ptr());
        count.offer(terminals.len());
    });
    Ok(())
}

fn from_program(mode: Mode) -> Answer<CaptureMode> {
    match mode {
        Mode::CU_STREAM_CAPTURE_MODE_GLOBAL => Ok(CaptureMode::Global),
        Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => Ok(CaptureMode::ThreadLocal),
        Mode::CU_STREAM_CAPTURE_MODE_RELAXED => Ok(CaptureMode::Relaxed),
        _ => Err(Code::ERROR_INVALID_VALUE.into()),
    }
}

fn to_program(status: CaptureStatus) -> Status {
    match status {
        CaptureStatus::None => Status::CU_STREAM_CAPTURE_STATUS_NONE,
        CaptureStatus::Active => Status::CU_STREAM_CAPTURE_STATUS_ACTIVE,
        CaptureStatus::Invalidated => Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    }
}
