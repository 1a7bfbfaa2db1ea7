//! What is said when there is no driver, or not the right one.

mod common;

use common::{child, library, over_the_shim};
use millpond_cuda::sys::load::Library;
use millpond_cuda::{Cuda, LoadError};
use millpond_driver::{Code, Device, Status};

#[test]
fn a_library_that_is_not_there_is_named_with_the_reason() {
    let error = Library::first_of(&["libnowhere.so.1", "libneither.so"]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("libnowhere.so.1") && text.contains("libneither.so"), "{text}");
    assert!(text.contains("No such file"), "{text}");
}

#[test]
fn all_functions_that_a_library_lacks_are_listed() {
    let library = Library::first_of(&["libm.so.6"]).unwrap();
    let Err(LoadError::Functions { missing, library }) = Cuda::from_library(library) else {
        panic!("the mathematical library is no driver");
    };
    assert_eq!(library, "libm.so.6");
    assert!(missing.len() > 40, "{missing:?}");
    assert!(missing.contains(&"cuInit") && missing.contains(&"cuMemHostRegister_v2"), "{missing:?}");
    assert!(!missing.contains(&"cuMemCreate"), "that one is an ability: {missing:?}");
}

#[test]
fn the_simulated_library_starts_for_nobody_but_millpond_sim() {
    if std::env::var_os("MILLPOND_SIM").is_some() {
        return;
    }
    let library = Library::first_of(&[library()]).unwrap();
    let Err(LoadError::Start(error)) = Cuda::from_library(library) else { panic!("it must not start") };
    assert_eq!((error.call, error.code), ("cuInit", Code::ERROR_NOT_PERMITTED));
}

#[test]
fn a_machine_without_devices_does_not_start() {
    const NAME: &str = "a_machine_without_devices_does_not_start";
    if std::env::var_os("MILLPOND_SIM").is_some() {
        let Err(LoadError::Start(error)) = Cuda::load() else { panic!("there is no device") };
        assert_eq!(error.code, Code::ERROR_NO_DEVICE);
        return;
    }
    assert!(child(NAME, &[("DEVICES", "0")]).status().unwrap().success());
}

#[test]
fn devices_are_as_the_variables_say() {
    let settings = [("DEVICES", "3"), ("CAPACITY", "24G"), ("COMPUTE", "8.6")];
    let Some(cuda) = over_the_shim("devices_are_as_the_variables_say", &settings) else { return };
    assert_eq!((cuda.device_count(), cuda.driver_version()), (3, 13020));
    let caps = cuda.caps(Device(2)).unwrap();
    assert_eq!((caps.total.0, caps.compute), (24 << 30, (8, 6)));
    assert!(caps.name.contains("Millpond simulated"), "{}", caps.name);
    assert!(caps.vmm && caps.pools && caps.posix_fd && caps.host_numa_vmm && !caps.fabric && !caps.managed, "{caps:?}");
    assert_eq!(caps.host_numa, Some(0));
}
