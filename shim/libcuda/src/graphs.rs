//! Graphs: what captures made, instances of them, and the objects that programs tie to them.
//!
//! An instance is its graph: nothing here changes a graph after its capture. So a graph stays in the simulation until
//! the program has destroyed it and all its instances.

use std::collections::HashMap;
use std::ffi::{c_char, c_uint, c_void};
use std::sync::{LazyLock, Mutex};

use millpond_cuda::sys::{CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUstream};
use millpond_driver::{Capture, Code, Graph, Node};

use crate::export::{Answer, Failure};
use crate::handles::stream;
use crate::machine::{lock, sim};
use millpond_shim::Out;

#[derive(Default)]
struct Graphs {
    graphs: HashMap<usize, Uses>,
    /// The graph of each instance.
    instances: HashMap<usize, usize>,
    objects: HashMap<usize, Object>,
    last: usize,
}

#[derive(Default)]
struct Uses {
    instances: usize,
    destroyed: bool,
    /// The references to objects that go with the graph.
    objects: Vec<(usize, c_uint)>,
}

/// `CUuserObject`: something of the program's that is destroyed with its last reference.
struct Object {
    references: c_uint,
    destroy: extern "C" fn(*mut c_void),
    data: usize,
}

static GRAPHS: LazyLock<Mutex<Graphs>> = LazyLock::new(Mutex::default);

/// Instances and objects lie from here ("MG").
const FIRST: usize = 0x4d47_0000_0000;

const INVALID: Failure = Failure(Code::ERROR_INVALID_VALUE);

/// A capture has made `graph`.
pub(crate) fn captured(graph: Graph) {
    lock(&GRAPHS).graphs.insert(graph.0 as usize, Uses::default());
}

exports! {
    fn cuGraphInstantiateWithFlags("cuGraphInstantiateWithFlags" 11040,
        made: Out<CUgraphExec>, graph: CUgraph, _flags: u64) { instantiate(made, graph) }

    fn cuGraphInstantiate_v2("cuGraphInstantiate" 11000,
        made: Out<CUgraphExec>, graph: CUgraph, _node: Out<CUgraphNode>, _log: Out<c_char>, _len: usize) {
        instantiate(made, graph)
    }

    fn cuGraphInstantiate_v3("cuGraphInstantiate" 12000,
        made: Out<CUgraphExec>, graph: CUgraph, _flags: u64) { instantiate(made, graph) }

    fn cuGraphInstantiateWithParams("cuGraphInstantiateWithParams" 12000,
        made: Out<CUgraphExec>, graph: CUgraph, _params: *mut c_void) { instantiate(made, graph) }

    fn cuGraphUpload("cuGraphUpload" 11010, instance: CUgraphExec, on: CUstream) {
        stream(on)?;
        graph_of(instance).map(drop)
    }

    fn cuGraphLaunch("cuGraphLaunch" 10000, instance: CUgraphExec, on: CUstream) {
        Ok(sim()?.graph_launch(graph_of(instance)?, stream(on)?)?)
    }

    fn cuGraphExecDestroy("cuGraphExecDestroy" 10000, instance: CUgraphExec) {
        let mut graphs = lock(&GRAPHS);
        let graph = graphs.instances.remove(&instance.0).ok_or(INVALID)?;
        if let Some(uses) = graphs.graphs.get_mut(&graph) {
            uses.instances -= 1;
        }
        let gone = graphs.bury(graph)?;
        drop(graphs);
        destroy(gone);
        Ok(())
    }

    fn cuGraphDestroy("cuGraphDestroy" 10000, graph: CUgraph) {
        let mut graphs = lock(&GRAPHS);
        let uses = graphs.graphs.get_mut(&graph.0).filter(|uses| !uses.destroyed).ok_or(INVALID)?;
        uses.destroyed = true;
        let gone = graphs.bury(graph.0)?;
        drop(graphs);
        destroy(gone);
        Ok(())
    }

    fn cuGraphGetNodes("cuGraphGetNodes" 10000, graph: CUgraph, nodes: Out<CUgraphNode>, count: Out<usize>) {
        if !lock(&GRAPHS).graphs.contains_key(&graph.0) {
            return Err(INVALID);
        }
        list(sim()?.graph_nodes(Graph(graph.0 as u64)), nodes, count)
    }

    fn cuGraphNodeGetDependencies("cuGraphNodeGetDependencies" 10000,
        node: CUgraphNode, nodes: Out<CUgraphNode>, count: Out<usize>) {
        list(sim()?.node_dependencies(Node(node.0 as u64))?, nodes, count)
    }

    fn cuGraphNodeGetDependencies_v2("cuGraphNodeGetDependencies" 12030,
        node: CUgraphNode, nodes: Out<CUgraphNode>, edges: Out<CUgraphEdgeData>, count: Out<usize>) {
        let found = sim()?.node_dependencies(Node(node.0 as u64))?;
        if !edges.is_null() {
            edges.fill(found.iter().map(|_| CUgraphEdgeData::zeroed()))?;
        }
        list(found, nodes, count)
    }

    fn cuUserObjectCreate("cuUserObjectCreate" 11030,
        made: Out<usize>, data: *mut c_void, destroy: Option<extern "C" fn(*mut c_void)>, references: c_uint,
        _flags: c_uint) {
        let destroy = destroy.ok_or(INVALID)?;
        let mut graphs = lock(&GRAPHS);
        let name = graphs.name();
        graphs.objects.insert(name, Object { references, destroy, data: data.expose_provenance() });
        made.set(name)
    }

    fn cuUserObjectRetain("cuUserObjectRetain" 11030, object: usize, count: c_uint) {
        lock(&GRAPHS).objects.get_mut(&object).ok_or(INVALID)?.references += count;
        Ok(())
    }

    fn cuUserObjectRelease("cuUserObjectRelease" 11030, object: usize, count: c_uint) {
        let gone = lock(&GRAPHS).release(object, count);
        destroy(gone);
        Ok(())
    }

    fn cuGraphRetainUserObject("cuGraphRetainUserObject" 11030,
        graph: CUgraph, object: usize, count: c_uint, flags: c_uint) {
        let mut graphs = lock(&GRAPHS);
        // The flag moves references of the caller's; without it they are new ones.
        const MOVE: c_uint = 1;
        if flags & MOVE == 0 {
            graphs.objects.get_mut(&object).ok_or(INVALID)?.references += count;
        }
        // A graph that is being captured is not on the list yet.
        graphs.graphs.entry(graph.0).or_default().objects.push((object, count));
        Ok(())
    }
}

