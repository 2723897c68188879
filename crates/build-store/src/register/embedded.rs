//! Bitcode and compiler flags out of an ELF file's sections. Pure.
//!
//! Linkers concatenate the sections of all inputs, and may pad them with zeros.
//! Bitcode is therefore split by walking its top-level blocks, each of which
//! states its length, and not by searching for the magic, which may occur
//! inside a constant. Layout: LLVM "Bitcode File Format", sections "Magic
//! Numbers", "ENTER_SUBBLOCK Encoding" and "Module block".
//!
//! A file linked in the same call that compiled some of its sources holds
//! several sections of one name; both the renamed and clang's own names are
//! accepted, and modules come in the order of the sections.
//!
//! Deliberately absent: reading what is *in* a module.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// Section names of bitcode: ours, and clang's before the wrapper renames it.
pub const BITCODE_SECTIONS: [&str; 2] = [".failsketch.bc", ".llvmbc"];
/// Section names of compiler flags, in the same order.
pub const COMMAND_SECTIONS: [&str; 2] = [".failsketch.cmd", ".llvmcmd"];

/// One translation unit as the compiler saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedModule {
    /// Bitcode from before optimisation.
    pub bitcode: Vec<u8>,
    /// The `-cc1` flags, without input, output and warning options.
    pub flags: Vec<String>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EmbeddedError {
    #[error("it is not a readable ELF file ({0})")]
    NotElf(String),
    #[error("its embedded bitcode is damaged at byte {offset}: {what}")]
    Damaged { offset: usize, what: &'static str },
    #[error(
        "its embedded bitcode has the Darwin wrapper header, which clang does not write for Linux; \
         build it with failsketch-cc"
    )]
    WrapperHeader,
    #[error(
        "it holds {modules} bitcode modules but {commands} sets of compiler flags; \
         rebuild it with failsketch-cc"
    )]
    Unpaired { modules: usize, commands: usize },
}

/// All modules embedded in the ELF file `bytes`; none if it has no such section.
pub fn embedded_modules(bytes: &[u8]) -> Result<Vec<EmbeddedModule>, EmbeddedError> {
    let file: ElfFile64<'_> =
        ElfFile64::parse(bytes).map_err(|error| EmbeddedError::NotElf(error.to_string()))?;
    let mut modules = Vec::new();
    for (bitcode_name, command_name) in BITCODE_SECTIONS.into_iter().zip(COMMAND_SECTIONS) {
        let bitcode = sections_named(&file, bitcode_name)?;
        let commands = sections_named(&file, command_name)?;
        let mut bodies = Vec::new();
        for section in &bitcode {
            bodies.extend(split_bitcode(section)?);
        }
        let flags: Vec<_> = commands
            .iter()
            .flat_map(|section| split_commands(section))
            .collect();
        if bodies.len() != flags.len() {
            return Err(EmbeddedError::Unpaired {
                modules: bodies.len(),
                commands: flags.len(),
            });
        }
        modules.extend(
            bodies
                .into_iter()
                .zip(flags)
                .map(|(body, flags)| EmbeddedModule {
                    bitcode: body.to_vec(),
                    flags,
                }),
        );
    }
    Ok(modules)
}

fn sections_named<'d>(file: &ElfFile64<'d>, name: &str) -> Result<Vec<&'d [u8]>, EmbeddedError> {
    file.sections()
        .filter(|section| section.name() == Ok(name))
        .map(|section| {
            section
                .data()
                .map_err(|error| EmbeddedError::NotElf(error.to_string()))
        })
        .collect()
}

const MAGIC: [u8; 4] = *b"BC\xC0\xDE";
const WRAPPER_MAGIC: [u8; 4] = 0x0B17_C0DE_u32.to_le_bytes();
/// Block ids that may stand at top level: MODULE, IDENTIFICATION, STRTAB, SYMTAB.
const TOP_LEVEL_BLOCKS: [u32; 4] = [8, 13, 23, 25];
const MODULE_BLOCK: u32 = 8;
/// The abbreviation id of ENTER_SUBBLOCK, in the two bits that ids have at top level.
const ENTER_SUBBLOCK: u32 = 1;

