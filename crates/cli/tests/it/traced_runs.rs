//! Runs with Intel PT, from the program to the sketch: a registered program is
//! stepped by the software tracer, its records are POSTed to a real server, which
//! decodes them in its worker process, and the sketch names the branch that
//! separates failing from successful runs. No tracked build ever runs.

use crate::support::{FAILSKETCH, Place};
use build_analysis::{BitcodeReader, StoredBuilds};
use sketch_model::{
    CampaignState, CampaignSummary, CpuModel, FailureSketch, Gap, Predictor, PredictorClass,
    PtBuffer, PtRecord, RunId, RunRecord, SidebandKind,
};
use sketch_server::{EngineHandle, ServerConfig, serve_with};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use test_support::intel_pt::tracer::perf_file::PerfFile;
use test_support::intel_pt::tracer::ptrace::{CLOCK, Plan, THE_PROGRAM, record};
use test_support::intel_pt::tracer::writer::USUAL;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// The last digit of its name decides: odd ones fail. Ground truth on the line:
/// what only failing, or only successful, runs execute, and how often.
const SOURCE: &str = "\
static volatile int table[4], misses;
static volatile int *volatile slot;
__attribute__((noinline)) static void find(int n) {
  if (n & 1) { // ROOT-CAUSE
    slot = 0; // FAILING
    misses = n;
    return;
  }
  slot = &table[n & 3]; // SUCCESSFUL
}
__attribute__((noinline)) static int sum(int n) {
  int all = 0;
  for (int i = 0; i < n; i++)
    misses = all += i; // TIMES n
  return all;
}
int main(int argc, char **argv) {
  const char *end = argv[0];
  while (*end)
    end++;
  int n = end[-1] - '0';
  find(n);
  int all = sum(n);
  *slot = all; // FAILS
  return argc > 5; // SUCCESSFUL
}
";

fn line_of(text: &str) -> u32 {
    let line = SOURCE.lines().position(|line| line.ends_with(text));
    line.unwrap() as u32 + 1
}

/// A registered build and copies of it under other names.
fn registered(flags: &str) -> Place {
    let place = Place::new(&[("find.c", SOURCE)]);
    place.run_ok(&format!("failsketch-cc {flags} find.c -o find"));
    let output = place.register("find");
    assert!(output.status.success(), "{:?}", output);
    place
}

/// The `perf.data` of a run whose name ends in a digit.
fn traced(place: &Place, digit: u32) -> Vec<u8> {
    let program = place.path(&format!("find{digit}"));
    std::fs::copy(place.path("find"), &program).unwrap();
    let build = formats::elf::build_id(&std::fs::read(&program).unwrap()).unwrap();
    let mut plan = Plan::new(&[USUAL]);
    plan.window = Some(THE_PROGRAM);
    let run = record(&program, "main", &plan);
    assert_eq!(run.status, if digit % 2 == 1 { -11 } else { 0 });
    let mut sideband = run.sideband.clone();
    for event in &mut sideband {
        if let SidebandKind::Mapped(mapped) = &mut event.kind
            && Path::new(&mapped.path) == program
        {
            mapped.build_id = Some(build.clone());
        }
    }
    let record = PtRecord {
        cpu: Some(CpuModel {
            family: 6,
            model: 158,
            stepping: 10,
        }),
        clock: Some(CLOCK),
        buffers: vec![PtBuffer {
            cpu: Some(0),
            tid: None,
            bytes: run.traces[0][0].clone(),
        }],
        sideband,
        ..PtRecord::default()
    };
    PerfFile::new(&record, &[], &["perf", "record", "-e", "intel_pt//u"]).file()
}

