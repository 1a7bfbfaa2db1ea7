//! The handle of shared memory as bytes: PyTorch's IPC string (R4.34).
//!
//! ```text
//! 3 'c'  64 bytes of a cudaIpcMemHandle
//! 3 'e'  pid:i32 0:u32  page:u64  count:u64  type:i32 0:u32   then per page  fd:i32  or  64 bytes of a fabric handle
//! ```
//!
//! Numbers are little-endian, and the gaps of the header are zero. The type says how to read the pages: a receiver never
//! guesses it from its own state (C43).

use millpond_driver::HandleType;

/// The version of the format, its first byte.
pub const VERSION: u8 = 3;

const PLAIN: u8 = b'c';
const PAGES: u8 = b'e';
const HEADER: usize = 32;
const FABRIC: usize = 64;
const FD: usize = 4;

/// The handle of memory that another process shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpcHandle {
    /// A plain allocation: CUDA's own 64 bytes.
    Plain([u8; 64]),
    /// Pages of an expandable segment or a buffer.
    Pages(IpcPages),
}

/// Shared pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpcPages {
    /// The process that shares them.
    pub pid: i32,
    /// Bytes of a page.
    pub page: u64,
    /// One handle for each page.
    pub handles: PageHandles,
}

/// Handles of pages, all of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageHandles {
    /// Numbers of file descriptors in the sharing process.
    Fds(Vec<i32>),
    /// Fabric handles.
    Fabric(Vec<[u8; 64]>),
}

/// Bytes that are no handle, or none that can be read here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// Too few bytes, or too many.
    #[error("it has {found} bytes where {expected} belong")]
    Length {
        /// Bytes that would be right.
        expected: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// A version that is not known yet (R4.36).
    #[error("version {0} is from a future version of PyTorch; this one reads up to 3")]
    FutureVersion(u8),
    /// A version that had another layout.
    #[error("version {0} of shared pages is not read any more; update the sharing process")]
    OldVersion(u8),
    /// A kind other than 'c' and 'e'.
    #[error("its kind is {0:#04x}, neither 'c' (plain) nor 'e' (pages)")]
    Kind(u8),
    /// A type other than file descriptors and fabric handles.
    #[error("its handles are of type {0}, neither 1 (file descriptors) nor 2 (fabric handles)")]
    Type(i32),
    /// A page size or a count that makes no sense.
    #[error("{count} pages of {page} bytes are not possible")]
    Size {
        /// Bytes of a page.
        page: u64,
        /// How many.
        count: u64,
    },
}

impl IpcHandle {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            IpcHandle::Plain(handle) => [&[VERSION, PLAIN], &handle[..]].concat(),
            IpcHandle::Pages(IpcPages { pid, page, handles }) => {
                let (handle_type, count) = match handles {
                    PageHandles::Fds(fds) => (type_number(HandleType::PosixFd), fds.len()),
                    PageHandles::Fabric(handles) => (type_number(HandleType::Fabric), handles.len()),
                };
                let mut bytes = vec![VERSION, PAGES];
                bytes.extend(pid.to_le_bytes());
                bytes.extend([0; 4]);
                bytes.extend(page.to_le_bytes());
                bytes.extend((count as u64).to_le_bytes());
                bytes.extend(handle_type.to_le_bytes());
                bytes.extend([0; 4]);
                match handles {
                    PageHandles::Fds(fds) => bytes.extend(fds.iter().flat_map(|fd| fd.to_le_bytes())),
                    PageHandles::Fabric(handles) => bytes.extend(handles.iter().flatten()),
                }
                bytes
            }
        }
    }

    /// Reads a handle (R4.36). Exactly 64 bytes are a plain handle without a version, as old PyTorch wrote it.
    ///
    /// # Errors
    /// [`HandleError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, HandleError> {
        if let Ok(handle) = bytes.try_into() {
            return Ok(IpcHandle::Plain(handle));
        }
        let &[version, kind, ref rest @ ..] = bytes else {
            return Err(HandleError::Length { expected: 2 + FABRIC, found: bytes.len() });
        };
        if version > VERSION {
            return Err(HandleError::FutureVersion(version));
        }
        match kind {
            PLAIN => {
                let wrong = HandleError::Length { expected: 2 + FABRIC, found: bytes.len() };
                rest.try_into().map(IpcHandle::Plain).map_err(|_| wrong)
            }
            PAGES if version < VERSION => Err(HandleError::OldVersion(version)),
            PAGES => IpcPages::decode(rest).map(IpcHandle::Pages),
            other => Err(HandleError::Kind(other)),
        }
    }
}