/// Splits concatenated, zero-padded bitcode into its modules.
pub fn split_bitcode(section: &[u8]) -> Result<Vec<&[u8]>, EmbeddedError> {
    let mut modules = Vec::new();
    let mut at = 0;
    loop {
        at += section[at..].iter().take_while(|byte| **byte == 0).count();
        if at == section.len() {
            return Ok(modules);
        }
        if section[at..].starts_with(&WRAPPER_MAGIC) {
            return Err(EmbeddedError::WrapperHeader);
        }
        if !section[at..].starts_with(&MAGIC) {
            return Err(EmbeddedError::Damaged {
                offset: at,
                what: "no bitcode magic",
            });
        }
        let end = end_of_module(section, at)?;
        modules.push(&section[at..end]);
        at = end;
    }
}

/// Where the module that starts at `start` ends: after its last top-level block.
fn end_of_module(section: &[u8], start: usize) -> Result<usize, EmbeddedError> {
    let mut at = start + MAGIC.len();
    let mut has_module = false;
    while let Some(block) = block_id_at(section, at) {
        // Two modules may follow each other without magic only inside one
        // file, which clang does not embed.
        has_module |= block == MODULE_BLOCK;
        let words = word_at(section, at + 4).ok_or(EmbeddedError::Damaged {
            offset: at,
            what: "a block's header is cut off",
        })?;
        let end = (words as usize)
            .checked_mul(4)
            .and_then(|length| (at + 8).checked_add(length))
            .filter(|end| *end <= section.len())
            .ok_or(EmbeddedError::Damaged {
                offset: at,
                what: "a block is longer than the section",
            })?;
        at = end;
    }
    if has_module {
        Ok(at)
    } else {
        Err(EmbeddedError::Damaged {
            offset: start,
            what: "no module block after the magic",
        })
    }
}

/// The id of the top-level block whose header starts at `at`, if one does.
///
/// The header's first word is: abbreviation id (2 bits), block id (vbr8),
/// width of ids inside (vbr4), zeros up to the word's end.
fn block_id_at(section: &[u8], at: usize) -> Option<u32> {
    let header = word_at(section, at)?;
    let block = (header >> 2) & 0xff;
    let is_enter = header & 0b11 == ENTER_SUBBLOCK;
    let rest_is_zero = header >> 14 == 0;
    (is_enter && rest_is_zero && TOP_LEVEL_BLOCKS.contains(&block)).then_some(block)
}

