//! Two processes and one piece of device memory: this process makes it, another one finds its bytes in it and answers there.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use millpond_driver::{Bytes, Device, Memory};
use millpond_elastic::share::{Imports, receive, send};
use millpond_elastic::{GrowOptions, Growable, Sharing};
use millpond_sim::{Sim, SimConfig};

const PAGE: u64 = 2 << 20;
const DEVICE: Device = Device(0);
const QUESTION: &[u8] = b"what do you read at the end of the second page?";
const ANSWER: &[u8] = b"the same bytes, and I write here";

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn machine() -> Arc<Sim> {
    Sim::new(SimConfig { backing: true, ..SimConfig::with_capacity(Bytes(1 << 30)) })
}

fn main() -> Outcome {
    match std::env::args_os().nth(1) {
        Some(socket) => child(UnixStream::connect(socket)?),
        None => parent(),
    }
}

fn parent() -> Outcome {
    let sim = machine();
    let options = GrowOptions { page: PAGE, sharing: Sharing::Any, ..GrowOptions::up_to(1 << 30) };
    let mut buffer = Growable::new(sim.clone(), DEVICE, &options)?;
    buffer.grow_to(8 * PAGE)?;
    let place = buffer.addr() + 2 * PAGE - QUESTION.len() as u64;
    sim.write(place, QUESTION)?;

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path)?;
    let mut other = std::process::Command::new(std::env::current_exe()?).arg(&path).spawn()?;
    let (mut socket, _) = listener.accept()?;
    // Two of the eight pages; the other process reserves no more than that.
    let shared = buffer.share(place - buffer.addr(), QUESTION.len() as u64 + PAGE)?;
    send(&socket, &shared)?;
    println!("shared {} pages from process {}", shared.handles.len(), std::process::id());
    socket.read_exact(&mut [0])?;
    assert!(other.wait()?.success());

    let answer = sim.read(buffer.addr() + 2 * PAGE, ANSWER.len())?;
    println!("process {} is gone; it wrote: {:?}", other.id(), String::from_utf8_lossy(&answer));
    assert_eq!(answer, ANSWER);
    println!("ok");
    Ok(())
}

fn child(mut socket: UnixStream) -> Outcome {
    let sim = machine();
    let shared = receive(&socket)?;
    let imported = Imports::new(sim.clone(), DEVICE).map(&shared)?;
    assert_eq!(imported.len(), 2 * PAGE);
    let read = sim.read(imported.addr() + shared.offset, QUESTION.len())?;
    println!("process {} reads: {:?}", std::process::id(), String::from_utf8_lossy(&read));
    assert_eq!(read, QUESTION);
    assert_eq!(sim.mem_info(DEVICE)?.0, 1 << 30, "the memory belongs to the other process");
    sim.write(imported.addr() + PAGE, ANSWER)?;
    socket.write_all(&[1])?;
    Ok(())
}
