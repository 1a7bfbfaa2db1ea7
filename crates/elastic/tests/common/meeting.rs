//! Two processes in a test: this one and a test of the same file in a process of its own.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;

use millpond_sim::Sim;

use super::machine;

/// Runs a test of this file in a process of its own, which finds the socket by its environment.
fn process(test: &str, socket: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env("MILLPOND_TEST_SOCKET", socket)
        .spawn()
        .unwrap()
}

/// In the other process: a machine of its own and the socket; `None` when somebody runs it by hand.
pub fn other_process() -> Option<(Arc<Sim>, UnixStream)> {
    let socket = UnixStream::connect(std::env::var_os("MILLPOND_TEST_SOCKET")?).unwrap();
    Some((Sim::new(machine(64)), socket))
}

/// This process and another one, which share a socket. The other one ends with this value.
pub struct Meeting {
    /// The socket lies in it.
    _folder: tempfile::TempDir,
    pub child: Child,
    pub socket: UnixStream,
}

/// Starts a test of this file, which must be ignored, in another process.
pub fn meet(test: &str) -> Meeting {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let child = process(test, &path);
    let (socket, _) = listener.accept().unwrap();
    Meeting { _folder: folder, child, socket }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
