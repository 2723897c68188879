//! `failsketch import`: a run of a registered program, traced in software and
//! written as `perf.data`, comes back as statements and as a run record; files
//! that others recorded say exactly what is missing.

use crate::support::serving::Serving;
use crate::support::{FAILSKETCH, Place};
use flate2::read::GzDecoder;
use formats::address_map::AddressMap;
use formats::elf::build_id;
use pt_decoder::worker::{Answer, Job, Limits, WorkerError, decode_isolated, run_job};
use sketch_model::{
    BuildId, Capabilities, CpuModel, FailureKind, Outcome, PtBuffer, PtRecord, RunRecord,
    SidebandKind, StatementId,
};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use test_support::intel_pt::tracer::perf_file::PerfFile;
use test_support::intel_pt::tracer::ptrace::{CLOCK, Plan, record};
use test_support::intel_pt::tracer::writer::USUAL;

/// Ground truth on the line: how often it is entered, or that it is not. Lines
/// that a call returns into, or a jump of clang's stands on, have none.
const SOURCE: &str = "\
volatile int zero;
static inline int twice(int x) {
  return x + x; // 5
}
__attribute__((noinline)) static int last(int n) {
  int *nowhere = (int *)(long)zero; // 1
  return *nowhere + n; // FAILS
}
__attribute__((noinline)) static int pick(int n) {
  if (n > 100) // 5
    return -1; // NEVER
  zero += twice(n);
  return n & 1;
}
int main(void) {
  int sum = 0;
  for (int i = 0; i < 5; i++)
    if (pick(i))
      sum += 7; // 2
  if (sum == 1000)
    return 3; // NEVER
  zero = 0;
  return last(sum);
}
";

fn line_of(text: &str) -> u32 {
    let line = SOURCE.lines().position(|line| line.ends_with(text));
    line.unwrap() as u32 + 1
}

struct Recorded {
    place: Place,
    build: BuildId,
    record: PtRecord,
}

fn recorded(flags: &str) -> Recorded {
    let place = Place::new(&[("crash.c", SOURCE)]);
    place.run_ok(&format!("failsketch-cc {flags} crash.c -o crash"));
    let registered = place.register("crash");
    assert!(registered.status.success(), "{}", words(&registered.stderr));
    let program = place.path("crash");
    let build = formats::elf::build_id(&std::fs::read(&program).unwrap()).unwrap();
    let run = record(&program, "main", &Plan::new(&[USUAL]));
    assert_eq!(run.status, -11);
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
        frequency: None,
        clock: Some(CLOCK),
        buffers: vec![PtBuffer {
            cpu: Some(0),
            tid: None,
            bytes: run.traces[0][0].clone(),
        }],
        sideband,
        decoded: None,
    };
    Recorded {
        place,
        build,
        record,
    }
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn import(place: &Place, file: &[u8], more: &[&str]) -> Output {
    std::fs::write(place.path("perf.data"), file).unwrap();
    place
        .command(&format!("{FAILSKETCH} import perf.data --store"))
        .arg(place.store())
        .args(more)
        .env_remove("FAILSKETCH_TOKEN")
        .env_remove("FAILSKETCH_TOKEN_FILE")
        .env_remove("FAILSKETCH_CA")
        .output()
        .unwrap()
}

#[test]
fn a_crash_comes_back_as_statements_and_as_a_failure() {
    for flags in ["-O0", "-O2"] {
        let Recorded {
            place,
            build,
            record,
        } = recorded(flags);
        let file = PerfFile::new(&record, &[], &["perf", "record", "-e", "intel_pt//u"]).file();
        let arguments = [
            "--statements",
            "--failed",
            "SIGSEGV",
            "--output",
            "run.json",
        ];
        let output = import(&place, &file, &arguments);
        assert!(output.status.success(), "{}", words(&output.stderr));
        let said = words(&output.stdout);
        let times = |line: u32| {
            let place = format!(" crash.c:{line} ");
            let row = said.lines().find(|row| row.contains(&place));
            row.map(|row| {
                row.split_whitespace()
                    .next()
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            })
        };
        for (number, line) in SOURCE.lines().enumerate() {
            let number = number as u32 + 1;
            match line.rsplit_once("// ").map(|(_, truth)| truth) {
                Some("NEVER") => assert_eq!(times(number), None, "{flags} {line}\n{said}"),
                Some("FAILS") | None => {}
                // The optimiser may merge or drop a line, or enter it twice.
                Some(count) if flags == "-O0" => {
                    assert_eq!(times(number), count.parse().ok(), "{flags} {line}\n{said}");
                }
                Some(_) => {}
            }
        }
        assert!(
            times(line_of("// FAILS")).is_some() || flags == "-O2",
            "{said}"
        );

        let run: RunRecord = serde_json::from_slice(&place.read("run.json")).unwrap();
        let offers = Capabilities::intel_pt();
        assert_eq!((&run.build, &run.capabilities), (&build, &offers));
        let Outcome::Failure(failure) = &run.outcome else {
            panic!("{:?}", run.outcome);
        };
        let kind = FailureKind::Signal {
            number: 11,
            name: "SIGSEGV".to_owned(),
        };
        assert_eq!(failure.kind, kind);
        let frame = &failure.threads[0].frames[0];
        let binary = place.read("crash");
        let build = build_id(&binary).unwrap();
        let map = AddressMap::read(&binary, &build, |_, _, line| Some(StatementId(line)));
        let failing = map.unwrap().statement_at(frame.lookup).unwrap();
        assert_eq!(failing, StatementId(line_of("// FAILS")), "{flags}");
        assert_eq!(run.pt.unwrap().buffers, record.buffers);
    }
}

