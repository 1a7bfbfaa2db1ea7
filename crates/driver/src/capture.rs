//! Stream capture: what a graph recorded, and whether a stream is recording.

use crate::{Result, Stream};

/// A captured graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Graph(pub u64);

/// A node of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u64);

/// How strictly unsafe calls are forbidden during a capture (`CUstreamCaptureMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureMode {
    /// In every thread.
    #[default]
    Global,
    /// In the capturing thread.
    ThreadLocal,
    /// Nowhere.
    Relaxed,
}

/// Whether a stream is capturing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureStatus {
    /// It is not.
    #[default]
    None,
    /// It is.
    Active,
    /// It was, until something forbidden happened; the capture must be ended.
    Invalidated,
}

/// What a stream records into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Whether the stream is capturing; the rest has a meaning only while it is.
    pub status: CaptureStatus,
    /// The id of the capture, unique in the process.
    pub id: u64,
    /// The graph it makes.
    pub graph: Option<Graph>,
    /// The nodes on which the stream's next node will depend (its terminal nodes).
    pub terminals: Vec<Node>,
}

/// Stream capture.
pub trait Capture {
    /// `cuStreamBeginCapture`.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` on the default stream; `ILLEGAL_STATE`-like codes when it captures already.
    fn capture_begin(&self, stream: Stream, mode: CaptureMode) -> Result<()>;

    /// `cuStreamEndCapture`; also ends an invalidated one, with an error.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_INVALIDATED`, `STREAM_CAPTURE_UNJOINED`, `STREAM_CAPTURE_UNMATCHED`, `STREAM_CAPTURE_WRONG_THREAD`.
    fn capture_end(&self, stream: Stream) -> Result<Graph>;

    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// `INVALID_HANDLE`; `STREAM_CAPTURE_IMPLICIT` for the legacy stream while a blocking stream captures globally.
    fn capture_status(&self, stream: Stream) -> Result<CaptureStatus>;

    /// `cuStreamGetCaptureInfo`.
    ///
    /// # Errors
    /// As [`Capture::capture_status`].
    fn capture_info(&self, stream: Stream) -> Result<CaptureInfo>;

    /// `cuGraphNodeGetDependencies`: the nodes that `node` depends on directly.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn node_dependencies(&self, node: Node) -> Result<Vec<Node>>;

    /// `cuThreadExchangeStreamCaptureMode`: sets the calling thread's mode and returns the one before.
    ///
    /// # Errors
    /// None on a working driver.
    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode>;

    /// `cuGraphDestroy`.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    fn graph_destroy(&self, graph: Graph) -> Result<()>;
}
