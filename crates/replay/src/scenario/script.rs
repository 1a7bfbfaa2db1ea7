//! Writing requests.

use crate::workload::{Op, Workload};

/// A live allocation of the program that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) struct Tensor(u64);

/// The requests so far.
#[derive(Debug, Default)]
pub(super) struct Script {
    ops: Vec<Op>,
    next: u64,
}

/// One MiB.
pub(super) const MIB: u64 = 1 << 20;

impl Script {
    /// An allocation on a stream.
    pub fn alloc_on(&mut self, bytes: u64, stream: u32) -> Tensor {
        let id = self.next;
        self.next += 1;
        self.ops.push(Op::Alloc { id, size: bytes, stream, pool: None });
        Tensor(id)
    }

    /// An allocation on the default stream.
    pub fn alloc(&mut self, bytes: u64) -> Tensor {
        self.alloc_on(bytes, 0)
    }

    pub fn free(&mut self, tensor: Tensor) {
        self.ops.push(Op::Free { id: tensor.0 });
    }

    /// Frees all of some tensors, in their order.
    pub fn free_all(&mut self, tensors: impl IntoIterator<Item = Tensor>) {
        tensors.into_iter().for_each(|tensor| self.free(tensor));
    }

    /// A tensor that is gone as soon as it was used.
    pub fn scratch(&mut self, bytes: u64) {
        let tensor = self.alloc(bytes);
        self.free(tensor);
    }

    pub fn record_stream(&mut self, tensor: Tensor, stream: u32) {
        self.ops.push(Op::RecordStream { id: tensor.0, stream });
    }

    /// Any other request.
    pub fn then(&mut self, op: Op) {
        self.ops.push(op);
    }

    pub fn finish(self) -> Workload {
        Workload { ops: self.ops }
    }
}