fn word_at(section: &[u8], at: usize) -> Option<u32> {
    let bytes = section.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Splits concatenated flags: words end in NUL, and every module starts with `-cc1`.
pub fn split_commands(section: &[u8]) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut words: Vec<&[u8]> = section.split(|byte| *byte == 0).collect();
    // The last word ends in NUL too, so the split yields an empty one after it.
    words.pop();
    for word in words {
        if word == b"-cc1" {
            commands.push(Vec::new());
        }
        if let Some(command) = commands.last_mut() {
            command.push(String::from_utf8_lossy(word).into_owned());
        }
    }
    for command in &mut commands {
        let used = command.iter().rposition(|word| !word.is_empty());
        command.truncate(used.map_or(0, |last| last + 1));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::record::{Driver, LINK_SECTION, LinkRecord};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn block(id: u32, words: &[u32]) -> Vec<u8> {
        let mut bytes = (ENTER_SUBBLOCK | id << 2 | 3 << 10).to_le_bytes().to_vec();
        bytes.extend((words.len() as u32).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    fn module(body: &[u32]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(block(13, &[1, 2]));
        bytes.extend(block(MODULE_BLOCK, body));
        bytes.extend(block(23, &[7]));
        bytes
    }

    #[test]
    fn magic_inside_a_block_does_not_split() {
        let one = module(&[u32::from_le_bytes(MAGIC), 0x0B17_C0DE, 0]);
        let section = [one.clone(), one.clone()].concat();
        assert_eq!(split_bitcode(&section), Ok(vec![&one[..], &one[..]]));
    }

    #[test]
    fn the_wrapper_header_is_refused() {
        let section = [&WRAPPER_MAGIC[..], &[0; 16]].concat();
        assert_eq!(split_bitcode(&section), Err(EmbeddedError::WrapperHeader));
    }

    #[test]
    fn a_cut_module_is_damaged() {
        let one = module(&[1, 2, 3]);
        assert!(matches!(
            split_bitcode(&one[..one.len() - 4]),
            Err(EmbeddedError::Damaged { .. })
        ));
    }

    #[test]
    fn flags_split_at_cc1_and_lose_padding() {
        let section = b"-cc1\0-O2\0-D\0\0-x\0\0\0-cc1\0-O0\0";
        assert_eq!(
            split_commands(section),
            vec![vec!["-cc1", "-O2", "-D", "", "-x"], vec!["-cc1", "-O0"]]
        );
    }

    /// An ELF file with our three sections: two modules, their flags, the link line.
    fn program() -> Vec<u8> {
        use object::write::Object;
        let mut file = Object::new(
            object::BinaryFormat::Elf,
            object::Architecture::X86_64,
            object::Endianness::Little,
        );
        let link = LinkRecord {
            driver: Driver::C,
            directory: "/src".to_owned(),
            arguments: vec!["main.c".to_owned(), "-lm".to_owned()],
        };
        let sections = [
            (
                BITCODE_SECTIONS[0],
                [module(&[1, 2]), module(&[3])].concat(),
            ),
            (COMMAND_SECTIONS[0], b"-cc1\0-O2\0-cc1\0-O0\0".to_vec()),
            (LINK_SECTION, link.to_bytes()),
        ];
        for (name, data) in sections {
            let kind = object::SectionKind::Other;
            let id = file.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
            file.append_section_data(id, &data, 4);
        }
        file.write().unwrap()
    }

    #[test]
    fn a_programs_sections_are_read() {
        let bytes = program();
        assert_eq!(embedded_modules(&bytes).unwrap().len(), 2);
        let file = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
        let link = sections_named(&file, LINK_SECTION).unwrap();
        assert!(LinkRecord::from_bytes(link[0]).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn a_mutated_program_never_panics(
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut bytes = program();
            for (position, value) in changes {
                let position = position.index(bytes.len());
                bytes[position] = value;
            }
            bytes.truncate(cut.map_or(bytes.len(), |at| at.index(bytes.len())));
            let _ = embedded_modules(&bytes);
            if let Ok(file) = ElfFile64::<object::Endianness>::parse(&*bytes) {
                for section in sections_named(&file, LINK_SECTION).unwrap_or_default() {
                    let _ = LinkRecord::from_bytes(section);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
            let _ = split_bitcode(&bytes);
            let _ = split_commands(&bytes);
            let _ = embedded_modules(&bytes);
        }

        #[test]
        fn any_bytes_after_a_valid_start_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = split_bitcode(&[MAGIC.to_vec(), block(13, &[0]), bytes].concat());
        }

        #[test]
        fn concatenations_with_padding_round_trip(
            bodies in vec((vec(any::<u32>(), 0..20), 0_usize..9), 0..6)
        ) {
            let modules: Vec<Vec<u8>> = bodies.iter().map(|(body, _)| module(body)).collect();
            let mut section = Vec::new();
            for (module, (_, padding)) in modules.iter().zip(&bodies) {
                section.extend(module);
                section.extend(vec![0; padding * 4]);
            }
            prop_assert_eq!(split_bitcode(&section).unwrap(), modules);
        }
    }
}
