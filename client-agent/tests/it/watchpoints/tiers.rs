//! What is left where a machine refuses something: hooks without
//! watchpoints, the untouched program without shared memory.

use crate::common::{AGENT, FakeServer, Workshop, read_record, signed_patch};
use sketch_model::{Capabilities, Gap, RunRecord, WatchRefusal};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// Runs the agent on the tracked build where one system call is refused.
fn run_refused(
    workshop: &Workshop,
    call: libc::c_long,
    pair: &(PathBuf, PathBuf),
    options: &[&str],
    arguments: &[&str],
) -> (Output, Vec<RunRecord>) {
    let refuse = workshop.compile("refuse", "refuse", &[]);
    let server = FakeServer::start(Some(signed_patch(&pair.0, &pair.1)));
    let output = Command::new(refuse)
        .arg(call.to_string())
        .args([AGENT, "run", "--cache"])
        .arg(workshop.path("cache"))
        .args(["--server", &server.url, "--key", &server.key()])
        .args(["--canary", "1"])
        .args(options)
        .arg("--")
        .arg(&pair.0)
        .args(arguments)
        .output()
        .expect("starts");
    (output, server.records())
}

#[test]
fn without_perf_events_inline_probes_go_on_and_the_record_says_so() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, records) = run_refused(
        &workshop,
        libc::SYS_perf_event_open,
        &pair,
        &[],
        &["watch-and-crash"],
    );
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let [record] = records.as_slice() else {
        panic!("one record: {}", records.len());
    };
    assert_eq!(record.capabilities, Capabilities::hooks());
    assert!(record.execution.tracked().is_some());
    assert_eq!(record.threads[0].head.len(), 1);
    assert_eq!(record.watch.hits, []);
    assert_eq!(record.watch.refused, Some(WatchRefusal::NotOffered));
}

#[test]
fn a_policy_without_watchpoints_leaves_hooks_alone_and_says_so() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let no_watchpoints = ["--watch-way", "none"];
    let (_, record) = workshop.record_tracked_with(&no_watchpoints, &pair, &["watch"]);
    assert_eq!(record.capabilities, Capabilities::hooks());
    assert_eq!(record.watch.armed, 0);
    assert_eq!(record.watch.refused, Some(WatchRefusal::Policy));
    let (_, record) = workshop.record_tracked_with(&no_watchpoints, &pair, &["kinds"]);
    assert_eq!(record.threads[0].head.len(), 6);
}

/// In the configuration, twice, and by a flag that beats it.
#[test]
fn ways_of_earlier_versions_are_rings_and_the_agent_says_so_in_one_line() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let file = workshop.path("agent.toml");
    let path = file.to_str().expect("text");
    let told = |text: &str, options: &[&str]| -> Vec<String> {
        fs::write(&file, text).expect("written");
        let options = [&["--config", path], options].concat();
        let (output, record) = workshop.record_tracked_with(&options, &pair, &["watch"]);
        assert_eq!(record.watch.refused, None, "{text} {options:?}");
        assert!(record.watch.counted > 0, "{text} {options:?}");
        assert_eq!(record.watch.hits.len() as u64, record.watch.counted);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = said.lines().filter(|line| line.contains("watch_way"));
        lines.map(str::to_owned).collect()
    };
    let said = |way: &str| {
        let line = "is read as `ring`: hits no longer come by SIGTRAP";
        [format!("failsketch-agent: watch_way `{way}` {line}")]
    };
    let twice = "[policy]\nwatch_way = \"any\"\n\
                 [[program]]\nmatch = \"x\"\npolicy = { watch_way = \"any\" }\n";
    assert_eq!(told(twice, &[]), said("any"));
    assert_eq!(told("", &["--watch-way", "sigtrap"]), said("sigtrap"));
    assert_eq!(told(twice, &["--watch-way", "sigtrap"]), said("sigtrap"));
    assert_eq!(told("", &["--watch-way", "ring"]), [""; 0]);
}

