//! The locks and atomics on which threads meet, under one name each.
//!
//! They are std's and `spin`'s. Under `cfg(loom)` they are loom's, and `tests/loom_*.rs` try every order in which threads can
//! meet on them. Under `cfg(tsan)` all locks spin: ThreadSanitizer cannot see into std, where a mutex waits. What no two threads
//! race for (settings, the books of the host cache) stays std's.

#[cfg(not(any(loom, tsan)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(tsan)]
pub(crate) use spinning::{Mutex, MutexGuard};

#[cfg(not(loom))]
mod locks {
    pub(crate) use std::sync::atomic;

    /// A pool's lock: held for tens of nanoseconds and never over a driver call, so waiters spin and then yield.
    pub(crate) type SpinLock<T> = spin::mutex::SpinMutex<T, spin::Yield>;
    pub(crate) type SpinGuard<'a, T> = spin::mutex::SpinMutexGuard<'a, T>;
}

/// A mutex of `spin` with the face of std's.
#[cfg(tsan)]
mod spinning {
    use std::sync::{LockResult, TryLockError, TryLockResult};

    pub(crate) type MutexGuard<'a, T> = super::SpinGuard<'a, T>;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(super::SpinLock<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Mutex(super::SpinLock::new(value))
        }

        pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            Ok(self.0.lock())
        }

        pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            self.0.try_lock().ok_or(TryLockError::WouldBlock)
        }
    }
}

#[cfg(loom)]
mod locks {
    pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};

    pub(crate) type SpinGuard<'a, T> = MutexGuard<'a, T>;

    /// Loom decides who waits, so a lock that spins is modelled as one that sleeps.
    #[derive(Debug)]
    pub(crate) struct SpinLock<T>(Mutex<T>);

    impl<T> SpinLock<T> {
        pub fn new(value: T) -> Self {
            SpinLock(Mutex::new(value))
        }

        pub fn lock(&self) -> SpinGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

pub(crate) use locks::*;
