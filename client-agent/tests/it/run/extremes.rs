//! Disks that are full or cannot be written to, records of a gigabyte, and
//! programs that make processes without measure: bounded, said, and harmless.

use crate::common;
use crate::common::{
    AGENT, FakeServer, Workshop,
    daemon::{Daemon, eventually, segments, silent_server},
};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

/// Runs a shell script with a file system of its own, of 512 kB, mounted at
/// `disk`; the script gets the agent as $AGENT and the folder as $DISK.
fn on_a_small_disk(workshop: &Workshop, script: &str, arguments: &[&str]) -> Output {
    let disk = workshop.path("disk");
    fs::create_dir_all(&disk).expect("made");
    let mut unshare = Command::new("unshare");
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        unshare.arg("--map-root-user");
    }
    let output = unshare
        .args(["--mount", "sh", "-c"])
        .arg(format!(
            "mount -t tmpfs -o size=512k none \"$DISK\" || exit 99\n{script}"
        ))
        .arg("sh")
        .args(arguments)
        .env("AGENT", AGENT)
        .env("DISK", &disk)
        .output()
        .expect("unshare is part of every Debian");
    assert_ne!(
        output.status.code(),
        Some(99),
        "this machine lets nobody mount in a namespace of their own: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_full_disk_costs_records_and_nothing_else() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let run = r#"
        run() { "$AGENT" run --config /dev/null --cache "$DISK/cache" --server "$1" \
            --grace 0.2 -- "$2" exit 7 2>"$DISK.said"; echo "exit $?"; grep -c "$3" "$DISK.said"; }
        run "$1" "$2" "sent later"
        head -c 1m /dev/zero >"$DISK/fill"
        run "$1" "$2" "the record is lost.*No space left"
        rm "$DISK/fill"
        run "$1" "$2" "sent later"
    "#;
    let silent = silent_server();
    let output = on_a_small_disk(&workshop, run, &[&silent, program.to_str().expect("text")]);
    assert_eq!(
        text(&output.stdout),
        "exit 7\n1\nexit 7\n1\nexit 7\n1\n",
        "{} {}",
        text(&output.stderr),
        fs::read_to_string(workshop.path("disk.said")).unwrap_or_default()
    );
}

#[test]
fn a_daemon_on_a_full_disk_refuses_and_takes_again() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let config = workshop.path("agent.toml");
    let (socket, cache) = (workshop.path("agent.sock"), workshop.path("cache"));
    let text_of_config = format!(
        "server = {:?}\nsocket = {socket:?}\ncache = {cache:?}\n[spool]\nfolder = {:?}\n",
        silent_server(),
        workshop.path("disk/spool"),
    );
    fs::write(&config, text_of_config).expect("written");
    let script = r#"
        "$AGENT" daemon --config "$1" 2>"$DISK.daemon" & daemon=$!
        i=0; while [ ! -S "$3" ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done
        run() { "$AGENT" run --config "$1" -- "$2" exit 7 2>"$DISK.said"; echo "exit $?"
            grep -c "$3" "$DISK.said"; }
        waiting() { ls "$4/handover" 2>/dev/null | wc -l; }
        run "$1" "$2" "."
        head -c 1m /dev/zero >"$DISK/fill"
        # A small record may still fit into the last page that the spool has.
        i=0; while :; do
            "$AGENT" run --config "$1" -- "$2" exit 7 2>"$DISK.said"; code=$?
            refused=$(grep -c "sent later: the daemon refused.*No space left" "$DISK.said")
            i=$((i+1)); if [ "$refused" = 1 ] || [ $i -ge 20 ]; then break; fi
        done
        echo "exit $code"; echo "$refused"
        rm "$DISK/fill"
        ls "$4/handover" | wc -l
        run "$1" "$2" "."
        ls "$4/handover" | wc -l
        kill -0 $daemon && echo "the daemon lives"
        kill -9 $daemon
    "#;
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    let output = on_a_small_disk(
        &workshop,
        script,
        &[
            &path(&config),
            &path(&program),
            &path(&socket),
            &path(&cache),
        ],
    );
    let said = fs::read_to_string(workshop.path("disk.said")).unwrap_or_default();
    // The first run says nothing but that no server answers; then one refusal, kept
    // by its user; and then both are handed over.
    assert_eq!(
        text(&output.stdout),
        "exit 7\n1\nexit 7\n1\n1\nexit 7\n1\n0\nthe daemon lives\n",
        "{} {said}",
        text(&output.stderr),
    );
}

#[test]
fn a_read_only_disk_is_said_and_the_command_runs() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let script = r#"
        run() { "$AGENT" run --config /dev/null --cache "$DISK/cache" --server "$1" --grace 0.2 \
            --store-record "$DISK/record" -- "$2" exit 7 2>"$DISK.said"; echo "exit $?"; }
        mount -o remount,ro "$DISK" || exit 99
        run "$1" "$2"
        # A cache that was filled before is used as it is.
        mount -o remount,rw "$DISK"; run "$1" "$2"; mount -o remount,ro "$DISK"
        run "$1" "$2"
    "#;
    let silent = silent_server();
    let output = on_a_small_disk(
        &workshop,
        script,
        &[&silent, program.to_str().expect("text")],
    );
    assert_eq!(
        text(&output.stdout),
        "exit 7\nexit 7\nexit 7\n",
        "{}",
        text(&output.stderr)
    );
    let said = fs::read_to_string(workshop.path("disk.said")).expect("said");
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(said.contains("the record is lost"), "{said}");
    assert!(!said.contains("crashes cannot be captured"), "{said}");
}

