//! Bytes and text of others, read without trust: ELF files and `/proc/PID/maps`.

pub(crate) mod dynamic;
pub(crate) mod elf;
pub(crate) mod proc_maps;
