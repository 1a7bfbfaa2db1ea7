//! How memory can leave the process: decided at the first handle that is made (R4.33, C47).

use millpond_driver::{Code, Device, Driver, Handle, HandleProps, HandleType, Location};

use crate::error::{At, Error, Result, Step};

/// How the memory of a buffer can be shared with other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Not at all.
    #[default]
    Never,
    /// As file descriptors, within one machine.
    PosixFd,
    /// As fabric handles, between machines too.
    Fabric,
    /// As fabric handles if the device has them and makes one, else as file descriptors.
    Any,
}

/// The choice of a buffer: open until the first handle is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    wanted: Sharing,
    decided: Option<HandleType>,
}

impl Choice {
    pub fn new(wanted: Sharing) -> Self {
        let decided = match wanted {
            Sharing::Never => Some(HandleType::None),
            Sharing::PosixFd => Some(HandleType::PosixFd),
            Sharing::Fabric => Some(HandleType::Fabric),
            Sharing::Any => None,
        };
        Choice { wanted, decided }
    }

    /// What handles are made as, once that is known.
    pub fn decided(self) -> Option<HandleType> {
        self.decided
    }

    /// Refuses at once what the device is known not to do.
    pub fn check(self, driver: &dyn Driver, device: Device) -> Result<()> {
        let caps = driver.caps(device).at(Step::Ask)?;
        let what = match self.wanted {
            Sharing::PosixFd if !caps.posix_fd => "file descriptors",
            Sharing::Fabric if !caps.fabric => "fabric handles",
            Sharing::Any if !caps.posix_fd && !caps.fabric => "memory at all",
            _ => return Ok(()),
        };
        Err(Error::NotExportable { device, what })
    }

    /// Creates a handle. Only a refusal of the *handle type* makes an open choice fall back from fabric handles to file
    /// descriptors; running out of memory, say, does not (C47).
    pub fn create(&mut self, driver: &dyn Driver, device: Device, bytes: u64, location: Location) -> Result<Handle> {
        let caps = driver.caps(device).at(Step::Ask)?;
        let on_device = matches!(location, Location::Device(_));
        let props = |handle_type| HandleProps { location, handle_type, rdma: caps.rdma_with_vmm && on_device };
        let handle_type = match self.decided {
            Some(handle_type) => handle_type,
            None if caps.fabric => match driver.mem_create(bytes, props(HandleType::Fabric)) {
                Err(error)
                    if matches!(error.code, Code::ERROR_NOT_SUPPORTED | Code::ERROR_NOT_PERMITTED) && caps.posix_fd =>
                {
                    HandleType::PosixFd
                }
                made => {
                    let made = made.at(Step::Create)?;
                    self.decided = Some(HandleType::Fabric);
                    return Ok(made);
                }
            },
            None => HandleType::PosixFd,
        };
        let made = driver.mem_create(bytes, props(handle_type)).at(Step::Create)?;
        self.decided = Some(handle_type);
        Ok(made)
    }
}