/// The most memory that a process has had, in megabytes.
fn most_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kb.expect("every process has one") / 1000
}

#[test]
fn a_record_of_a_gigabyte_is_refused_unread() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let server = FakeServer::start(None);
    let daemon = Daemon::start(&workshop, &server.url, "", "");
    let mut socket = UnixStream::connect(workshop.path("agent.sock")).expect("connects");
    let head = "POST /api/v1/runs HTTP/1.1\r\ncontent-length: 1073741824\r\n\r\n";
    let message = format!("{head}{:4096}", "");
    socket
        .write_all(message.as_bytes())
        .expect("is read so far");
    let mut answer = Vec::new();
    // It may close before all of ours was read.
    let _ = socket.read_to_end(&mut answer);
    let why = text(&answer);
    assert!(why.starts_with("HTTP/1.1 400 "), "{why}");
    assert!(why.contains("1073741824 bytes is too long"), "{why}");
    assert!(most_memory(daemon.id()) < 50);
    assert_eq!(daemon.run(&program, &["exit", "7"]), Some(7));
    assert!(eventually(|| server.records().len() == 1), "it goes on");
}

#[test]
fn a_thousand_short_runs_pass_through_one_daemon() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let server = FakeServer::start(None);
    let daemon = Daemon::start(&workshop, &server.url, "", "");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let ran = Command::new(AGENT)
                    .args(["run", "--config"])
                    .arg(&daemon.config)
                    .args(["--repeat", "250", "--"])
                    .arg(&program)
                    .output()
                    .expect("runs");
                let said = text(&ran.stderr);
                assert!(!said.contains("lost") && !said.contains("later"), "{said}");
            });
        }
    });
    assert!(eventually(|| server.records().len() >= 1000));
    let ids: BTreeSet<_> = server.records().into_iter().map(|r| r.id).collect();
    assert_eq!(ids.len(), 1000, "each arrived");
    let spool = workshop.path("daemon-cache").join("spool");
    assert!(eventually(|| segments(&spool) == 0));
    assert!(
        most_memory(daemon.id()) < 64,
        "{}",
        most_memory(daemon.id())
    );
}

/// Runs the tracked build of `swarm` under the agent: exit status, the agent's
/// largest memory in megabytes, and the record's size.
fn swarm(workshop: &Workshop, arguments: &[&str], stdin: Stdio) -> (i32, u64, usize) {
    let (base, tracked) = workshop.compile_pair_of("swarm", &[]);
    let server = FakeServer::start(Some(common::signed_patch(&base, &tracked)));
    let mut child = workshop
        .agent()
        .args(["--server", &server.url, "--key", &server.key(), "--"])
        .arg(&base)
        .args(arguments)
        .stdin(stdin)
        .spawn()
        .expect("starts");
    // Not by wait4: what it tells of memory includes that of the process which
    // started the agent, and this one is large.
    let mut memory = 0;
    let status = loop {
        memory = memory.max(peak_memory(child.id()));
        match child.try_wait().expect("it is our child") {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    let records = server.records();
    assert_eq!(records.len(), 1);
    assert!(
        records[0].execution.tracked().is_some(),
        "{:?}",
        records[0].gaps
    );
    // Forked children record nothing.
    assert_eq!(records[0].threads.first().map(|t| t.tid > 0), Some(true));
    let size = server.body("POST /api/v1/runs").len();
    (status.code().expect("it exited"), memory, size)
}

/// The most memory that a process has had so far, in megabytes; 0 once it has ended.
fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    peak.and_then(|peak| peak.parse::<u64>().ok()).unwrap_or(0) / 1000
}

#[test]
fn programs_that_make_processes_without_measure_are_left_to_it() {
    let workshop = Workshop::new();
    let (status, memory, size) = swarm(&workshop, &["short-lived", "1000"], Stdio::null());
    assert_eq!(status, 21);
    assert!(memory < 100 && size < 100_000, "{memory} MB, {size} bytes");
    // 512 processes that nobody waits for, with a thread each.
    let (status, memory, size) = swarm(&workshop, &["tree", "9"], Stdio::null());
    assert_eq!(status, 22);
    assert!(memory < 100 && size < 100_000, "{memory} MB, {size} bytes");
}

#[test]
fn the_agent_does_not_wait_for_children_that_outlive_the_command() {
    let workshop = Workshop::new();
    // They live until the other end of this pipe is closed, which is after the
    // agent has ended: it ends only if it does not wait for them.
    let (theirs, ours) = std::io::pipe().expect("a pipe");
    let (status, _, _) = swarm(&workshop, &["outliving", "20"], theirs.into());
    assert_eq!(status, 23);
    drop(ours);
}
