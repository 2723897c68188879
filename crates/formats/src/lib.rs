//! Bytes and text of others, read without trust.
//!
//! One cursor, one reader and one editor of ELF files, one map from addresses to
//! statements, one reader of the kernel's
//! perf records, one of `/proc/PID/maps`, for every room that meets such bytes. Any
//! bytes give an answer; none panics, and nothing is allocated because a length in the
//! bytes asks for it. Which other rooms see bytes that a stranger chose is in
//! ARCHITECTURE.md, "Whose bytes".
//!
//! Deliberately absent: files (but for [`elf_edit`], which edits one in place) and
//! Intel PT itself, which the crate `pt-decoder` gives to libipt.

pub mod address_map;
pub mod cursor;
pub mod dynamic;
pub mod elf;
pub mod elf_edit;
pub mod elf_functions;
pub mod perf_records;
pub mod perf_samples;
pub mod proc_maps;
pub mod segments;
pub mod statement_map;
