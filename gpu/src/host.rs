//! The host's side of page-locked memory.

/// Bytes of host memory that the driver made.
pub fn read(addr: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let from: *const u8 = std::ptr::with_exposed_provenance(addr as usize);
    // SAFETY: the checks read host memory that the driver has made, inside of its bounds, while nobody writes.
    unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
    bytes
}

/// Writes host memory that the driver made.
pub fn write(addr: u64, bytes: &[u8]) {
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(addr as usize);
    // SAFETY: as above.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}
