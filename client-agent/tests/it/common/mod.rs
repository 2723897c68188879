//! Real programs, the real agent, and a small server that remembers.
#![allow(dead_code)] // each test file uses its part

pub mod daemon;
pub mod server;

#[allow(unused_imports)] // likewise
pub use server::{FakeServer, SignedPatch, new_key, signed_patch, usual_terms};

use sketch_model::{BuildId, CampaignId, RunRecord, VariantRef};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

pub const AGENT: &str = env!("CARGO_BIN_EXE_failsketch-agent");
pub const VARIANT: VariantRef = VariantRef {
    campaign: CampaignId(3),
    iteration: 2,
    plan: 0,
};

/// A folder for one test, with everything it makes.
pub struct Workshop {
    folder: TempDir,
}

impl Workshop {
    pub fn new() -> Workshop {
        Workshop {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        // The kernel shows real paths; so do records.
        fs::canonicalize(self.folder.path())
            .expect("the folder exists")
            .join(name)
    }

    /// Compiles tests/programs/`source`.c under `name`.
    pub fn compile(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        self.compile_with("clang-19", &format!("{source}.c"), name, flags)
    }

    /// Compiles tests/programs/`source`.cpp under `name`.
    pub fn compile_cpp(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        self.compile_with("clang++-19", &format!("{source}.cpp"), name, flags)
    }

    fn compile_with(&self, compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let output = self.path(name);
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let done = Command::new(compiler)
            .args(["-O1", "-pthread", "-D_GNU_SOURCE", "-Wl,--build-id"])
            .arg("-fno-optimize-sibling-calls")
            .arg(programs.join(source))
            .arg("-o")
            .arg(&output)
            .args(flags)
            .output()
            .expect("clang-19 is installed");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        output
    }

    /// The untouched build of tracked.c and its tracked build.
    pub fn compile_pair(&self, flags: &[&str]) -> (PathBuf, PathBuf) {
        self.compile_pair_of("tracked", flags)
    }

    /// A program's untouched build, where hooks do nothing, and its tracked build.
    pub fn compile_pair_of(&self, source: &str, flags: &[&str]) -> (PathBuf, PathBuf) {
        let runtime = self.path(runtime::LINKABLE_FILE_NAME);
        fs::write(&runtime, runtime::LINKABLE).expect("the runtime is written");
        let runtime = runtime.to_str().expect("paths are text");
        let base = self.compile(source, "program", &[flags, &["-DSTUBS"]].concat());
        let tracked = self.compile(source, "tracked", &[flags, &[runtime]].concat());
        (base, tracked)
    }

    /// `failsketch-agent run` with a cache of its own.
    pub fn agent(&self) -> Command {
        let mut command = Command::new(AGENT);
        command.arg("run").arg("--cache").arg(self.path("cache"));
        // Tests of tracked builds want every run of theirs.
        command.args(["--canary", "1"]);
        command
    }

    /// Runs a program under the agent and returns its output and record.
    pub fn record(&self, program: &Path, arguments: &[&str]) -> (Output, RunRecord) {
        let file = self.path("record.json");
        let output = self
            .agent()
            .arg("--store-record")
            .arg(&file)
            .arg("--")
            .arg(program)
            .args(arguments)
            .output()
            .expect("the agent starts");
        (output, read_record(&file))
    }

    /// Runs the tracked build under the agent, through a server that assigns it.
    pub fn record_tracked(
        &self,
        pair: &(PathBuf, PathBuf),
        arguments: &[&str],
    ) -> (Output, RunRecord) {
        self.record_tracked_with(&[], pair, arguments)
    }

    /// As [`Workshop::record_tracked`], with more options for the agent.
    pub fn record_tracked_with(
        &self,
        options: &[&str],
        (base, tracked): &(PathBuf, PathBuf),
        arguments: &[&str],
    ) -> (Output, RunRecord) {
        let patch = signed_patch(base, tracked);
        self.record_patched(options, patch, base, arguments)
    }

    /// Runs what a patch makes of `base` under the agent.
    pub fn record_patched(
        &self,
        options: &[&str],
        patch: SignedPatch,
        base: &Path,
        arguments: &[&str],
    ) -> (Output, RunRecord) {
        let server = FakeServer::start(Some(patch));
        let output = self
            .agent()
            .args(["--server", &server.url, "--key", &server.key()])
            .args(options)
            .arg("--")
            .arg(base)
            .args(arguments)
            .output()
            .expect("the agent starts");
        let mut records = server.records();
        assert_eq!(
            records.len(),
            1,
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        (output, records.remove(0))
    }
}

pub fn read_record(file: &Path) -> RunRecord {
    let text = fs::read_to_string(file).expect("the agent stored a record");
    serde_json::from_str(&text).expect("the record is one JSON document")
}

pub fn build_id(file: &Path) -> BuildId {
    use object::Object;
    let bytes = fs::read(file).expect("the program exists");
    let file = object::File::parse(bytes.as_slice()).expect("the program is ELF");
    let id = file
        .build_id()
        .expect("notes are readable")
        .expect("has one");
    BuildId(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The function that holds a static address, by the file's own symbols.
pub fn function_at(file: &Path, address: u64) -> Option<String> {
    use object::{Object, ObjectSymbol};
    let bytes = fs::read(file).expect("the program exists");
    let file = object::File::parse(bytes.as_slice()).expect("the program is ELF");
    file.symbols()
        .find(|s| (s.address()..s.address() + s.size()).contains(&address))
        .and_then(|s| s.name().ok().map(str::to_string))
}
