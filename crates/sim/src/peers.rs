//! Access of one device to another's memory.

use std::collections::BTreeSet;

use millpond_driver::{Code, Device, Peers, Result, Stream};

use crate::calls::CallKind;
use crate::sim::{Sim, refuse};
use crate::work::Copy;

/// Which devices may reach which.
#[derive(Debug, Default)]
pub(crate) struct PeerLinks {
    /// (accessor, owner) pairs that are not connected; all others are.
    cut: BTreeSet<(Device, Device)>,
    /// (accessor, owner) pairs for which access was enabled.
    enabled: BTreeSet<(Device, Device)>,
}

impl PeerLinks {
    pub fn can_access(&self, device: Device, peer: Device) -> bool {
        device != peer && !self.cut.contains(&(device, peer))
    }

    /// False if it was enabled before.
    pub fn enable(&mut self, device: Device, peer: Device) -> bool {
        self.enabled.insert((device, peer))
    }

    pub fn is_enabled(&self, device: Device, peer: Device) -> bool {
        self.enabled.contains(&(device, peer))
    }
}

impl Sim {
    /// Cuts the link by which `device` reaches memory of `peer`, as if the machine had none.
    pub fn cut_peer_link(&self, device: Device, peer: Device) {
        let mut state = self.lock();
        state.peers.cut.insert((device, peer));
        state.peers.enabled.remove(&(device, peer));
    }
}

impl Peers for Sim {
    fn can_access_peer(&self, device: Device, peer: Device) -> Result<bool> {
        self.call(CallKind::CanAccessPeer, 0, 0, |state| {
            state.check_device(device, CallKind::CanAccessPeer)?;
            state.check_device(peer, CallKind::CanAccessPeer)?;
            Ok(state.peers.can_access(device, peer))
        })
    }

    fn enable_peer_access(&self, device: Device, peer: Device) -> Result<()> {
        const KIND: CallKind = CallKind::EnablePeerAccess;
        self.call(KIND, 0, 0, |state| {
            state.check_device(device, KIND)?;
            state.check_device(peer, KIND)?;
            if !state.peers.can_access(device, peer) {
                return refuse(KIND, Code::ERROR_INVALID_DEVICE, format!("{device} cannot reach {peer}"));
            }
            if !state.peers.enable(device, peer) {
                return refuse(
                    KIND,
                    Code::ERROR_PEER_ACCESS_ALREADY_ENABLED,
                    format!("{device} may use {peer} already"),
                );
            }
            Ok(())
        })
    }

    fn memcpy_peer_async(
        &self,
        dst: u64,
        dst_device: Device,
        src: u64,
        src_device: Device,
        bytes: u64,
        stream: Stream,
    ) -> Result<()> {
        const KIND: CallKind = CallKind::MemcpyPeer;
        self.call(KIND, dst, bytes, |state| {
            state.check_device(dst_device, KIND)?;
            state.check_device(src_device, KIND)?;
            state.copy_between((dst_device, src_device), Copy { dst, src, bytes }, stream)
        })
    }
}
