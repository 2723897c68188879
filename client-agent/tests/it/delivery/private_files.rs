//! Whatever the agent puts on a disk is for its user alone, whatever the umask says; and
//! values leave a machine that was installed disguised, by a secret of its own.

use crate::common;
use crate::common::{
    AGENT, FakeServer, Workshop,
    daemon::{eventually, silent_server},
    signed_patch,
};
use sketch_model::{Privacy, ProbeKind, RunRecord};
use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::UnixStream,
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command},
};

/// As on a machine where nobody thinks of modes.
fn without_umask(command: &mut Command) -> &mut Command {
    // SAFETY: the call only sets a number of the child's own.
    unsafe {
        command.pre_exec(|| {
            libc::umask(0);
            Ok(())
        })
    }
}

/// All files and folders below a folder and itself, with their modes.
fn modes(folder: &Path, into: &mut Vec<(PathBuf, u32)>) {
    let about = fs::symlink_metadata(folder).expect("is there");
    if !about.file_type().is_socket() {
        into.push((folder.to_owned(), about.permissions().mode() & 0o7777));
    }
    if about.is_dir() {
        for entry in fs::read_dir(folder).expect("readable") {
            modes(&entry.expect("readable").path(), into);
        }
    }
}

fn assert_private(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    modes(folder, &mut found);
    for (path, mode) in &found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(*mode, expected, "{} has mode {mode:o}", path.display());
    }
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into());
    found.iter().filter_map(|(path, _)| name(path)).collect()
}

#[test]
fn patches_accounts_spool_secret_and_records_are_the_users_own() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let server = FakeServer::start(Some(signed_patch(&base, &tracked)));
    let run = |url: &str| {
        let mut agent = workshop.agent();
        let status = without_umask(&mut agent)
            .args(["--server", url, "--key", &server.key()])
            .args(["--config", "/dev/null", "--privacy", "shapes"])
            .args(["--grace", "0.2", "--store-record"])
            .arg(workshop.path("record"))
            .arg("--")
            .arg(&base)
            .arg("kinds")
            .status()
            .expect("runs");
        assert!(status.success());
    };
    run(&server.url);
    // The second goes to the spool.
    run(&silent_server());
    let names = assert_private(&workshop.path("cache"));
    for kind in [
        "runtime-",
        "patch-",
        ".canary",
        ".newest",
        ".account",
        ".records",
        "privacy-secret",
    ] {
        let there = names.iter().any(|name| name.contains(kind));
        assert!(there, "{kind} among {names:?}");
    }
    assert_private(&workshop.path("record"));
}

/// A daemon with the configuration that is shipped, moved into a folder of the test's.
struct Shipped {
    child: Child,
    config: PathBuf,
}

impl Shipped {
    fn start(workshop: &Workshop, url: &str, key: &str) -> Shipped {
        let config = workshop.path("agent.toml");
        let socket = workshop.path("run/agent.sock");
        let shipped = include_str!("../../../packaging/agent.toml")
            .replace("http://127.0.0.1:7420", url)
            .replace("\"/etc/failsketch/signing.pub\"", &format!("{key:?}"))
            .replace("/run/failsketch/agent.sock", socket.to_str().expect("text"))
            .replace("canary = 0.5", "canary = 1.0");
        let cache = workshop.path("daemon-cache");
        fs::write(&config, format!("cache = {cache:?}\n{shipped}")).expect("written");
        let mut command = Command::new(AGENT);
        let child = without_umask(&mut command)
            .args(["daemon", "--config"])
            .arg(&config)
            .spawn()
            .expect("starts");
        let up = eventually(|| UnixStream::connect(&socket).is_ok());
        assert!(up, "the daemon listens");
        Shipped { child, config }
    }
}

impl Drop for Shipped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn written_values(record: &RunRecord) -> Vec<u64> {
    let events = record.threads.iter().flat_map(|thread| thread.events());
    events
        .filter(|event| matches!(event.kind, ProbeKind::Read | ProbeKind::Write))
        .map(|event| event.value)
        .collect()
}

