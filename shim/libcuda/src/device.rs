//! The devices: how many, their names, identities and attributes; versions.

use std::ffi::{c_char, c_int, c_uint};

use millpond_cuda::sys::{CUdevice, CUdevice_attribute, CUuuid};
use millpond_driver::{Code, Status};

use crate::export::Failure;
use crate::machine::{device, sim, start};
use millpond_shim::{Out, Text, copy_text};

/// The version that is answered before the machine has started, which programs may ask for.
const VERSION: c_int = 13020;

/// A device's place on the bus: one bus for each, from 1.
fn bus_id(device: millpond_driver::Device) -> String {
    format!("0000:{:02X}:00.0", device.0 + 1)
}

exports! {
    fn cuInit("cuInit" 2000, flags: c_uint) {
        if flags != 0 {
            return Err(Code::ERROR_INVALID_VALUE.into());
        }
        start().map(drop)
    }

    fn cuDriverGetVersion("cuDriverGetVersion" 2020, version: Out<c_int>) {
        version.set(sim().map_or(VERSION, |sim| sim.driver_version()))
    }

    fn cuDeviceGetCount("cuDeviceGetCount" 2000, count: Out<c_int>) {
        count.set(sim()?.device_count() as c_int)
    }

    fn cuDeviceGet("cuDeviceGet" 2000, found: Out<CUdevice>, ordinal: c_int) {
        found.set(device(ordinal)?.0 as CUdevice)
    }

    fn cuDeviceGetName("cuDeviceGetName" 2000, name: Out<c_char>, len: c_int, ordinal: CUdevice) {
        copy_text(name, len, &sim()?.caps(device(ordinal)?)?.name)
    }

    fn cuDeviceTotalMem_v2("cuDeviceTotalMem" 3020, bytes: Out<usize>, ordinal: CUdevice) {
        bytes.set(sim()?.caps(device(ordinal)?)?.total.0 as usize)
    }

    fn cuDeviceGetAttribute("cuDeviceGetAttribute" 2000,
        value: Out<c_int>, attribute: CUdevice_attribute, ordinal: CUdevice) {
        let device = device(ordinal)?;
        let caps = sim()?.caps(device)?;
        value.set(crate::attributes::value(attribute, device, &caps).ok_or(Failure(Code::ERROR_INVALID_VALUE))?)
    }

    fn cuDeviceGetPCIBusId("cuDeviceGetPCIBusId" 4010, id: Out<c_char>, len: c_int, ordinal: CUdevice) {
        copy_text(id, len, &bus_id(device(ordinal)?))
    }

    fn cuDeviceGetByPCIBusId("cuDeviceGetByPCIBusId" 4010, found: Out<CUdevice>, id: Text) {
        let id = id.get()?;
        let same = |ordinal: &c_int| device(*ordinal).is_ok_and(|device| {
            let own = bus_id(device);
            // Programs leave the domain out, or write it with more digits.
            id.eq_ignore_ascii_case(&own) || own.ends_with(&id.to_ascii_uppercase()) || id.to_ascii_uppercase().ends_with(&own)
        });
        let ordinal = (0..sim()?.device_count() as c_int).find(same);
        found.set(ordinal.ok_or(Failure(Code::ERROR_INVALID_DEVICE))?)
    }

    fn cuDeviceGetUuid("cuDeviceGetUuid" 9020, uuid: Out<CUuuid>, ordinal: CUdevice) {
        uuid.set(uuid_of(ordinal)?)
    }

    fn cuDeviceGetUuid_v2("cuDeviceGetUuid" 11040, uuid: Out<CUuuid>, ordinal: CUdevice) {
        uuid.set(uuid_of(ordinal)?)
    }
}

/// "millpond", seven zeros, and the ordinal.
fn uuid_of(ordinal: CUdevice) -> crate::export::Answer<CUuuid> {
    let mut uuid = CUuuid::zeroed();
    for (to, from) in uuid.bytes.iter_mut().zip(*b"millpond") {
        *to = from as c_char;
    }
    uuid.bytes[15] = device(ordinal)?.0 as c_char;
    Ok(uuid)
}
