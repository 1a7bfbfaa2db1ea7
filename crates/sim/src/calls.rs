//! Every driver call, by kind, with CUDA's name.

macro_rules! calls {
    ($($name:ident $cuda:literal $class:ident;)*) => {
        /// A kind of driver call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum CallKind {
            $(#[doc = concat!("`", $cuda, "`.")] $name,)*
        }

        impl CallKind {
            /// All kinds, in the order in which [`call_counts`](millpond_driver::Status::call_counts) reports them.
            pub const ALL: [CallKind; [$($cuda),*].len()] = [$(CallKind::$name),*];

            /// CUDA's name of the call.
            pub const fn name(self) -> &'static str {
                match self { $(CallKind::$name => $cuda,)* }
            }

            const fn class(self) -> Class {
                match self { $(CallKind::$name => Class::$class,)* }
            }
        }
    };
}

/// Where a call belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Changes memory, through the runtime: a failure stays behind as the last error.
    Memory,
    /// Changes memory, through the driver API alone.
    Virtual,
    /// Anything else of the runtime.
    Runtime,
    /// A question to the driver API.
    Question,
}

calls! {
    Malloc "cuMemAlloc" Memory;
    Free "cuMemFree" Memory;
    Reserve "cuMemAddressReserve" Virtual;
    AddrFree "cuMemAddressFree" Virtual;
    Create "cuMemCreate" Virtual;
    Release "cuMemRelease" Virtual;
    Map "cuMemMap" Virtual;
    Unmap "cuMemUnmap" Virtual;
    SetAccess "cuMemSetAccess" Virtual;
    Export "cuMemExportToShareableHandle" Virtual;
    Import "cuMemImportFromShareableHandle" Virtual;
    Retain "cuMemRetainAllocationHandle" Virtual;
    GetAccess "cuMemGetAccess" Question;
    Granularity "cuMemGetAllocationGranularity" Question;
    Props "cuMemGetAllocationPropertiesFromHandle" Question;
    MallocManaged "cuMemAllocManaged" Memory;
    MemInfo "cuMemGetInfo" Runtime;
    AddressRange "cuMemGetAddressRange" Question;
    Memcpy "cuMemcpyAsync" Runtime;
    MemcpyPeer "cuMemcpyPeerAsync" Runtime;
    Memset "cuMemsetD8Async" Runtime;
    Launch "cuLaunchKernel" Runtime;
    GraphLaunch "cuGraphLaunch" Runtime;
    StreamCreate "cuStreamCreate" Runtime;
    StreamDestroy "cuStreamDestroy" Runtime;
    StreamQuery "cuStreamQuery" Runtime;
    StreamSynchronize "cuStreamSynchronize" Runtime;
    DeviceSynchronize "cuCtxSynchronize" Runtime;
    EventCreate "cuEventCreate" Runtime;
    EventDestroy "cuEventDestroy" Runtime;
    EventRecord "cuEventRecord" Runtime;
    EventQuery "cuEventQuery" Runtime;
    EventSynchronize "cuEventSynchronize" Runtime;
    StreamWaitEvent "cuStreamWaitEvent" Runtime;
    CaptureBegin "cuStreamBeginCapture" Runtime;
    CaptureEnd "cuStreamEndCapture" Runtime;
    CaptureStatus "cuStreamIsCapturing" Runtime;
    CaptureInfo "cuStreamGetCaptureInfo" Runtime;
    NodeDependencies "cuGraphNodeGetDependencies" Runtime;
    ExchangeCaptureMode "cuThreadExchangeStreamCaptureMode" Runtime;
    GraphDestroy "cuGraphDestroy" Runtime;
    HostAlloc "cuMemHostAlloc" Memory;
    HostFree "cuMemFreeHost" Memory;
    HostRegister "cuMemHostRegister" Memory;
    HostUnregister "cuMemHostUnregister" Memory;
    HostMalloc "malloc" Question;
    HostMallocFree "free" Question;
    HostTouch "touch" Question;
    DefaultMemPool "cuDeviceGetDefaultMemPool" Runtime;
    PoolCreate "cuMemPoolCreate" Memory;
    PoolDestroy "cuMemPoolDestroy" Memory;
    PoolSet "cuMemPoolSetAttribute" Runtime;
    PoolGet "cuMemPoolGetAttribute" Runtime;
    PoolTrim "cuMemPoolTrimTo" Memory;
    PoolAlloc "cuMemAllocFromPoolAsync" Memory;
    PoolFree "cuMemFreeAsync" Memory;
    PoolSetAccess "cuMemPoolSetAccess" Runtime;
    IpcGet "cuIpcGetMemHandle" Runtime;
    IpcOpen "cuIpcOpenMemHandle" Memory;
    IpcClose "cuIpcCloseMemHandle" Memory;
    CanAccessPeer "cuDeviceCanAccessPeer" Runtime;
    EnablePeerAccess "cuCtxEnablePeerAccess" Runtime;
    Caps "cuDeviceGetAttribute" Question;
}

impl CallKind {
    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The kind with CUDA's name `name`.
    pub fn from_name(name: &str) -> Option<CallKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the call changes memory or addresses, which is what the log holds.
    pub const fn changes_memory(self) -> bool {
        matches!(self.class(), Class::Memory | Class::Virtual)
    }

    /// Whether a failure stays behind as the last error, as the runtime's calls do.
    pub(crate) const fn leaves_error(self) -> bool {
        matches!(self.class(), Class::Memory | Class::Runtime)
    }
}

impl std::fmt::Display for CallKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name_and_sits_at_its_index() {
        for (index, kind) in CallKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(CallKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(CallKind::from_name("cuMemMop"), None);
    }
}
