//! Access of one device to another's memory.

use crate::{Device, Result, Stream};

/// Peer access.
pub trait Peers {
    /// `cuDeviceCanAccessPeer`.
    ///
    /// # Errors
    /// `INVALID_DEVICE`.
    fn can_access_peer(&self, device: Device, peer: Device) -> Result<bool>;

    /// `cuCtxEnablePeerAccess`: `device` may use plain allocations of `peer`.
    ///
    /// # Errors
    /// `PEER_ACCESS_ALREADY_ENABLED`, `INVALID_DEVICE`.
    fn enable_peer_access(&self, device: Device, peer: Device) -> Result<()>;

    /// `cuMemcpyPeerAsync`.
    ///
    /// # Errors
    /// `INVALID_VALUE`, `ILLEGAL_ADDRESS`.
    fn memcpy_peer_async(
        &self,
        dst: u64,
        dst_device: Device,
        src: u64,
        src_device: Device,
        bytes: u64,
        stream: Stream,
    ) -> Result<()>;
}
