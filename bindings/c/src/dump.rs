//! Snapshots as a file in PyTorch's form.

use std::collections::HashMap;
use std::ffi::c_char;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use millpond::Allocator;
use millpond_snapshot::{Frame, Snapshot, StackId};

use crate::pointer;
use crate::stacks::{Pinned, Stacks};
use crate::status::{Answer, Failure, caught, mp_status};
use crate::world::mp_world;

/// Writes what all allocators of the world hold, and their histories, into a file as torch.cuda.memory._dump_snapshot does. The
/// file is written whole or not at all. Stacks are in it if the stack source resolves them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_dump_snapshot(world: *const mp_world, path: *const c_char) -> mp_status {
    // SAFETY: as the header documents.
    caught(|| unsafe {
        let path = pointer::string(path, "path")?;
        dump(pointer::at(world, "world")?, &path)
    })
}

fn dump(world: &mp_world, path: &str) -> Answer {
    let pinned = Pinned::new(Arc::clone(&world.stacks));
    let snapshots = world.all();
    let snapshots = snapshots.iter().map(|allocator: &Allocator| allocator.snapshot(None, true));
    let whole = snapshots.fold(Snapshot::default(), |whole, one| join(whole, one, &world.stacks));
    drop(pinned);
    write(Path::new(path), &whole).map_err(|error| Failure::File { path: path.to_owned(), error })
}

/// Written beside its place, then renamed, so that nobody ever sees half of it.
fn write(path: &Path, snapshot: &Snapshot) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = BufWriter::new(tempfile::Builder::new().prefix(".millpond-").tempfile_in(folder)?);
    snapshot.write_pickle(&mut beside)?;
    beside.flush()?;
    let beside = beside.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    beside.as_file().sync_all()?;
    #[cfg(unix)]
    {
        // A temporary file is its owner's alone; what is asked for is for everybody.
        use std::os::unix::fs::PermissionsExt;
        beside.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    beside.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Adds the snapshot of one device to that of the others, with its stacks as the program resolves them.
fn join(mut whole: Snapshot, one: Snapshot, stacks: &Stacks) -> Snapshot {
    let mut known: HashMap<StackId, StackId> = HashMap::new();
    let mut resolved = |id: StackId, whole: &mut Snapshot| {
        *known.entry(id).or_insert_with(|| {
            let frames: Vec<Frame> = one.stacks.frames(id).cloned().collect();
            whole.stacks.intern(&stacks.resolve(&frames))
        })
    };
    for mut segment in one.segments {
        segment.stack = resolved(segment.stack, &mut whole);
        for block in &mut segment.blocks {
            block.stack = resolved(block.stack, &mut whole);
        }
        whole.segments.push(segment);
    }
    for (device, mut trace) in one.device_traces.into_iter().enumerate() {
        for entry in &mut trace {
            entry.stack = entry.stack.map(|stack| resolved(stack, &mut whole));
            entry.notes = whole.notes.intern(one.notes.get(entry.notes).clone());
        }
        if whole.device_traces.len() <= device {
            whole.device_traces.resize_with(device + 1, Vec::new);
        }
        whole.device_traces[device].append(&mut trace);
    }
    whole.settings = one.settings;
    whole
}