#[test]
fn a_server_with_tokens_and_tls_takes_the_run_from_who_has_a_token_and_trusts_it() {
    let Recorded { place, record, .. } = recorded("-O0");
    let file = PerfFile::new(&record, &[], &["perf", "record"]).file();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ours = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let theirs = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = write("server.pem", &ours.cert.pem());
    let other = write("other.pem", &theirs.cert.pem());
    let key = write("server.key", &ours.signing_key.serialize_pem());
    let data = folder.path().join("data");
    let token = |name: &str, more: &[&str]| {
        let made = Command::new(FAILSKETCH)
            .args(["token", "add", name, "--data"])
            .arg(&data)
            .args(more)
            .output()
            .unwrap();
        write(name, &words(&made.stdout))
    };
    let fleet = token("perf", &["--role", "agent", "--fleet"]);
    let reader = token("dora", &["--role", "developer"]);
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let server = Serving::of_store(&data, &place.store(), &tls);
    let url = server.url.as_str();
    let send = |more: &[&str]| {
        let arguments = ["--failed", "SIGSEGV", "--server", url];
        import(&place, &file, &[&arguments[..], more].concat())
    };
    for (more, said) in [
        (&["--ca", &certificate][..], "--token"),
        (&["--ca", &certificate, "--token", &reader], "role agent"),
        (&["--ca", &other, "--token", &fleet], "no server answers"),
        (&["--token", &fleet], "no server answers"),
    ] {
        let output = send(more);
        let error = words(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{error}");
        assert_eq!(error.lines().count(), 1, "one sentence: {error}");
    }
    let sent = send(&["--ca", &certificate, "--token", &fleet]);
    assert!(sent.status.success(), "{}", words(&sent.stderr));
    assert!(words(&sent.stdout).contains(&format!(" sent to {url}\n")));
    let listed = Command::new(FAILSKETCH)
        .args(["failures", "--json", "--server", url, "--ca", &certificate])
        .args(["--token", &reader])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", words(&listed.stderr));
    server.end();
}

#[test]
fn without_the_binaries_it_says_which_are_missing() {
    let place = Place::new(&[]);
    for packed in [
        &include_bytes!("../../../../pt-decoder/tests/data/perf.data.intel_pt-4.14.gz")[..],
        &include_bytes!("../../../../pt-decoder/tests/data/perf.data.piped.intel_pt-4.14.gz")[..],
    ] {
        let mut file = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut file).unwrap();
        let output = import(&place, &file, &[]);
        assert!(output.status.success(), "{}", words(&output.stderr));
        let said = words(&output.stdout);
        for expected in [
            "bytes of Intel PT in 2 buffers",
            "missing: /usr/bin/coreutils (",
            "missing: [vdso] (",
            "the kernel was traced as well",
            "the trace itself: ",
            "No registered build ran in this recording",
        ] {
            assert!(said.contains(expected), "{expected} is not in:\n{said}");
        }
    }
}

#[test]
fn refusals_are_one_sentence() {
    let place = Place::new(&[]);
    let output = import(&place, b"something else", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        words(&output.stderr),
        "failsketch: perf.data cannot be imported: this is not a perf.data file; \
         make one with `perf record -e intel_pt//u`\n"
    );
}

fn job() -> Job {
    let Recorded { build, record, .. } = recorded("-O0");
    Job {
        record,
        files: Vec::new(),
        build,
        map: None,
        branches: None,
    }
}

fn worker() -> Command {
    let mut command = Command::new(FAILSKETCH);
    command.arg("pt-worker");
    command
}

#[test]
fn the_worker_answers_as_the_function_does() {
    let job = job();
    let answer = decode_isolated(worker(), &job, Limits::default()).unwrap();
    assert_eq!(answer, run_job(&job));
    assert_ne!(answer, Answer::default());
}

#[test]
fn limits_are_kept_and_said() {
    let job = job();
    let with = |limits| decode_isolated(worker(), &job, limits).unwrap_err();
    let usual = Limits::default();
    let no_time = Limits {
        wall: Duration::ZERO,
        ..usual
    };
    assert!(matches!(with(no_time), WorkerError::TooLong(_)));
    let no_processor = Limits {
        cpu_seconds: 0,
        ..usual
    };
    let ended = with(no_processor);
    assert!(
        matches!(ended, WorkerError::Ended { cpu: 0, .. }),
        "{ended}"
    );
    // Not even the program itself fits.
    let no_memory = Limits {
        memory: 4 << 20,
        ..usual
    };
    let ended = with(no_memory);
    let refused = matches!(
        ended,
        WorkerError::Ended { .. } | WorkerError::BadAnswer(_) | WorkerError::Start(_)
    );
    assert!(refused, "{ended}");
}
