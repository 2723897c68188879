//! The environment of the command: the agent's own, plus what activates the
//! runtime. The runtime takes its additions out again before `main`, so order
//! matters: what is left must be exactly what was there.

use inprocess_layout::{ACTIVATION_VARIABLE, PRELOAD_WAS_VARIABLE};
use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// The entries of this process's environment, malformed ones included.
pub fn own() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: the array is null-terminated and its strings zero-terminated; the
    // agent never changes its environment.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(CStr::from_ptr(*at).to_owned());
            at = at.add(1);
        }
    }
    entries
}

/// A path that LD_PRELOAD can express: it splits at colons and spaces.
pub fn can_preload(path: &Path) -> bool {
    !path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| *byte == b':' || byte.is_ascii_whitespace())
}

/// The libraries that the environment preloads already.
pub fn preloaded(own: &[CString]) -> Vec<String> {
    own.iter()
        .filter_map(|entry| entry.as_bytes().strip_prefix(PRELOAD))
        .flat_map(|value| value.split(|byte| *byte == b':' || byte.is_ascii_whitespace()))
        .map(|library| String::from_utf8_lossy(library).into_owned())
        .collect()
}

/// Adds the activation and, for an untouched program, the preload.
pub fn activated(own: &[CString], activation: &str, preload: Option<&Path>) -> Vec<CString> {
    let mut entries = own.to_vec();
    // Everything appended comes from bytes without zeros.
    let append = |entries: &mut Vec<CString>, bytes: Vec<u8>| {
        entries.extend(CString::new(bytes));
    };
    if let Some(preload) = preload {
        let path = preload.as_os_str().as_bytes();
        let was = entries
            .iter_mut()
            .find(|entry| entry.as_bytes().starts_with(PRELOAD));
        match was {
            Some(entry) => {
                let value = entry.as_bytes()[PRELOAD.len()..].to_vec();
                if let Ok(new) = CString::new([PRELOAD, path, b":", &value].concat()) {
                    *entry = new;
                }
                let name = PRELOAD_WAS_VARIABLE.as_bytes();
                append(&mut entries, [name, b"=", &value].concat());
            }
            None => append(&mut entries, [PRELOAD, path].concat()),
        }
    }
    append(
        &mut entries,
        format!("{ACTIVATION_VARIABLE}={activation}").into_bytes(),
    );
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(entries: &[CString]) -> Vec<&str> {
        entries.iter().map(|e| e.to_str().unwrap_or("")).collect()
    }

    #[test]
    fn an_own_preload_keeps_its_place_and_is_remembered() {
        let own = [c"A=1", c"LD_PRELOAD=/x.so /y.so", c"B=2"].map(CStr::to_owned);
        assert_eq!(
            texts(&activated(&own, "7:0", Some(Path::new("/cache/r.so")))),
            [
                "A=1",
                "LD_PRELOAD=/cache/r.so:/x.so /y.so",
                "B=2",
                "FAILSKETCH_PRELOAD_WAS=/x.so /y.so",
                "FAILSKETCH_FD=7:0"
            ]
        );
    }

    #[test]
    fn a_tracked_build_needs_no_preload() {
        let own = [c"A=1"].map(CStr::to_owned);
        assert_eq!(
            texts(&activated(&own, "7:0", None)),
            ["A=1", "FAILSKETCH_FD=7:0"]
        );
        assert_eq!(
            texts(&activated(&own, "7:0", Some(Path::new("/r.so")))),
            ["A=1", "LD_PRELOAD=/r.so", "FAILSKETCH_FD=7:0"]
        );
    }
}