impl IpcPages {
    fn decode(bytes: &[u8]) -> Result<Self, HandleError> {
        let Some((header, handles)) = bytes.split_at_checked(HEADER) else {
            return Err(HandleError::Length { expected: 2 + HEADER, found: 2 + bytes.len() });
        };
        let int = |at: usize| i32::from_le_bytes(array(&header[at..]));
        let long = |at: usize| u64::from_le_bytes(array(&header[at..]));
        let (pid, page, count) = (int(0), long(8), long(16));
        let each = match int(24) {
            1 => FD,
            2 => FABRIC,
            other => return Err(HandleError::Type(other)),
        };
        let fits = page > 0 && count > 0 && page.checked_mul(count).is_some_and(|bytes| bytes < 1 << 63);
        let expected = usize::try_from(count).ok().and_then(|count| count.checked_mul(each)).filter(|_| fits);
        let Some(expected) = expected else { return Err(HandleError::Size { page, count }) };
        if handles.len() != expected {
            let length = |handles| 2 + HEADER + handles;
            return Err(HandleError::Length { expected: length(expected), found: length(handles.len()) });
        }
        let handles = if each == FD {
            PageHandles::Fds(handles.chunks_exact(FD).map(|fd| i32::from_le_bytes(array(fd))).collect())
        } else {
            PageHandles::Fabric(handles.chunks_exact(FABRIC).map(array).collect())
        };
        Ok(IpcPages { pid, page, handles })
    }

    /// How many pages there are.
    pub fn count(&self) -> usize {
        match &self.handles {
            PageHandles::Fds(fds) => fds.len(),
            PageHandles::Fabric(handles) => handles.len(),
        }
    }
}

/// PyTorch's number of a handle type.
pub(super) fn type_number(handle_type: HandleType) -> i32 {
    match handle_type {
        HandleType::None => 0,
        HandleType::PosixFd => 1,
        HandleType::Fabric => 2,
    }
}

/// The first N bytes, zeros where there are none.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r4_34_pages_by_file_descriptor_byte_for_byte() {
        let pages = IpcPages { pid: 0x0102_0304, page: 20 << 20, handles: PageHandles::Fds(vec![7, 300]) };
        #[rustfmt::skip]
        let bytes = [
            3, b'e',
            4, 3, 2, 1, 0, 0, 0, 0,
            0, 0, 0x40, 1, 0, 0, 0, 0,
            2, 0, 0, 0, 0, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 0, 0,
            7, 0, 0, 0,
            44, 1, 0, 0,
        ];
        assert_eq!(IpcHandle::Pages(pages.clone()).encode(), bytes);
        assert_eq!(IpcHandle::decode(&bytes), Ok(IpcHandle::Pages(pages)));
    }

    #[test]
    fn r4_34_fabric_handles_and_plain_ones() {
        let fabric = IpcHandle::Pages(IpcPages {
            pid: 1,
            page: 2 << 20,
            handles: PageHandles::Fabric(vec![[9; 64], [8; 64], [7; 64]]),
        });
        let bytes = fabric.encode();
        assert_eq!((bytes.len(), bytes[2 + 24]), (2 + 32 + 3 * 64, 2));
        assert_eq!(IpcHandle::decode(&bytes), Ok(fabric));
        let plain = IpcHandle::Plain([5; 64]);
        assert_eq!(plain.encode()[..2], [3, b'c']);
        assert_eq!(IpcHandle::decode(&plain.encode()), Ok(plain));
    }

    #[test]
    fn r4_36_64_bytes_are_a_plain_handle_whatever_they_say() {
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&[9, b'e']);
        assert_eq!(IpcHandle::decode(&bytes), Ok(IpcHandle::Plain(bytes)));
    }

    #[test]
    fn r4_36_what_cannot_be_read_is_named() {
        let good = IpcHandle::Pages(IpcPages { pid: 1, page: 2 << 20, handles: PageHandles::Fds(vec![3; 3]) }).encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            IpcHandle::decode(&bytes).unwrap_err()
        };
        assert_eq!(with(0, 4), HandleError::FutureVersion(4));
        assert_eq!(with(0, 2), HandleError::OldVersion(2));
        assert_eq!(with(1, b'x'), HandleError::Kind(b'x'));
        assert_eq!(with(26, 0), HandleError::Type(0));
        assert_eq!(with(18, 4), HandleError::Length { expected: 50, found: 46 });
        assert_eq!(with(18, 0), HandleError::Size { page: 2 << 20, count: 0 });
        assert_eq!(with(25, 0xff), HandleError::Size { page: 2 << 20, count: 3 | 0xff << 56 });
        assert_eq!(IpcHandle::decode(&[]), Err(HandleError::Length { expected: 66, found: 0 }));
        assert_eq!(IpcHandle::decode(&good[..20]), Err(HandleError::Length { expected: 34, found: 20 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = IpcHandle::decode(&bytes);
            let _ = IpcHandle::decode(&[&[3, b'e'], &bytes[..]].concat());
        }

        #[test]
        fn what_is_written_is_read(pid: i32, page in 1u64..1 << 40, fds in proptest::collection::vec(any::<i32>(), 1..40)) {
            let handle = IpcHandle::Pages(IpcPages { pid, page, handles: PageHandles::Fds(fds) });
            prop_assert_eq!(IpcHandle::decode(&handle.encode()), Ok(handle));
        }
    }
}