impl Graphs {
    fn name(&mut self) -> usize {
        self.last += 16;
        FIRST + self.last
    }

    /// Forgets a graph that nobody needs any more; answers the objects that go with it.
    fn bury(&mut self, graph: usize) -> Answer<Vec<Object>> {
        if self.graphs.get(&graph).is_none_or(|uses| !uses.destroyed || uses.instances != 0) {
            return Ok(Vec::new());
        }
        let objects = self.graphs.remove(&graph).map(|uses| uses.objects).unwrap_or_default();
        sim()?.graph_destroy(Graph(graph as u64))?;
        Ok(objects.into_iter().flat_map(|(object, count)| self.release(object, count)).collect())
    }

    fn release(&mut self, object: usize, count: c_uint) -> Vec<Object> {
        let Some(found) = self.objects.get_mut(&object) else { return Vec::new() };
        found.references = found.references.saturating_sub(count);
        if found.references == 0 { self.objects.remove(&object).into_iter().collect() } else { Vec::new() }
    }
}

/// Calls the program, so under no lock.
fn destroy(objects: Vec<Object>) {
    for object in objects {
        (object.destroy)(std::ptr::with_exposed_provenance_mut(object.data));
    }
}

fn instantiate(made: Out<CUgraphExec>, graph: CUgraph) -> Answer {
    let mut graphs = lock(&GRAPHS);
    let uses = graphs.graphs.get_mut(&graph.0).filter(|uses| !uses.destroyed).ok_or(INVALID)?;
    uses.instances += 1;
    let name = graphs.name();
    graphs.instances.insert(name, graph.0);
    made.set(CUgraphExec(name))
}

fn graph_of(instance: CUgraphExec) -> Answer<Graph> {
    lock(&GRAPHS).instances.get(&instance.0).map(|&graph| Graph(graph as u64)).ok_or(INVALID)
}

/// Nodes as CUDA lists them: without a place for them, how many; else as many as there is room for.
fn list(found: Vec<Node>, nodes: Out<CUgraphNode>, count: Out<usize>) -> Answer {
    if nodes.is_null() {
        return count.set(found.len());
    }
    let room = count.now()?;
    nodes.fill(found.iter().take(room).map(|node| CUgraphNode(node.0 as usize)))?;
    // What is left of the room is cleared.
    count.set(found.len().min(room))
}