/// `failsketch import` of a run; what it said.
fn import(place: &Place, digit: u32, more: &[&str]) -> String {
    std::fs::write(place.path("perf.data"), traced(place, digit)).unwrap();
    let mut command = place.command(&format!("{FAILSKETCH} import perf.data --store"));
    command.arg(place.store()).args(more);
    if digit % 2 == 1 {
        command.args(["--failed", "SIGSEGV"]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{output:?}");
    said
}

/// The record of a run as an agent would send it: raw, undecoded.
fn raw_record(place: &Place, digit: u32) -> RunRecord {
    import(place, digit, &["--output", "run.json"]);
    let mut run: RunRecord = serde_json::from_slice(&place.read("run.json")).unwrap();
    let pt = run.pt.as_mut().unwrap();
    let decoded = pt.decoded.take().unwrap();
    assert!(decoded.complete, "{:?}", decoded.gaps);
    run
}

/// A runtime that does not wait for its threads when a test panics: a failing
/// test must fail, not hang.
struct Abandoned(Option<Runtime>);

impl std::ops::Deref for Abandoned {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("taken only when dropped")
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A whole server on a free port.
struct Server {
    runtime: Abandoned,
    address: SocketAddr,
    engine: EngineHandle,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Server {
    fn start(place: &Place, data: &Path) -> Server {
        let listen = "127.0.0.1:0".parse().unwrap();
        let config = ServerConfig {
            worker: Some(PathBuf::from(FAILSKETCH)),
            ..ServerConfig::new(data, &place.store(), listen)
        };
        let reader = BitcodeReader {
            command: config.worker.clone(),
        };
        let builds = Arc::new(StoredBuilds::open(&place.store(), reader));
        let runtime = Abandoned(Some(Runtime::new().unwrap()));
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, started) = std::sync::mpsc::channel();
        let served = runtime.spawn(async move {
            let stopped = async move {
                let _ = stopped.await;
            };
            let ready = move |address, engine| ready.send((address, engine)).unwrap();
            serve_with(config, builds, stopped, ready).await.unwrap();
        });
        let (address, engine) = started.recv().expect("the server starts");
        Server {
            runtime,
            address,
            engine,
            stop,
            served,
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn post(&self, run: &RunRecord) {
        let url = format!("{}/api/v1/runs", self.url());
        let body = serde_json::to_vec(run).unwrap();
        let sent = ureq::post(url)
            .header("content-type", "application/json")
            .send(&body[..]);
        assert_eq!(sent.unwrap().status(), 202);
        self.quiet();
    }

    fn quiet(&self) {
        self.runtime.block_on(self.engine.quiet()).unwrap();
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> T {
        let mut answer = ureq::get(format!("{}{path}", self.url())).call().unwrap();
        serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap()
    }

    fn sketch(&self) -> FailureSketch {
        self.get("/api/v1/campaigns/1/sketch")
    }

    fn stop(self) {
        self.stop.send(()).unwrap();
        self.runtime.block_on(self.served).unwrap();
    }
}

/// The drawn statements of the failing run, by line, and how often they ran.
fn drawn(sketch: &FailureSketch) -> BTreeMap<u32, u64> {
    let steps = sketch.steps.iter().filter(|step| !step.static_only);
    steps
        .map(|step| (step.statement.location.line, step.times))
        .collect()
}

fn assert_drawn(sketch: &FailureSketch, digit: u64, what: &str) {
    assert_eq!(sketch.provenance.control_flow, "Intel PT", "{what}");
    let drawn = drawn(sketch);
    for (number, line) in (1..).zip(SOURCE.lines()) {
        let times = drawn.get(&number);
        match line.rsplit_once("// ").map(|(_, truth)| truth) {
            Some("FAILING" | "ROOT-CAUSE") => {
                assert_eq!(times, Some(&1), "{what}: {line}\n{drawn:?}");
            }
            Some("SUCCESSFUL") => assert_eq!(times, None, "{what}: {line}\n{drawn:?}"),
            Some("TIMES n") => assert_eq!(times, Some(&digit), "{what}: {line}\n{drawn:?}"),
            _ => {}
        }
    }
    let failing = sketch.steps.last().map(|it| it.statement.location.line);
    assert_eq!(failing, Some(line_of("// FAILS")), "{what}");
    let undecoded = |gap: &&Gap| matches!(gap, Gap::TraceNotDecoded { .. });
    let gap = sketch.gaps.iter().find(undecoded);
    assert_eq!(gap, None, "{what}");
}

#[test]
fn raw_traces_become_a_diagnosis() {
    for flags in ["-O0", "-O2"] {
        let place = registered(flags);
        let data = tempfile::tempdir().unwrap();
        let server = Server::start(&place, data.path());
        let good: Vec<RunRecord> = [2, 4].map(|digit| raw_record(&place, digit)).into();
        // A success that came before any failure counts, too.
        let success = |number: usize| {
            let run = &good[number % good.len()];
            RunRecord {
                id: RunId(format!("success-{number}")),
                ..run.clone()
            }
        };
        server.post(&success(0));
        let mut failing = [3, 5, 7].map(|digit| raw_record(&place, digit)).into_iter();
        server.post(&failing.next().unwrap());
        let sketch = server.sketch();
        assert_drawn(&sketch, 3, flags);
        let provenance = &sketch.provenance;
        assert_eq!(
            (provenance.failing_runs, provenance.successful_runs),
            (1, 1),
            "{flags}"
        );
        for next in 1..=20 {
            server.post(&success(next));
        }
        server.post(&failing.next().unwrap());
        // What was decoded survives a restart, and nothing is counted twice.
        server.stop();
        let server = Server::start(&place, data.path());
        server.post(&success(0));
        server.post(&failing.next().unwrap());
        let sketch = server.sketch();
        let provenance = &sketch.provenance;
        assert_eq!(
            (provenance.failing_runs, provenance.successful_runs),
            (3, 21),
            "{flags}"
        );
        let branches = sketch.predictors.iter();
        let mut branches = branches.filter(|it| it.class == PredictorClass::Branch);
        let best = branches.next().expect("a branch predictor");
        let Predictor::Branch { statement, .. } = &best.predictor else {
            panic!("{best:?}");
        };
        let step = sketch.steps.iter().find(|it| it.statement.id == *statement);
        let line = step.map(|it| it.statement.location.line);
        assert_eq!(line, Some(line_of("// ROOT-CAUSE")), "{flags}: {best:?}");
        let support = best.score.support;
        assert_eq!((support.failing_true, support.failing_false), (3, 0));
        assert_eq!((support.successful_true, support.successful_false), (0, 21));
        assert_eq!(
            support.failing_unobserved + support.successful_unobserved,
            0
        );
        server.stop();
    }
}

#[test]
fn from_import_to_a_sketch() {
    let place = registered("-O2");
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&place, data.path());
    let url = server.url();
    import(&place, 4, &["--server", &url]);
    import(&place, 5, &["--server", &url]);
    import(&place, 6, &["--server", &url]);
    server.quiet();
    let sketch = server.sketch();
    assert_drawn(&sketch, 5, "imported");
    let provenance = &sketch.provenance;
    assert_eq!(
        (provenance.failing_runs, provenance.successful_runs),
        (1, 2)
    );
    let campaign: CampaignSummary = server.get("/api/v1/campaigns/1");
    assert_eq!(campaign.state, CampaignState::Tracking);
    // The same file again is the same run.
    let again = import(&place, 5, &["--server", &url]);
    assert!(again.contains("sent to"), "{again}");
    server.stop();
}

/// A trace that cannot be decoded is said, and the failure is still diagnosed.
#[test]
fn what_cannot_be_decoded_is_said() {
    let place = registered("-O2");
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&place, data.path());
    let mut run = raw_record(&place, 3);
    for event in &mut run.pt.as_mut().unwrap().sideband {
        if let SidebandKind::Mapped(mapped) = &mut event.kind {
            mapped.build_id = None;
            mapped.path = "elsewhere".to_owned();
        }
    }
    server.post(&run);
    let sketch = server.sketch();
    let said = |gap: &Gap| {
        let sentence = gap.to_string();
        sentence.contains("its Intel PT could not be decoded: it names no mapping")
    };
    assert!(sketch.gaps.iter().any(said), "{:?}", sketch.gaps);
    server.stop();
}
