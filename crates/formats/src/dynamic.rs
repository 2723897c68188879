//! What a program asks of the dynamic loader, as far as it decides how the
//! program may be run. Pure; read through the segments, as the loader does,
//! because stripping may remove the sections.

use object::{
    Endianness,
    elf::{DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRTAB, PT_LOAD, ProgramHeader64},
    read::elf::{Dyn, ProgramHeader},
};

/// Bytes of a library's name (`PATH_MAX`), and of a list of folders.
const MOST_NAME: usize = 4096;
const MOST_LIST: usize = 64 << 10;
/// Libraries of one program.
const MOST_NEEDED: usize = 4096;

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
        let text = |at: u64, most: usize| {
            let from = strings.get(usize::try_from(at).ok()?..)?;
            let from = &from[..from.len().min(most)];
            let text = from.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        // Many entries may name one long text, so their number and its length are bounded.
        let needed = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
        let needed = needed
            .take(MOST_NEEDED)
            .filter_map(|(_, at)| text(*at, MOST_NAME));
        // The loader follows the last one of each kind.
        let run_paths = [DT_RPATH, DT_RUNPATH].into_iter();
        let run_paths = run_paths.filter_map(|kind| {
            let (_, at) = entries.iter().rfind(|(tag, _)| *tag == kind)?;
            text(*at, MOST_LIST)
        });
        Dynamic {
            needed: needed.collect(),
            run_paths: run_paths.collect(),
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
    use crate::segments::{PT_DYNAMIC, Segment};
    use object::read::elf::{ElfFile64, FileHeader};

    /// What the loader reads of a file with such entries and strings.
    fn dynamic(entries: &[(u64, u64)], strings: &[u8]) -> Dynamic {
        const HEADERS: u64 = 64 + 2 * 56;
        let table: Vec<u8> = entries
            .iter()
            .chain(&[(5, HEADERS + 16 * (entries.len() as u64 + 2)), (0, 0)])
            .flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat())
            .collect();
        let size = HEADERS + (table.len() + strings.len()) as u64;
        let segment = |kind, offset, file_size| Segment {
            kind,
            flags: 4,
            offset,
            address: offset,
            file_size,
            memory_size: file_size,
            align: 8,
        };
        let mut file = vec![0; 64];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        for (at, value) in [
            (16, 3),
            (18, 62),
            (20, 1),
            (32, 64),
            (52, 64),
            (54, 56),
            (56, 2),
        ] {
            file[at] = value;
        }
        file.extend(segment(object::elf::PT_LOAD.0, 0, size).write());
        file.extend(segment(PT_DYNAMIC, HEADERS, table.len() as u64).write());
        file.extend(table);
        file.extend(strings);
        let elf = ElfFile64::<Endianness>::parse(&*file).expect("an ELF file");
        let segments = elf.elf_header().program_headers(elf.endian(), &*file);
        Dynamic::read(segments.expect("segments"), elf.endian(), &file)
    }

    #[test]
    fn names_are_read_and_the_last_run_path_counts() {
        const NEEDED: u64 = 1;
        const RUN_PATH: u64 = 29;
        let strings = b"\0liba.so\0$ORIGIN/lib\0/opt/lib\0";
        let entries = [
            (NEEDED, 1),
            (RUN_PATH, 9),
            (RUN_PATH, 21),
            (NEEDED, 1 << 40),
        ];
        let read = dynamic(&entries, strings);
        assert_eq!(read.needed, ["liba.so"]);
        assert_eq!(read.run_paths, ["/opt/lib"]);
        assert_eq!(read.bound_to_its_folder(), None);
        let read = dynamic(&entries[..2], strings);
        assert_eq!(read.bound_to_its_folder(), Some("$ORIGIN/lib"));
    }

    /// A megabyte each would come to a terabyte.
    #[test]
    fn a_million_entries_with_one_long_name_cost_little() {
        let strings = vec![b'a'; 1 << 20];
        let entries: Vec<_> = (0..1 << 20).map(|at| (1 + 14 * (at & 1), at)).collect();
        let read = dynamic(&entries, &strings);
        assert_eq!(read.needed.len(), MOST_NEEDED);
        assert_eq!(read.run_paths.len(), 1);
        assert!(read.needed.iter().all(|name| name.len() <= MOST_NAME));
    }

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
