//! Real programs, built and registered as the wrapper would, hooked, and run.
//!
//! The wrapper itself is a command of another crate; its three steps (embed
//! bitcode, rename the sections, append the link line) are done here with the
//! LLVM tools. Programs run with or without a shared region, which is what turns
//! recording on.
#![allow(dead_code)]

pub mod modules;
pub mod stepper;
use build_store::link::record::{Driver, LinkRecord};
use build_store::{BuildStore, RegisterOptions, RegisteredBuild};
use runtime::layout::{
    ACTIVATION_VARIABLE, Event, HEAD_EVENTS, Header, MAGIC, REGION_SIZE, RING_EVENTS, Region,
    ThreadSlot, VERSION,
};
use sketch_model::{BuildId, Slice, StatementId, TrackingPlan};
use slicer::{ModuleInput, Program};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A registered program.
pub struct Built {
    pub folder: tempfile::TempDir,
    pub build: RegisteredBuild,
    pub program: Program,
}

fn run_tool(command: &mut Command) {
    let output = command.output().expect("the tool can be started");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Compiles, links and registers `sources` (name and text); a name that ends in
/// `.cc` makes the program C++.
pub fn build(sources: &[(&str, &str)], compile: &[&str], link: &[&str]) -> Built {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let is_cxx = sources.iter().any(|(name, _)| name.ends_with(".cc"));
    let (driver, tool) = match is_cxx {
        true => (Driver::Cxx, "clang++-19"),
        false => (Driver::C, "clang-19"),
    };
    let mut objects = Vec::new();
    for (name, text) in sources {
        fs::write(at(name), text).unwrap();
        let object = format!("{name}.o");
        run_tool(
            Command::new(tool)
                .current_dir(folder.path())
                .args(["-g", "-Xclang", "-fembed-bitcode=all", "-pthread", "-c"])
                .args(compile)
                .arg(at(name))
                .args(["-o", &object]),
        );
        run_tool(
            Command::new("llvm-objcopy-19")
                .current_dir(folder.path())
                .args(["--rename-section", ".llvmbc=.failsketch.bc"])
                .args(["--rename-section", ".llvmcmd=.failsketch.cmd"])
                .arg(&object),
        );
        objects.push(object);
    }
    let arguments: Vec<String> = link
        .iter()
        .map(|word| word.to_string())
        .chain(["-pthread".into(), "-Wl,--build-id".into()])
        .chain(objects)
        .chain(["-lm".into(), "-o".into(), "program".into()])
        .collect();
    run_tool(
        Command::new(tool)
            .current_dir(folder.path())
            .args(&arguments),
    );
    let record = LinkRecord {
        driver,
        directory: folder.path().to_string_lossy().into_owned(),
        arguments,
    };
    fs::write(at("link"), record.to_bytes()).unwrap();
    run_tool(Command::new("objcopy").current_dir(folder.path()).args([
        "--add-section",
        ".failsketch.link=link",
        "program",
    ]));
    let store = BuildStore::open(at("store"));
    let options = RegisterOptions::default();
    let build = store.register(&at("program"), &options, &mut |_| {});
    let build = build.unwrap();
    let modules: Vec<(String, Vec<u8>)> = (0..build.manifest().modules.len())
        .map(|n| {
            let name = build.manifest().modules[n].source.clone();
            (name, build.module_bitcode(n).unwrap())
        })
        .collect();
    let inputs: Vec<ModuleInput<'_>> = modules
        .iter()
        .map(|(name, bitcode)| ModuleInput { name, bitcode })
        .collect();
    let program = Program::load(BuildId("test".into()), &inputs).unwrap();
    Built {
        folder,
        build,
        program,
    }
}

impl Built {
    /// A plan that tracks every statement of these functions.
    pub fn plan(&self, functions: &[&str]) -> TrackingPlan {
        let entries: Vec<_> = self
            .program
            .statements()
            .iter()
            .enumerate()
            .filter(|(_, s)| functions.contains(&s.function.as_str()))
            .map(|(id, _)| slicer::entry_for(&self.program, StatementId(id as u32), &|_| None))
            .collect();
        assert!(!entries.is_empty(), "no statement in {functions:?}");
        let slice = Slice {
            schema: Default::default(),
            build: BuildId("test".into()),
            entries: Vec::new(),
            gaps: Vec::new(),
        };
        slicer::plan(&slice, 0, &entries)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// What a run left behind.
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    /// By thread slot; empty if nothing was recorded.
    pub events: Vec<Vec<Event>>,
    pub region: Option<Box<Region>>,
}

/// Starts a program that was just written. Another test may be starting its own
/// at this moment, with our file still open in the child.
pub fn spawn(command: &mut Command) -> Child {
    for _ in 0..1000 {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            started => return started.expect("the program can be started"),
        }
    }
    panic!("the program stays busy");
}

/// Runs a program, recording or not.
pub fn run(program: &Path, arguments: &[&str], recording: bool) -> Ran {
    run_with(program, arguments, recording.then(region))
}

/// Runs a program that records, and tires of nothing.
pub fn run_counting_all(program: &Path, arguments: &[&str]) -> Ran {
    let region = region();
    let at = offset_of!(Region, header) + offset_of!(Header, tireless);
    region.write_all_at(&1u32.to_le_bytes(), at as u64).unwrap();
    run_with(program, arguments, Some(region))
}

fn run_with(program: &Path, arguments: &[&str], region: Option<File>) -> Ran {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.env_remove(ACTIVATION_VARIABLE);
    if let Some(file) = &region {
        command.env(
            ACTIVATION_VARIABLE,
            format!("{}:{NONCE:016x}", file.as_raw_fd()),
        );
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawn(&mut command).wait_with_output().expect("it ends");
    let region = region.map(|file| read_region(&file));
    Ran {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        events: region.as_deref().map(events).unwrap_or_default(),
        region,
    }
}

pub const NONCE: u64 = 0x1234_5678_9abc_def0;

pub fn region() -> File {
    // SAFETY: the name is a C string; the descriptor that comes back is ours.
    let file = unsafe {
        let fd = libc::memfd_create(c"region".as_ptr(), libc::MFD_ALLOW_SEALING);
        assert!(fd >= 0);
        File::from_raw_fd(fd)
    };
    file.set_len(REGION_SIZE as u64).unwrap();
    let put = |field: usize, bytes: &[u8]| {
        let at = offset_of!(Region, header) + field;
        file.write_all_at(bytes, at as u64).unwrap();
    };
    put(offset_of!(Header, magic), &MAGIC.to_le_bytes());
    put(offset_of!(Header, version), &VERSION.to_le_bytes());
    put(offset_of!(Header, nonce), &NONCE.to_le_bytes());
    put(
        offset_of!(Header, region_size),
        &(REGION_SIZE as u64).to_le_bytes(),
    );
    put(offset_of!(Header, socket), &(-1_i32).to_le_bytes());
    // SAFETY: a call on an open descriptor of ours.
    let sealed = unsafe {
        libc::fcntl(
            file.as_raw_fd(),
            libc::F_ADD_SEALS,
            libc::F_SEAL_SHRINK | libc::F_SEAL_GROW,
        )
    };
    assert_eq!(sealed, 0);
    file
}

pub fn read_region(file: &File) -> Box<Region> {
    // SAFETY: a Region is made of integers, so zeros are one, and any bytes are.
    unsafe {
        let mut region: Box<Region> = Box::new_zeroed().assume_init();
        let bytes = std::slice::from_raw_parts_mut((&raw mut *region).cast::<u8>(), REGION_SIZE);
        file.read_exact_at(bytes, 0).unwrap();
        region
    }
}

fn events(region: &Region) -> Vec<Vec<Event>> {
    let all = |slot: &ThreadSlot| {
        let kept = slot.count.min((HEAD_EVENTS + RING_EVENTS) as u64) as usize;
        let head = slot.head.iter().take(kept);
        let ring = slot.ring.iter().take(kept.saturating_sub(HEAD_EVENTS));
        head.chain(ring).copied().collect()
    };
    let used = region.threads.iter().filter(|slot| slot.count > 0);
    used.map(all).collect()
}
