//! The text of `/proc/PID/maps` → executable mappings of files. Pure.

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRange {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    /// As the kernel prints it: a path, "[vdso]", or empty for anonymous memory.
    pub path: String,
}

impl MappedRange {
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The executable mappings of a maps text. Lines that cannot be read (the last
/// one of a truncated text, for one) are left out.
pub fn executable(text: &str) -> impl Iterator<Item = MappedRange> {
    text.lines().filter_map(line)
}

fn line(line: &str) -> Option<MappedRange> {
    // start-end perms offset device inode path; the path may hold spaces.
    let mut rest = line;
    let mut field = || {
        let trimmed = rest.trim_start();
        let (first, after) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        rest = after;
        first
    };
    let (range, permissions, offset) = (field(), field(), field());
    let (_device, _inode) = (field(), field());
    let path = rest.trim_start();
    let (start, end) = range.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    (permissions.len() == 4 && permissions.contains('x') && start < end).then(|| {
        Some(MappedRange {
            start,
            end,
            file_offset: hex(offset)?,
            path: path.to_string(),
        })
    })?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_whole_executable_lines_count() {
        let text = "\
00400000-00401000 r--p 00000000 fe:00 123                                /bin/a b
00401000-00402000 r-xp 00001000 fe:00 123                                /bin/a b
7ffd0000-7ffd2000 rw-p 00000000 00:00 0                                  [stack]
7fff0000-7fff1000 r-xp 00000000 00:00 0                                  [vdso]
10000000-10001000 rwxp 00000000 00:00 0 
7fff2000-7fff3";
        assert_eq!(
            executable(text).collect::<Vec<_>>(),
            [
                (0x40_1000, 0x40_2000, 0x1000, "/bin/a b"),
                (0x7fff_0000, 0x7fff_1000, 0, "[vdso]"),
                (0x1000_0000, 0x1000_1000, 0, ""),
            ]
            .map(|(start, end, file_offset, path)| MappedRange {
                start,
                end,
                file_offset,
                path: path.into()
            })
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(?s).{0,200}") {
            executable(&text).count();
        }
    }
}
