//! The code of a running process, instruction by instruction.

use iced_x86::{Decoder, DecoderOptions, Instruction};
use pt_decoder::CodeImage;
use sketch_model::{MappedCode, RuntimeAddress};
use std::{
    collections::HashMap,
    fs::{self, File},
    os::unix::fs::FileExt,
};

/// Reads a process once, and decodes each address once.
pub struct Code {
    pub image: CodeImage,
    pub mapped: Vec<MappedCode>,
    instructions: HashMap<u64, Instruction>,
}

impl Code {
    pub fn new(image: CodeImage) -> Self {
        Self {
            image,
            mapped: Vec::new(),
            instructions: HashMap::new(),
        }
    }

    /// The executable mappings of a stopped process; but not `vsyscall`, which
    /// cannot be read.
    pub fn of_process(pid: i32) -> Self {
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let (mut image, mut mapped) = (CodeImage::new(), Vec::new());
        for line in maps.lines().filter(|line| line.contains(" r-xp ")) {
            let (range, _) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let start = u64::from_str_radix(start, 16).unwrap();
            let end = u64::from_str_radix(end, 16).unwrap();
            let mut bytes = vec![0; (end - start) as usize];
            memory.read_exact_at(&mut bytes, start).unwrap();
            image.add(RuntimeAddress(start), bytes).unwrap();
            let mut fields = line.split_whitespace().skip(2);
            let offset = u64::from_str_radix(fields.next().unwrap(), 16).unwrap();
            mapped.push(MappedCode {
                start: RuntimeAddress(start),
                length: end - start,
                file_offset: offset,
                path: fields.nth(2).unwrap_or("//anon").to_owned(),
                build_id: None,
            });
        }
        Self {
            mapped,
            ..Self::new(image)
        }
    }

    /// `None` where there is no code, or none that can be decoded.
    pub fn decoded(&self, ip: u64) -> Option<Instruction> {
        let mut bytes = [0; 15];
        let known = self.image.read(RuntimeAddress(ip), &mut bytes);
        let bytes = &bytes[..known];
        let instruction = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    pub fn at(&mut self, ip: u64) -> &Instruction {
        let image = &self.image;
        self.instructions.entry(ip).or_insert_with(|| {
            let mut bytes = [0; 15];
            let known = image.read(RuntimeAddress(ip), &mut bytes);
            assert!(known > 0, "no code at {ip:#x}");
            let instruction =
                Decoder::with_ip(64, &bytes[..known], ip, DecoderOptions::NONE).decode();
            assert!(!instruction.is_invalid(), "invalid code at {ip:#x}");
            instruction
        })
    }
}
