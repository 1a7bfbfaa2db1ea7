//! Functions that have one form in CUDA 12 and another in 13, under the same name or not. All others are the same in both.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use millpond_cuda::sys::CUdriverProcAddressQueryResult as Found;
use millpond_cuda::sys::{CUgraph, CUgraphEdgeData, CUgraphNode, CUstream};
use millpond_shim::{Answer, Out, Text, driver};

use crate::entry_points::find;
use crate::pointers::Attributes;
use crate::properties::{PropertiesOf12, PropertiesOf13};
use crate::thread::{entered, started};

/// The runtimes whose interfaces these are; of a driver's function a program gets the form of its runtime's version.
const VERSION_13: c_int = 13020;
const VERSION_12: c_int = 12090;

/// Exports functions in the form of one version; the name in the source says which.
macro_rules! forms {
    ($symbol:ident: $($name:ident = fn $of:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            extern "C" fn $of($($argument: $type),*) -> c_int {
                crate::export::answer(move || -> Answer { $body })
            }
            $symbol!($name, $of);
        )*
    };
}

/// `cudaPointerAttributes` of CUDA 13.
#[repr(C)]
#[derive(Clone, Copy)]
struct AttributesOf13 {
    known: Attributes,
    reserved: [u64; 8],
}

forms! { symbol_of_13:
    cudaRuntimeGetVersion = fn version_of_13(version: Out<c_int>) { version.set(VERSION_13) }

    cudaGetDriverEntryPoint = fn entry_point_of_13(
        name: Text, to: *mut *mut c_void, flags: c_ulonglong, outcome: Out<Found>,
    ) {
        find(name, to, VERSION_13 as c_uint, flags, outcome)
    }

    cudaGetDeviceProperties = fn properties_of_13(to: Out<PropertiesOf13>, which: c_int) {
        started()?;
        to.set(PropertiesOf13::of(which)?)
    }

    cudaPointerGetAttributes = fn attributes_of_13(to: Out<AttributesOf13>, addr: u64) {
        to.set(AttributesOf13 { known: Attributes::of(addr)?, reserved: [0; 8] })
    }

    cudaStreamGetCaptureInfo = fn capture_info_of_13(
        which: CUstream, status: *mut c_uint, id: *mut c_ulonglong, graph: *mut CUgraph, nodes: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData, count: *mut usize,
    ) {
        entered()?;
        driver!(cuStreamGetCaptureInfo_v3(
            which: CUstream, status: *mut c_uint, id: *mut c_ulonglong, graph: *mut CUgraph,
            nodes: *mut *const CUgraphNode, edges: *mut *const CUgraphEdgeData, count: *mut usize))
    }
}

forms! { symbol_of_12:
    cudaRuntimeGetVersion = fn version_of_12(version: Out<c_int>) { version.set(VERSION_12) }

    cudaGetDriverEntryPoint = fn entry_point_of_12(
        name: Text, to: *mut *mut c_void, flags: c_ulonglong, outcome: Out<Found>,
    ) {
        find(name, to, VERSION_12 as c_uint, flags, outcome)
    }

    cudaGetDeviceProperties_v2 = fn properties_of_12(to: Out<PropertiesOf12>, which: c_int) {
        started()?;
        to.set(PropertiesOf12::of(which)?)
    }

    cudaPointerGetAttributes = fn attributes_of_12(to: Out<Attributes>, addr: u64) { to.set(Attributes::of(addr)?) }

    cudaStreamGetCaptureInfo_v2 = fn capture_info_of_12(
        which: CUstream, status: *mut c_uint, id: *mut c_ulonglong, graph: *mut CUgraph, nodes: *mut *const CUgraphNode,
        count: *mut usize,
    ) {
        entered()?;
        driver!(cuStreamGetCaptureInfo_v2(
            which: CUstream, status: *mut c_uint, id: *mut c_ulonglong, graph: *mut CUgraph,
            nodes: *mut *const CUgraphNode, count: *mut usize))
    }
}
