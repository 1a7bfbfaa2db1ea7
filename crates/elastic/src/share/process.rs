//! File descriptors of another process, by its id (R4.36).

use std::os::fd::OwnedFd;

/// Another process does not give up its file descriptors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The kernel is too old.
    #[error(
        "this kernel has no pidfd_open or pidfd_getfd (Linux 5.6 and newer), by which memory of expandable segments is shared; \
         set expandable_segments:False in the sharing process"
    )]
    NoPidfd,
    /// The process is not there.
    #[error("process {pid}, which shared the memory, is gone")]
    Gone {
        /// Its id.
        pid: i32,
    },
    /// The process may not be looked into.
    #[error(
        "pidfd_getfd of process {pid} was denied: it needs the right to trace that process (same user, and ptrace_scope 0 or \
         PR_SET_PTRACER); send the handles over a socket instead"
    )]
    Denied {
        /// Its id.
        pid: i32,
    },
    /// The descriptor is closed there.
    #[error("file descriptor {fd} of process {pid} is closed: the shared memory was given back")]
    Closed {
        /// The process.
        pid: i32,
        /// The number there.
        fd: i32,
    },
    /// Anything else.
    #[error("file descriptor {fd} of process {pid} could not be had: {source}")]
    Other {
        /// The process.
        pid: i32,
        /// The number there.
        fd: i32,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Copies of file descriptors of process `pid`.
#[cfg(target_os = "linux")]
pub(super) fn fds_of(pid: i32, numbers: &[i32]) -> Result<Vec<OwnedFd>, ProcessError> {
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    let gone = ProcessError::Gone { pid };
    // Only positive numbers are processes.
    let Some(process) = (pid > 0).then(|| Pid::from_raw(pid)).flatten() else { return Err(gone) };
    let process = match pidfd_open(process, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::NOSYS) => return Err(ProcessError::NoPidfd),
        Err(Errno::SRCH | Errno::INVAL) => return Err(gone),
        Err(error) => return Err(ProcessError::Other { pid, fd: -1, source: error.into() }),
    };
    let copy = |&fd: &i32| match pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()) {
        Ok(copy) => Ok(copy),
        Err(Errno::NOSYS) => Err(ProcessError::NoPidfd),
        Err(Errno::SRCH) => Err(ProcessError::Gone { pid }),
        Err(Errno::PERM) => Err(ProcessError::Denied { pid }),
        Err(Errno::BADF) => Err(ProcessError::Closed { pid, fd }),
        Err(error) => Err(ProcessError::Other { pid, fd, source: error.into() }),
    };
    numbers.iter().map(copy).collect()
}

/// Copies of file descriptors of process `pid`: this system has none to give.
#[cfg(not(target_os = "linux"))]
pub(super) fn fds_of(_pid: i32, _numbers: &[i32]) -> Result<Vec<OwnedFd>, ProcessError> {
    Err(ProcessError::NoPidfd)
}
