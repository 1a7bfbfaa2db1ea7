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

    pub(crate) type SpinGuard<'a, T> = spin::mutex::SpinMutexGuard<'a, T>;

    /// A pool's lock: held for tens of nanoseconds and never over a driver call, so waiters spin, ever longer between two looks,
    /// and then yield. While they do not look, whoever has the lock keeps its lines, and can take it again and again.
    #[derive(Debug, Default)]
    pub(crate) struct SpinLock<T>(spin::mutex::SpinMutex<T>);

    impl<T> SpinLock<T> {
        /// The longest wait between two looks, in pauses of the processor (some 40 ns each).
        const LONGEST: u32 = 64;

        pub fn new(value: T) -> Self {
            SpinLock(spin::mutex::SpinMutex::new(value))
        }

        #[inline]
        pub fn lock(&self) -> SpinGuard<'_, T> {
            self.try_lock().unwrap_or_else(|| self.wait())
        }

        #[inline]
        pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
            self.0.try_lock()
        }

        #[cold]
        fn wait(&self) -> SpinGuard<'_, T> {
            let mut pauses = 1;
            loop {
                (0..pauses).for_each(|_| std::hint::spin_loop());
                if !self.0.is_locked()
                    && let Some(guard) = self.0.try_lock()
                {
                    return guard;
                }
                if pauses < Self::LONGEST {
                    pauses *= 2;
                } else {
                    // Whoever has it may be waiting for this processor.
                    std::thread::yield_now();
                }
            }
        }
    }
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