#[test]
fn as_shipped_values_are_disguised_by_a_secret_that_all_users_of_a_machine_share() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let patch = signed_patch(&base, &tracked);
    let key = patch.public_key.clone();
    let server = FakeServer::start(Some(patch));
    let daemon = Shipped::start(&workshop, &server.url, &key);
    assert_private(&workshop.path("daemon-cache"));
    assert_eq!(
        fs::metadata(workshop.path("run"))
            .expect("made")
            .permissions()
            .mode()
            & 0o777,
        0o750
    );
    // Two users: each has a cache of its own.
    for (number, cache) in ["first", "second"].iter().enumerate() {
        let status = Command::new(AGENT)
            .args(["run", "--config"])
            .arg(&daemon.config)
            .arg("--cache")
            .arg(workshop.path(cache))
            .arg("--")
            .arg(&base)
            .arg("kinds")
            .status()
            .expect("runs");
        assert!(status.success());
        assert!(eventually(|| server.records().len() == number + 1));
        let own = workshop.path(cache).join("privacy-secret");
        assert!(!own.exists(), "the machine's is used");
    }
    let records = server.records();
    let of_this_machine: Vec<_> = records.iter().map(|r| r.privacy_key.clone()).collect();
    assert!(of_this_machine[0].is_some() && of_this_machine[0] == of_this_machine[1]);
    for record in &records {
        assert_eq!(record.privacy, Privacy::Shapes);
        assert_eq!(
            record.execution.tracked(),
            Some(common::VARIANT),
            "{:?}",
            record.gaps
        );
        let values = written_values(record);
        assert!(!values.contains(&42) && !values.contains(&43), "{values:?}");
        assert_eq!(values, written_values(&records[0]), "equal stays equal");
    }
}

#[test]
fn a_run_by_hand_against_a_server_of_this_machine_sends_values_as_they_are() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let (_, record) = workshop.record_tracked(&(base, tracked), &["kinds"]);
    assert_eq!(
        (record.privacy, record.privacy_key.clone()),
        (Privacy::Full, None)
    );
    assert!(written_values(&record).starts_with(&[42, 43]));
    assert!(!workshop.path("cache").join("privacy-secret").exists());
}

#[test]
fn two_machines_with_one_file_agree_and_without_it_do_not() {
    let record_of = |secret: Option<&str>| {
        let workshop = Workshop::new();
        let pair = workshop.compile_pair(&[]);
        let config = workshop.path("agent.toml");
        let text = match secret {
            Some(text) => {
                fs::write(workshop.path("secret"), text).expect("written");
                format!("privacy_secret = {:?}\n", workshop.path("secret"))
            }
            None => String::new(),
        };
        fs::write(&config, text).expect("written");
        let config = config.to_str().expect("text");
        let options = ["--config", config, "--privacy", "shapes"];
        workshop.record_tracked_with(&options, &pair, &["kinds"]).1
    };
    let fleet = "the same sixteen bytes or more";
    let (one, other) = (record_of(Some(fleet)), record_of(Some(fleet)));
    assert_eq!(one.privacy_key, other.privacy_key);
    assert_eq!(written_values(&one), written_values(&other));
    let (alone, alone_too) = (record_of(None), record_of(None));
    assert_ne!(alone.privacy_key, alone_too.privacy_key);
    assert_ne!(written_values(&alone), written_values(&alone_too));
}

#[test]
fn doctor_says_with_whom_values_cannot_be_compared() {
    let workshop = Workshop::new();
    let config = workshop.path("agent.toml");
    let secret = workshop.path("secret");
    let text = format!(
        "agent = \"web-1\"\ncache = {:?}\nsocket = {:?}\nprivacy_secret = {secret:?}\n\
         [policy]\nprivacy = \"shapes\"\n",
        workshop.path("cache"),
        workshop.path("none.sock"),
    );
    fs::write(&config, text).expect("written");
    let doctor = |server: Option<&str>| {
        let mut command = Command::new(AGENT);
        command.args(["doctor", "--json", "--config"]).arg(&config);
        command.args(server.iter().flat_map(|url| ["--server", url]));
        let output = command.output().expect("runs");
        let findings: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let list = findings.as_array().expect("a list").clone();
        let found = list.into_iter().find(|f| f["what"] == "privacy");
        let found = found.expect("is there");
        let word = |field: &str| found[field].as_str().expect("text").to_owned();
        (word("health"), word("detail"))
    };
    let (health, detail) = doctor(None);
    assert_eq!(health, "degraded");
    assert!(
        detail.contains("cannot be compared unless all have the same"),
        "{detail}"
    );
    assert!(!secret.exists(), "doctor only looks");

    fs::write(&secret, "sixteen bytes or more").expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("ours");
    let (health, detail) = doctor(None);
    assert_eq!(health, "degraded");
    assert!(detail.contains("chmod 600"), "{detail}");

    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("ours");
    let (health, detail) = doctor(None);
    assert_eq!(health, "ok");
    assert!(detail.contains("can be compared only with"), "{detail}");

    let agents = r#"[{"agent":"web-1","privacy_key":"00000000"},{"agent":"web-2","privacy_key":"12345678"},{"agent":"web-3"}]"#;
    let server = FakeServer::start_with_agents(agents);
    let (health, detail) = doctor(Some(&server.url));
    assert_eq!(health, "degraded");
    assert!(
        detail.contains("cannot be compared with those of web-2 (secret 12345678);"),
        "{detail}"
    );
}
