//! The synchronisation functions of the C libraries: one row a function, with
//! everything that anybody must know of it.
//!
//! The slicer reads from it which calls synchronise, the instrumenter which
//! argument a hook records and where threads start. Code inside a program can
//! read it too: there is no `std` here, no allocation, and no dependency.
//!
//! An [`Operation`] is not a word of the wire; `sketch_model::SyncOp` is, and the
//! slicer says which one each operation becomes. So a row may be added, and even
//! an operation, without a new wire format.
//!
//! Deliberately absent: making and destroying locks, which order nothing; the
//! classes of the C++ library, whose locks call the functions here and whose
//! `condition_variable` and `thread` do not.

#![no_std]

/// What a function does to the order of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    MutexLock,
    MutexUnlock,
    ReadLock,
    WriteLock,
    ReadWriteUnlock,
    SemaphoreWait,
    SemaphorePost,
    BarrierWait,
    ThreadCreate,
    ThreadJoin,
    CondWait,
    CondSignal,
}

/// Whether a call may have to wait for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blocks {
    Never,
    /// Until it can be done.
    Always,
    /// It does not wait: what cannot be done at once fails.
    Try,
    /// Until it can be done, or a point in time that is an argument.
    Until,
}

/// What a call returns if the operation was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Success {
    /// Zero; anything else is an error, and nothing was done.
    ReturnsZero,
    /// Zero, or -1 in the one thread that a barrier chooses.
    ReturnsZeroOrMinusOne,
}

impl Success {
    /// Whether a call that returned this did what it is for.
    pub const fn is(self, returned: i32) -> bool {
        match self {
            Success::ReturnsZero => returned == 0,
            Success::ReturnsZeroOrMinusOne => returned == 0 || returned == -1,
        }
    }
}

/// A synchronisation function. Arguments are counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFunction {
    pub name: &'static str,
    /// The symbol version that programs of today use, where the C library also
    /// has an older function of the name that is not compatible with it.
    pub version: Option<&'static str>,
    pub operation: Operation,
    /// The argument that says which lock, condition, semaphore or thread.
    pub object: u8,
    /// The argument that is the mutex which a wait releases and takes again.
    pub also_releases: Option<u8>,
    /// The argument that is the new thread's routine.
    pub starts: Option<u8>,
    pub blocks: Blocks,
    pub success: Success,
}

/// Most functions: the object is the first argument, and zero is success.
const fn row(name: &'static str, operation: Operation, blocks: Blocks) -> SyncFunction {
    SyncFunction {
        name,
        version: None,
        operation,
        object: 0,
        also_releases: None,
        starts: None,
        blocks,
        success: Success::ReturnsZero,
    }
}

/// A wait for a condition releases the mutex that is its second argument.
const fn wait(name: &'static str, blocks: Blocks) -> SyncFunction {
    SyncFunction {
        also_releases: Some(1),
        ..row(name, Operation::CondWait, blocks)
    }
}

/// Conditions changed their layout in glibc 2.3.2.
const fn relaid(function: SyncFunction) -> SyncFunction {
    SyncFunction {
        version: Some("GLIBC_2.3.2"),
        ..function
    }
}

const fn starting(name: &'static str, routine: u8) -> SyncFunction {
    SyncFunction {
        starts: Some(routine),
        ..row(name, Operation::ThreadCreate, Blocks::Never)
    }
}

use Blocks::{Always, Never, Try, Until};
use Operation::*;

