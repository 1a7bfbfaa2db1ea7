//! The history.

use std::ffi::c_char;

use millpond::{Action, HistoryOptions, Level};

use crate::allocator::{mp_allocator, with};
use crate::pointer;
use crate::status::{Failure, mp_status};

/// Stacks are kept nowhere.
pub const MP_LEVEL_NEVER: u32 = 0;
/// Stacks are kept on live blocks.
pub const MP_LEVEL_STATE: u32 = 1;
/// Stacks are kept also in trace entries.
pub const MP_LEVEL_ALLOC: u32 = 2;
/// Stacks are kept also for frees.
pub const MP_LEVEL_ALL: u32 = 3;

/// What a history records.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mp_history_options {
    /// When stacks are kept: one of MP_LEVEL_…
    pub level: u32,
    /// The most entries kept; at least 1.
    pub max_entries: usize,
    /// Whether what was recorded so far is dropped.
    pub clear: bool,
    /// Whether entries carry the enclosing compiled region.
    pub compile_context: bool,
    /// Names of actions that are not stored ("free_requested"); observers still see them.
    pub skip_actions: *const *const c_char,
    /// How many names.
    pub skip_count: usize,
}

const ACTIONS: [Action; 10] = [
    Action::Alloc,
    Action::FreeRequested,
    Action::FreeCompleted,
    Action::SegmentAlloc,
    Action::SegmentFree,
    Action::SegmentMap,
    Action::SegmentUnmap,
    Action::Oom,
    Action::Snapshot,
    Action::Annotate,
];

/// Starts or changes the history; NULL stops and clears it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_record_history(
    allocator: *const mp_allocator,
    options: *const mp_history_options,
) -> mp_status {
    // SAFETY: as the header documents.
    unsafe {
        with(allocator, |this| {
            let Some(options) = options.as_ref() else {
                this.allocator.record_history(None);
                return Ok(());
            };
            let level = match options.level {
                MP_LEVEL_NEVER => Level::Never,
                MP_LEVEL_STATE => Level::State,
                MP_LEVEL_ALLOC => Level::Alloc,
                MP_LEVEL_ALL => Level::All,
                _ => return Err(Failure::Argument { argument: "options->level", why: "is none of MP_LEVEL_…" }),
            };
            let mut skip_actions = Vec::new();
            for &name in pointer::list(options.skip_actions, options.skip_count, "options->skip_actions")? {
                let name = pointer::string(name, "options->skip_actions[]")?;
                let why = "names no action";
                let unknown = Failure::Argument { argument: "options->skip_actions[]", why };
                skip_actions.push(ACTIONS.into_iter().find(|action| action.name() == name).ok_or(unknown)?);
            }
            this.allocator.record_history(Some(HistoryOptions {
                level,
                max_entries: options.max_entries,
                clear: options.clear,
                compile_context: options.compile_context,
                skip_actions,
            }));
            Ok(())
        })
    }
}

/// Whether a history is kept; false for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_is_history_enabled(allocator: *const mp_allocator) -> bool {
    // SAFETY: as the header documents.
    unsafe { allocator.as_ref() }.is_some_and(|this| this.allocator.is_history_enabled())
}

/// The token of the stack that allocated the live block at `addr`; 0 if there is none. It is valid as long as the block
/// lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_allocation_stack(allocator: *const mp_allocator, addr: u64) -> u64 {
    // SAFETY: as the header documents.
    let stack = unsafe { allocator.as_ref() }.and_then(|this| this.allocator.allocation_stack(addr));
    stack.as_deref().map_or(0, crate::stacks::token)
}
