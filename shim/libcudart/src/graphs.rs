//! Graphs and the objects that programs tie to them.

use std::ffi::{c_uint, c_ulonglong, c_void};

use millpond_cuda::sys::{CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUstream};

forward! {
    cudaGraphInstantiate => cuGraphInstantiateWithFlags(made: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    cudaGraphInstantiateWithFlags => cuGraphInstantiateWithFlags(
        made: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    cudaGraphInstantiateWithParams => cuGraphInstantiateWithParams(
        made: *mut CUgraphExec, graph: CUgraph, params: *mut c_void);
    cudaGraphUpload => cuGraphUpload(instance: CUgraphExec, on: CUstream);
    cudaGraphLaunch => cuGraphLaunch(instance: CUgraphExec, on: CUstream);
    cudaGraphExecDestroy => cuGraphExecDestroy(instance: CUgraphExec);
    cudaGraphDestroy => cuGraphDestroy(graph: CUgraph);
    cudaGraphGetNodes => cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    cudaGraphNodeGetDependencies => cuGraphNodeGetDependencies_v2(
        node: CUgraphNode, nodes: *mut CUgraphNode, edges: *mut CUgraphEdgeData, count: *mut usize);
    cudaUserObjectCreate => cuUserObjectCreate(
        made: *mut usize, data: *mut c_void, destroy: Option<extern "C" fn(*mut c_void)>, references: c_uint,
        flags: c_uint);
    cudaUserObjectRetain => cuUserObjectRetain(object: usize, count: c_uint);
    cudaUserObjectRelease => cuUserObjectRelease(object: usize, count: c_uint);
    cudaGraphRetainUserObject => cuGraphRetainUserObject(graph: CUgraph, object: usize, count: c_uint, flags: c_uint);
}