/// All functions that are known, each once.
#[rustfmt::skip]
pub static SYNC_FUNCTIONS: &[SyncFunction] = &[
    row("pthread_mutex_lock", MutexLock, Always),
    row("pthread_mutex_trylock", MutexLock, Try),
    row("pthread_mutex_timedlock", MutexLock, Until),
    row("pthread_mutex_unlock", MutexUnlock, Never),
    row("mtx_lock", MutexLock, Always),
    row("mtx_trylock", MutexLock, Try),
    row("mtx_timedlock", MutexLock, Until),
    row("mtx_unlock", MutexUnlock, Never),
    row("pthread_spin_lock", MutexLock, Always),
    row("pthread_spin_trylock", MutexLock, Try),
    row("pthread_spin_unlock", MutexUnlock, Never),
    row("pthread_rwlock_rdlock", ReadLock, Always),
    row("pthread_rwlock_tryrdlock", ReadLock, Try),
    row("pthread_rwlock_timedrdlock", ReadLock, Until),
    row("pthread_rwlock_wrlock", WriteLock, Always),
    row("pthread_rwlock_trywrlock", WriteLock, Try),
    row("pthread_rwlock_timedwrlock", WriteLock, Until),
    row("pthread_rwlock_unlock", ReadWriteUnlock, Never),
    row("sem_wait", SemaphoreWait, Always),
    row("sem_trywait", SemaphoreWait, Try),
    row("sem_timedwait", SemaphoreWait, Until),
    row("sem_post", SemaphorePost, Never),
    SyncFunction { success: Success::ReturnsZeroOrMinusOne, ..row("pthread_barrier_wait", BarrierWait, Always) },
    starting("pthread_create", 2),
    starting("thrd_create", 1),
    row("pthread_join", ThreadJoin, Always),
    row("pthread_tryjoin_np", ThreadJoin, Try),
    row("pthread_timedjoin_np", ThreadJoin, Until),
    row("thrd_join", ThreadJoin, Always),
    relaid(wait("pthread_cond_wait", Always)),
    relaid(wait("pthread_cond_timedwait", Until)),
    relaid(row("pthread_cond_signal", CondSignal, Never)),
    relaid(row("pthread_cond_broadcast", CondSignal, Never)),
    wait("cnd_wait", Always),
    wait("cnd_timedwait", Until),
    row("cnd_signal", CondSignal, Never),
    row("cnd_broadcast", CondSignal, Never),
];

/// The function of a name, if it synchronises.
pub fn named(name: &str) -> Option<&'static SyncFunction> {
    SYNC_FUNCTIONS.iter().find(|known| known.name == name)
}

/// The names of all functions that do this.
pub fn names_of(operation: Operation) -> impl Iterator<Item = &'static str> {
    let known = SYNC_FUNCTIONS.iter();
    known
        .filter(move |known| known.operation == operation)
        .map(|known| known.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_one_row() {
        for (number, function) in SYNC_FUNCTIONS.iter().enumerate() {
            let first = SYNC_FUNCTIONS.iter().position(|f| f.name == function.name);
            assert_eq!(first, Some(number), "{} has two rows", function.name);
        }
    }

    #[test]
    fn names_say_how_long_a_function_waits() {
        for function in SYNC_FUNCTIONS {
            let expected = if function.name.contains("_try") {
                Blocks::Try
            } else if function.name.contains("timed") || function.name.contains("_clock") {
                Blocks::Until
            } else {
                continue;
            };
            assert_eq!(function.blocks, expected, "{}", function.name);
        }
    }

    #[test]
    fn waits_for_conditions_release_a_mutex_and_creations_start_a_routine() {
        for function in SYNC_FUNCTIONS {
            let waits = function.operation == Operation::CondWait;
            let creates = function.operation == Operation::ThreadCreate;
            assert_eq!(function.also_releases.is_some(), waits, "{function:?}");
            assert_eq!(function.starts.is_some(), creates, "{function:?}");
            assert_ne!(function.also_releases, Some(function.object));
        }
    }

    #[test]
    fn a_failed_attempt_is_no_success() {
        const EBUSY: i32 = 16;
        let attempt = named("pthread_mutex_trylock").expect("a row");
        assert!(attempt.success.is(0) && !attempt.success.is(EBUSY));
        let barrier = named("pthread_barrier_wait").expect("a row");
        assert!(barrier.success.is(-1) && !barrier.success.is(EBUSY));
        assert_eq!(named("pthread_mutex_init"), None);
    }

    #[test]
    fn conditions_have_the_version_that_is_not_the_oldest() {
        for name in names_of(Operation::CondWait).chain(names_of(Operation::CondSignal)) {
            let version = named(name).and_then(|function| function.version);
            assert_eq!(version.is_some(), name.starts_with("pthread_"), "{name}");
        }
    }
}
