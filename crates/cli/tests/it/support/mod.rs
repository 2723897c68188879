//! Shared by the tests of the command: folders of sources, the wrapper and
//! plain clang side by side, and ELF files compared.

#![allow(dead_code)]

pub mod serving;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

pub const FAILSKETCH: &str = env!("CARGO_BIN_EXE_failsketch");

/// A folder with sources in `work/` and the wrapper's symlinks in `bin/`.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "bin"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["failsketch-cc", "failsketch-c++"] {
            std::os::unix::fs::symlink(FAILSKETCH, folder.path().join("bin").join(name)).unwrap();
        }
        let place = Place { folder };
        for (name, text) in files {
            let path = place.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        place
    }

    /// A path in `work/`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// A command line, split at spaces, to be run in `work/` with the wrapper in the path.
    pub fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        let path = std::env::var("PATH").unwrap();
        command
            .args(words)
            .current_dir(self.path(""))
            .env("LC_ALL", "C")
            .env(
                "PATH",
                format!("{}/bin:{path}", self.folder.path().display()),
            );
        command
    }

    pub fn run(&self, line: &str) -> Output {
        // `Command` looks a name up in the path of *this* process.
        let (program, rest) = line.split_once(' ').unwrap_or((line, ""));
        let wrapper = self.folder.path().join("bin").join(program);
        let program = if wrapper.exists() {
            wrapper.display().to_string()
        } else if let Some(local) = program.strip_prefix("./") {
            self.path(local).display().to_string()
        } else {
            program.to_string()
        };
        self.command(&format!("{program} {rest}"))
            .output()
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    pub fn run_ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(
            output.status.success(),
            "{line}: {:?}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// `failsketch register NAME`, with the store of this place.
    pub fn register(&self, name: &str) -> Output {
        let store = self.store();
        self.command(&format!("{FAILSKETCH} register {name} --store"))
            .arg(store)
            .output()
            .unwrap()
    }

    /// All files below `work/`, by relative path.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.path(""), &self.path(""), &mut found);
        found
    }
}

fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else if path.is_file() {
            let name = path.strip_prefix(root).unwrap().to_path_buf();
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

/// The code sections of an ELF file in order, with their names.
pub fn text_sections(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).unwrap();
    file.sections()
        .filter(|section| section.name().unwrap().starts_with(".text"))
        .map(|section| {
            (
                section.name().unwrap().to_string(),
                section.data().unwrap().to_vec(),
            )
        })
        .collect()
}

pub fn section_names(bytes: &[u8]) -> Vec<String> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).unwrap();
    file.sections()
        .map(|section| section.name().unwrap().to_string())
        .collect()
}

pub fn modules_in(bytes: &[u8]) -> usize {
    build_store::register::embedded::embedded_modules(bytes)
        .unwrap()
        .len()
}

/// Runs the same lines with the wrapper and with plain clang, in two places with
/// the same files, and requires the same statuses, outputs, files and code.
/// `cc` and `c++` at a line's start stand for the compiler. Returns the wrapper's place.
pub fn same_as_clang(files: &[(&str, &str)], lines: &[&str]) -> Place {
    let wrapped = Place::new(files);
    let plain = Place::new(files);
    for line in lines {
        let with = |cc: &str, cxx: &str| match line.split_once(' ') {
            Some(("cc", rest)) => format!("{cc} {rest}"),
            Some(("c++", rest)) => format!("{cxx} {rest}"),
            _ => line.to_string(),
        };
        let ours = wrapped.run(&with("failsketch-cc", "failsketch-c++"));
        let theirs = plain.run(&with("clang-19", "clang++-19"));
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(ours.status, theirs.status, "{line}\n{}", show(&ours.stderr));
        assert_eq!(show(&ours.stdout), show(&theirs.stdout), "{line}");
        assert_eq!(show(&ours.stderr), show(&theirs.stderr), "{line}");
    }
    same_files(&wrapped, &plain);
    wrapped
}

/// Requires the same file names, the same code in ELF files, and the same text elsewhere.
pub fn same_files(wrapped: &Place, plain: &Place) {
    let (ours, theirs) = (wrapped.files(), plain.files());
    assert_eq!(
        ours.keys().collect::<Vec<_>>(),
        theirs.keys().collect::<Vec<_>>()
    );
    for (name, bytes) in &ours {
        let other = &theirs[name];
        if bytes.starts_with(b"\x7fELF") {
            assert_eq!(
                text_sections(bytes),
                text_sections(other),
                "code of {}",
                name.display()
            );
        } else if !bytes.starts_with(b"!<") {
            assert_eq!(bytes, other, "{}", name.display());
        }
    }
}
