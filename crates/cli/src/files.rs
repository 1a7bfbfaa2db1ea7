//! Files that are written: beside their place, then renamed, so that nobody ever sees half of one.

use std::io::{self, Write};
use std::path::Path;

use crate::codes::Code;
use crate::failure::Failure;

/// Writes a file whole or not at all; one that was there before is replaced.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    try_write(path, bytes)
        .map_err(|error| Failure::at(Code::CannotWrite, path, format!("it cannot be written: {error}")))
}

fn try_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new().prefix(".millpond-").tempfile_in(folder)?;
    beside.write_all(bytes)?;
    beside.as_file().sync_all()?;
    set_mode(beside.as_file())?;
    beside.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A temporary file is its owner's alone; what is asked for is for everybody.
#[cfg(unix)]
fn set_mode(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn set_mode(_: &std::fs::File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let failure = write(Path::new("/nonexistent/page"), b"").unwrap_err();
        assert_eq!(failure.code, Code::CannotWrite);
        assert!(failure.message.starts_with("/nonexistent/page: "), "{}", failure.message);
    }
}