/// A user who may lock no more memory: an ordinary one, since root may always.
#[test]
fn where_rings_cannot_be_mapped_hooks_go_on_and_the_record_says_why() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    // SAFETY: takes no arguments.
    let user = match unsafe { libc::geteuid() } {
        0 => 61917,
        user => user,
    };
    let hold = workshop.compile("hold", "hold", &[]);
    fs::set_permissions(workshop.path(""), fs::Permissions::from_mode(0o777)).expect("allowed");
    let mut holder = Command::new(hold)
        .arg(user.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut said = String::new();
    let output = holder.stdout.take().expect("is piped");
    BufReader::new(output).read_line(&mut said).expect("read");
    assert_eq!(said, "held\n");

    let server = FakeServer::start(Some(signed_patch(&pair.0, &pair.1)));
    // As the agent's own file may be out of that user's reach.
    let agent = workshop.path("agent");
    fs::copy(AGENT, &agent).expect("copied");
    let mut command = Command::new(agent);
    command
        .args(["run", "--canary", "1", "--max-overhead", "0", "--cache"])
        .arg(workshop.path("cache"))
        .args(["--server", &server.url, "--key", &server.key(), "--"])
        .arg(&pair.0)
        .arg("watch-and-crash")
        .uid(user);
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const none);
            Ok(())
        });
    }
    let output = command.output().expect("starts");
    drop(holder.stdin.take());
    holder.wait().expect("ends");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{complaint}");
    let records = server.records();
    let record = records.first().expect(&complaint);
    assert_eq!(record.threads[0].head.len(), 1);
    assert_eq!((record.watch.counted, record.watch.hits.len()), (0, 0));
    let errno = Some(libc::EPERM);
    let refused = WatchRefusal::RingNotMapped { errno };
    assert_eq!(record.watch.refused, Some(refused));
}

#[test]
fn without_shared_memory_the_program_runs_untouched_and_the_agent_says_so_once() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let options = ["--repeat", "3"];
    let (output, records) = run_refused(
        &workshop,
        libc::SYS_memfd_create,
        &pair,
        &options,
        &["threads", "5000"],
    );
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr);
    let once = said
        .lines()
        .filter(|line| line.contains("the run could not be recorded: memfd_create was refused"))
        .count();
    assert_eq!(once, 1, "{said}");
    assert_eq!(records.len(), 3);
    for record in &records {
        assert_eq!(
            (record.execution.tracked(), record.threads.len()),
            (None, 0)
        );
        assert!(
            matches!(&record.gaps[..], [.., Gap::RunNotRecorded { because }] if because.contains("memfd_create")),
            "{:?}",
            record.gaps
        );
    }
}

#[test]
fn a_filter_of_the_machine_is_not_taken_for_one_of_the_program() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("rough", &[]);
    // Any call that nobody makes: what counts is that there is a filter.
    let (output, records) = run_refused(
        &workshop,
        libc::SYS_swapon,
        &pair,
        &[],
        &["overflow-in-thread"],
    );
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let gaps = &records[0].gaps;
    assert!(!gaps.contains(&Gap::CrashCapturedInSandbox), "{gaps:?}");
}

#[test]
fn a_bare_run_needs_nothing_of_all_this() {
    let workshop = Workshop::new();
    let refuse = workshop.compile("refuse", "refuse", &[]);
    let program = workshop.compile("crash", "crash", &[]);
    let file = workshop.path("record.json");
    let status = Command::new(refuse)
        .arg(libc::SYS_memfd_create.to_string())
        .args([AGENT, "run", "--cache"])
        .arg(workshop.path("cache"))
        .arg("--store-record")
        .arg(&file)
        .arg("--")
        .arg(&program)
        .args(["exit", "42"])
        .status()
        .expect("starts");
    assert_eq!(status.code(), Some(42));
    assert!(!read_record(&file).failed());
}
