//! Functions of ours that stand in front of another object's functions of the same name.
//!
//! One row of [`interpose!`](crate::interpose!) is one function: what the next definition is called with,
//! what is done before and after, and what to answer if there is no next definition.
//! The exported name is unversioned: the loader takes it for a reference to any version.
//! Which version of the next definition is called can be said in the row, for functions
//! that have several.
//!
//! Deliberately absent: `errno`. Nothing here touches it, so after the call it is what the
//! next definition left.

use crate::next_symbol;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Looked for, and not there.
const NONE: usize = 1;

/// The next definition of a function, found at the first call.
pub struct Next(AtomicUsize);

impl Next {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Next {
        Next(AtomicUsize::new(0))
    }

    /// The address that `search` finds, once; `None` if it finds none.
    #[inline(always)]
    pub fn find(&self, search: impl FnOnce() -> Option<usize>) -> Option<usize> {
        let mut address = self.0.load(Ordering::Relaxed);
        if address == 0 {
            // Two threads that search at once find the same.
            address = search().unwrap_or(NONE);
            self.0.store(address, Ordering::Relaxed);
        }
        (address != NONE).then_some(address)
    }

    /// The next definition of `name` after ours; of its default version if none is given.
    #[inline(always)]
    pub fn named(&self, name: &str, version: Option<&str>) -> Option<usize> {
        self.find(|| next_symbol::next(name, version).map(|found| found.address))
    }
}

/// Exports functions that do something before and after the next definition of their name.
///
/// A row reads `fn name(arguments) -> result, or { answer without a next definition }`,
/// then optionally `version "…"`, `before { … }` and `after { … }`; these see the arguments,
/// and `after(answer) { … }` what the function answered.
#[macro_export]
macro_rules! interpose {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty, or $absent:block
        $(version $version:literal)?
        $(before $before:block)?
        $(after $(($answer:ident))? $after:block)?
    )*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// As the function of this name that comes next.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            static NEXT: $crate::interpose::Next = $crate::interpose::Next::new();
            const VERSION: Option<&str> = $crate::interpose!(@version $($version)?);
            let Some(address) = NEXT.named(stringify!($name), VERSION) else {
                return $absent;
            };
            $($before)?
            // SAFETY: a function of this name has this signature; the arguments are the
            // caller's, and so is the promise that they are right.
            let result = unsafe {
                core::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> $result>(address)(
                    $($argument),*
                )
            };
            $($(let $answer = result;)? $after)?
            result
        }
    )*};
    (@version $version:literal) => { Some($version) };
    (@version) => { None };
}
