//! Plain memory between two processes on the real driver's code path, over the simulated library.

mod common;

use common::over_the_shim;
use millpond_cuda::Cuda;
use millpond_driver::*;

const D: Device = Device(0);
const MIB: u64 = 1 << 20;
const NAME: &str = "plain_memory_is_shared_by_two_processes";
/// The other process finds the handle here, in hexadecimal.
const HANDLE: &str = "MILLPOND_TEST_HANDLE";

fn byte_at(cuda: &Cuda, addr: u64) -> u8 {
    let stream = cuda.stream_create(D).unwrap();
    let host = cuda.host_alloc(4096, HostFlags::default()).unwrap();
    cuda.memcpy_async(host, addr, 1, stream).unwrap();
    cuda.stream_synchronize(stream).unwrap();
    let mut byte = 0;
    common::with_subject(cuda, |subject| byte = (subject.read)(host, 1)[0]);
    cuda.host_free(host).unwrap();
    byte
}

fn fill(cuda: &Cuda, addr: u64, value: u8) {
    let stream = cuda.stream_create(D).unwrap();
    cuda.memset_async(addr, value, MIB, stream).unwrap();
    cuda.stream_synchronize(stream).unwrap();
}

#[test]
fn plain_memory_is_shared_by_two_processes() {
    let Some(cuda) = over_the_shim(NAME, &[("BACKING", "1"), ("CAPACITY", "1G")]) else { return };
    if let Ok(text) = std::env::var(HANDLE) {
        return other_process(&cuda, &text);
    }
    let addr = cuda.mem_alloc(D, 4 * MIB).unwrap();
    fill(&cuda, addr + MIB, 17);
    let handle = cuda.ipc_handle(addr).unwrap();
    let text: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
    let this = std::env::current_exe().unwrap();
    let other = std::process::Command::new(this).args(["--exact", NAME, "--nocapture"]).env(HANDLE, text).status();
    assert!(other.unwrap().success());
    assert_eq!(byte_at(&cuda, addr + 2 * MIB), 18, "what the other process wrote");
    cuda.mem_free(D, addr).unwrap();
}

fn other_process(cuda: &Cuda, text: &str) {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    let handle: IpcMemHandle = std::array::from_fn(byte);
    let (free, _) = cuda.mem_info(D).unwrap();
    let addr = cuda.ipc_open(D, &handle).unwrap();
    assert_eq!(cuda.ipc_open(D, &handle), Ok(addr), "open once more");
    assert_eq!((cuda.mem_info(D).unwrap().0, cuda.mem_address_range(addr)), (free, Ok((addr, 4 * MIB))));
    assert_eq!(byte_at(cuda, addr + MIB), 17);
    fill(cuda, addr + 2 * MIB, 18);
    cuda.ipc_close(D, addr).unwrap();
    assert_eq!(byte_at(cuda, addr + MIB), 17, "open still");
    cuda.ipc_close(D, addr).unwrap();
    assert_eq!(cuda.ipc_close(D, addr).unwrap_err().code, Code::ERROR_INVALID_VALUE);
}
