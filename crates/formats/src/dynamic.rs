//! What a program asks of the dynamic loader, as far as it decides how the
//! program may be run. Pure; read through the segments, as the loader does,
//! because stripping may remove the sections.

use object::{
    Endianness,
    elf::{DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRTAB, PT_LOAD, ProgramHeader64},
    read::elf::{Dyn, ProgramHeader},
};

/// Names in the dynamic section; empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// Libraries.
    pub needed: Vec<String>,
    /// Where to look for them first.
    pub run_paths: Vec<String>,
}

impl Dynamic {
    pub fn read(
        segments: &[ProgramHeader64<Endianness>],
        endian: Endianness,
        bytes: &[u8],
    ) -> Dynamic {
        let entries: Vec<_> = segments
            .iter()
            .find_map(|segment| segment.dynamic(endian, bytes).ok().flatten())
            .unwrap_or_default()
            .iter()
            .map(|entry| (entry.d_tag(endian), entry.d_val(endian)))
            .take_while(|(tag, _)| *tag != DT_NULL)
            .collect();
        let strings = entries
            .iter()
            .find(|(tag, _)| *tag == DT_STRTAB)
            .and_then(|(_, address)| {
                let (offset, size) = segments.iter().find_map(|segment| {
                    let inside = address.checked_sub(segment.p_vaddr(endian))?;
                    let rest = segment.p_filesz(endian).checked_sub(inside)?;
                    (segment.p_type(endian) == PT_LOAD)
                        .then_some((segment.p_offset(endian).checked_add(inside)?, rest))
                })?;
                let from = bytes.get(usize::try_from(offset).ok()?..)?;
                Some(&from[..from.len().min(usize::try_from(size).ok()?)])
            })
            .unwrap_or_default();
        let named = |wanted: &[object::elf::DynamicTag]| {
            entries
                .iter()
                .filter(|(tag, _)| wanted.contains(tag))
                .filter_map(|(_, at)| {
                    let from = strings.get(usize::try_from(*at).ok()?..)?;
                    let name = from.split(|byte| *byte == 0).next()?;
                    Some(String::from_utf8_lossy(name).into_owned())
                })
                .collect()
        };
        Dynamic {
            needed: named(&[DT_NEEDED]),
            run_paths: named(&[DT_RPATH, DT_RUNPATH]),
        }
    }

    /// A name that depends on the folder the program lies in: a build in memory
    /// lies in none, and would not find its libraries.
    pub fn bound_to_its_folder(&self) -> Option<&str> {
        self.run_paths
            .iter()
            .chain(&self.needed)
            .find(|name| name.contains("$ORIGIN") || name.contains("${ORIGIN}"))
            .map(String::as_str)
    }

    /// A sanitizer that is a library.
    pub fn sanitizer(&self) -> Option<&str> {
        self.needed
            .iter()
            .map(String::as_str)
            .find(|name| is_sanitizer(name))
    }
}

/// Whether a library is a sanitizer's runtime: these insist on being the first
/// library of the process and end it when another is preloaded before them.
pub fn is_sanitizer(library: &str) -> bool {
    let name = library.rsplit('/').next().unwrap_or(library);
    let Some(name) = name.strip_prefix("lib") else {
        return false;
    };
    let name = name.strip_prefix("clang_rt.").unwrap_or(name);
    ["asan", "hwasan", "tsan", "msan", "lsan", "memprof"]
        .iter()
        .any(|sanitizer| name.starts_with(sanitizer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitizers_of_both_compilers_are_recognised() {
        for library in [
            "libasan.so.8",
            "/usr/lib/x/libtsan.so.2",
            "libclang_rt.asan-x86_64.so",
        ] {
            assert!(is_sanitizer(library), "{library}");
        }
        for library in [
            "libc.so.6",
            "libsan.so",
            "asan",
            "/opt/libasan/libfoo.so",
            "",
        ] {
            assert!(!is_sanitizer(library), "{library}");
        }
    }
}
