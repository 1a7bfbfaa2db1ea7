//! The log of memory calls.

use millpond_driver::Code;

use crate::calls::CallKind;

/// A logged call: every call that changes memory or addresses, failed ones too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which call.
    pub kind: CallKind,
    /// The address; 0 for [`CallKind::Create`], [`CallKind::Release`], and where an allocation failed.
    pub addr: u64,
    /// Bytes as asked, not rounded; 0 for [`CallKind::Free`].
    pub size: u64,
    /// The error, if it failed.
    pub code: Option<Code>,
}
