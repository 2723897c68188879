//! The next definition is the one that the loader would give.

use inprocess_base::next_symbol::next;
use std::ffi::{CString, c_char, c_void};

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

fn address(name: &str, version: Option<&str>) -> usize {
    next(name, version).map_or(0, |found| found.address)
}

fn by_the_loader(name: &str, version: &str) -> usize {
    let (name, version) = (CString::new(name).unwrap(), CString::new(version).unwrap());
    // SAFETY: both are zero-terminated.
    unsafe { dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) as usize }
}

#[test]
fn a_function_of_several_versions_is_found_by_its_version() {
    let name = "pthread_cond_wait";
    let (old, new) = ("GLIBC_2.2.5", "GLIBC_2.3.2");
    assert_ne!(address(name, Some(old)), 0);
    assert_eq!(address(name, Some(old)), by_the_loader(name, old));
    assert_eq!(address(name, Some(new)), by_the_loader(name, new));
    assert_ne!(address(name, Some(old)), address(name, Some(new)));
}

#[test]
fn without_a_version_it_is_the_default_one() {
    let name = "pthread_cond_wait";
    assert_eq!(address(name, None), address(name, Some("GLIBC_2.3.2")));
    for name in ["free", "realloc", "munmap", "sigaction", "signal", "sigset"] {
        assert_ne!(address(name, None), 0, "{name}");
        assert_eq!(
            address(name, None),
            by_the_loader(name, "GLIBC_2.2.5"),
            "{name}"
        );
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    assert!(next("failsketch_no_such_function", None).is_none());
    assert!(next("free", Some("GLIBC_9.9")).is_none());
    // A variable is no function.
    assert!(next("environ", None).is_none());
}
