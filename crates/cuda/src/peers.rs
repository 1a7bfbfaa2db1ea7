//! Access of one device to another's memory.

use millpond_driver::{Device, Peers, Result, Stream};

use crate::cuda::Cuda;
use crate::order::handle;

impl Peers for Cuda {
    fn can_access_peer(&self, device: Device, peer: Device) -> Result<bool> {
        const CALL: &str = "cuDeviceCanAccessPeer";
        let (device, peer) = (self.device(device, CALL)?.ordinal, self.device(peer, CALL)?.ordinal);
        let mut can = 0;
        call!(self, cuDeviceCanAccessPeer as "cuDeviceCanAccessPeer", &mut can, device, peer)?;
        Ok(can != 0)
    }

    fn enable_peer_access(&self, device: Device, peer: Device) -> Result<()> {
        self.remember(|| {
            let peer = self.primary(peer, "cuCtxEnablePeerAccess")?;
            let _entered = self.enter(device, "cuCtxEnablePeerAccess")?;
            call!(self, cuCtxEnablePeerAccess as "cuCtxEnablePeerAccess", peer, 0)
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
        self.remember(|| {
            let to = self.primary(dst_device, "cuMemcpyPeerAsync")?;
            let from = self.primary(src_device, "cuMemcpyPeerAsync")?;
            let _entered = self.enter(stream.device, "cuMemcpyPeerAsync")?;
            let bytes = bytes as usize;
            call!(self, cuMemcpyPeerAsync as "cuMemcpyPeerAsync", dst, to, src, from, bytes, handle(stream))
        })
    }
}
