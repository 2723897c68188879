//! Real programs, the real agent, and a small server that remembers.
#![allow(dead_code)] // each test file uses its part

pub mod daemon;

use sketch_model::{BuildId, CampaignId, RunRecord, VariantRef};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, Mutex},
    thread,
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
        let output = self.path(name);
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let done = Command::new("clang-19")
            .args(["-O1", "-pthread", "-D_GNU_SOURCE", "-Wl,--build-id"])
            .arg("-fno-optimize-sibling-calls")
            .arg(programs.join(format!("{source}.c")))
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
        let server = FakeServer::start(Some(signed_patch(base, tracked)));
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

pub struct SignedPatch {
    pub bytes: Vec<u8>,
    pub public_key: String,
}

pub fn signed_patch(base: &Path, tracked: &Path) -> SignedPatch {
    let key = code_patch::SecretKey::generate().expect("a key");
    let bytes = code_patch::make(
        &fs::read(base).expect("base"),
        &fs::read(tracked).expect("tracked"),
        build_id(base),
        VARIANT,
        1,
        u64::MAX,
        &key,
    )
    .expect("a patch");
    SignedPatch {
        bytes,
        public_key: key.public_key_text().expect("a public key"),
    }
}

/// What was asked for, with the body, in order.
type Received = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Assigns its patch, if it has one, and keeps what is sent to it.
pub struct FakeServer {
    pub url: String,
    patch: Option<Arc<SignedPatch>>,
    received: Received,
}

impl FakeServer {
    pub fn start(patch: Option<SignedPatch>) -> FakeServer {
        FakeServer::start_finishing_after(patch, u64::MAX)
    }

    /// Says "finished" from the given assignment on.
    pub fn start_finishing_after(patch: Option<SignedPatch>, assignments: u64) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let patch = patch.map(Arc::new);
        let received = Arc::new(Mutex::new(Vec::new()));
        let (served, kept) = (patch.clone(), received.clone());
        // Ends with the test's process.
        thread::spawn(move || {
            let mut asked = 0;
            for connection in listener.incoming().flatten() {
                let served = served.as_deref();
                serve(connection, served, &kept, &mut asked, assignments);
            }
        });
        FakeServer {
            url,
            patch,
            received,
        }
    }

    pub fn key(&self) -> String {
        self.patch.as_ref().expect("has a patch").public_key.clone()
    }

    pub fn paths(&self) -> Vec<String> {
        let received = self.received.lock().expect("no panic");
        received.iter().map(|(path, _)| path.clone()).collect()
    }

    pub fn body(&self, path: &str) -> Vec<u8> {
        let received = self.received.lock().expect("no panic");
        let found = received.iter().find(|(p, _)| p == path);
        found.expect("was asked").1.clone()
    }

    pub fn records(&self) -> Vec<RunRecord> {
        let received = self.received.lock().expect("no panic");
        received
            .iter()
            .filter(|(path, _)| path == "POST /api/v1/runs")
            .map(|(_, body)| serde_json::from_slice(body).expect("a run record"))
            .collect()
    }
}

fn serve(
    mut connection: TcpStream,
    patch: Option<&SignedPatch>,
    received: &Mutex<Vec<(String, Vec<u8>)>>,
    asked: &mut u64,
    finished_after: u64,
) {
    let mut reader = BufReader::new(connection.try_clone().expect("a descriptor"));
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) == 0 {
            return;
        }
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    // Who was killed while sending has sent nothing.
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let path = first.rsplit_once(' ').map_or("", |(path, _)| path);
    received
        .lock()
        .expect("no panic")
        .push((path.to_string(), body));
    let answer = match (path, patch) {
        ("POST /api/v1/assignment", patch) => {
            *asked += 1;
            let finished = *asked > finished_after;
            match patch {
                Some(_) => format!(
                    r#"{{"schema":1,"variant":{{"campaign":3,"iteration":2}},"finished":{finished}}}"#
                ),
                None => format!(r#"{{"schema":1,"variant":null,"finished":{finished}}}"#),
            }
            .into_bytes()
        }
        ("GET /api/v1/patches/3/2", Some(patch)) => patch.bytes.clone(),
        ("POST /api/v1/runs", _) => br#"{"accepted":true}"#.to_vec(),
        other => panic!("the agent asked for {other:?}", other = other.0),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    // An agent that has seen enough may have closed.
    let _ = connection.write_all(&[head.as_bytes(), &answer].concat());
}
