//! Windows: stretches of a file's code to which the trace is limited, in the
//! language of the kernel's address filters (`perf_event_open(2)`,
//! `PERF_EVENT_IOC_SET_FILTER`). The kernel finds out where the file is mapped.
//!
//! A trace of the program's own code alone reaches further back in the same
//! buffer than one that holds the C library's loops as well.

use formats::elf::CodeSegment;
use std::{ffi::CString, fmt::Write, path::Path};

/// A stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub path: String,
    pub offset: u64,
    pub length: u64,
}

impl Window {
    /// The code of a file.
    pub fn of_code(path: &Path, code: &[CodeSegment]) -> Vec<Window> {
        let path = path.to_string_lossy();
        let window = |segment: &CodeSegment| Window {
            path: path.clone().into_owned(),
            offset: segment.file_offset,
            length: segment.file_size,
        };
        code.iter().map(window).collect()
    }
}

/// The filter for these windows, or why everything must be traced.
pub fn filter(windows: &[Window], most: usize) -> Result<CString, String> {
    if windows.len() > most {
        return Err(format!(
            "the processor can trace {most} windows, and the program's code has {}",
            windows.len()
        ));
    }
    let mut text = String::new();
    for window in windows {
        let Window {
            path,
            offset,
            length,
        } = window;
        // The kernel splits at these, and knows no quotes.
        if !path.starts_with('/') || path.contains([' ', ',', '\n']) {
            return Err(format!("the path {path} cannot be expressed in a filter"));
        }
        if !text.is_empty() {
            text.push(' ');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "filter {offset:#x}/{length:#x}@{path}");
    }
    CString::new(text).map_err(|_| "a path has a null byte".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(path: &str, offset: u64) -> Window {
        Window {
            path: path.into(),
            offset,
            length: 0x234,
        }
    }

    #[test]
    fn windows_are_written_as_the_kernel_reads_them() {
        let code = CodeSegment {
            file_offset: 0x1000,
            file_size: 0x234,
            address: 0x40_1000,
        };
        let windows = Window::of_code(Path::new("/usr/bin/a"), &[code]);
        assert_eq!(windows, [window("/usr/bin/a", 0x1000)]);
        let two = [window("/usr/bin/a", 0x1000), window("/b", 0)];
        assert_eq!(
            filter(&two, 2).unwrap().to_str(),
            Ok("filter 0x1000/0x234@/usr/bin/a filter 0x0/0x234@/b")
        );
    }

    #[test]
    fn what_the_kernel_could_not_read_is_refused() {
        let refusal = |path: &str| filter(&[window(path, 0)], 1).unwrap_err();
        for path in ["/a b", "/a,b", "a", "/a\nb"] {
            let expected = format!("the path {path} cannot be expressed in a filter");
            assert_eq!(refusal(path), expected);
        }
        assert_eq!(refusal("/a\0b"), "a path has a null byte");
        assert_eq!(
            filter(&[window("/a", 0)], 0).unwrap_err(),
            "the processor can trace 0 windows, and the program's code has 1"
        );
    }
}
