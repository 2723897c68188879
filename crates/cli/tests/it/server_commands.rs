//! The commands that talk to a server, against the real `failsketch serve`: tokens,
//! failures, campaigns, and sentences for what is wrong.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use test_support::postgres::Postgres;

const FAILSKETCH: &str = env!("CARGO_BIN_EXE_failsketch");

struct Serving {
    process: Child,
    url: String,
}

impl Serving {
    fn start(data: &Path) -> Serving {
        Serving::with(data, &[])
    }

    fn with(data: &Path, more: &[&str]) -> Serving {
        let mut process = Command::new(FAILSKETCH)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .arg("--store")
            .arg(data.join("store"))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("failsketch serve");
        let mut line = String::new();
        let out = process.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let url = line
            .split_whitespace()
            .last()
            .expect("an address")
            .to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{line}");
        Serving { process, url }
    }

    /// Ends it as a service manager does; it must end well.
    fn end(mut self) {
        let pid = self.process.id().to_string();
        let told = Command::new("kill").arg(&pid).status().expect("kill");
        assert!(told.success());
        let status = self.process.wait().expect("its end");
        assert!(status.success(), "{status}");
    }
}

fn failsketch(arguments: &[&str]) -> Output {
    Command::new(FAILSKETCH)
        .args(arguments)
        .env_remove("FAILSKETCH_TOKEN")
        .env_remove("FAILSKETCH_SERVER")
        .output()
        .expect("failsketch")
}

fn good(arguments: &[&str]) -> String {
    let output = failsketch(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(arguments: &[&str]) -> String {
    let output = failsketch(arguments);
    assert!(!output.status.success(), "{arguments:?} was done");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(said.lines().count(), 1, "one sentence: {said}");
    said
}

#[test]
fn a_postgresql_keeps_what_a_file_would() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Postgres::shared().database();
    for _ in 0..2 {
        let server = Serving::with(folder.path(), &["--database", &database]);
        let listed = good(&["failures", "--json", "--server", &server.url]);
        assert_eq!(listed.trim(), "[]");
        server.end();
    }
    assert!(!folder.path().join("failsketch.sqlite").exists());

    let data = folder.path().to_str().expect("a name");
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        data,
        "--database",
    ];
    let nobody = "postgres:///none?host=/nonexistent&user=nobody";
    let said = refused(&[&serve[..], &[nobody]].concat());
    assert!(said.contains("database"), "{said}");
    let said = failsketch(&[&serve[..], &["mysql://here/it"]].concat());
    assert_eq!(said.status.code(), Some(2));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("mysql://here/it") && said.contains("postgres://"),
        "{said}"
    );
}

#[test]
fn tokens_are_made_used_and_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a name");
    let add = |role: &str, name: &str| {
        let token = good(&["token", "add", "--role", role, name, "--data", data]);
        let file = folder.path().join(format!("{name}.token"));
        std::fs::write(&file, token).expect("a file");
        file.to_str().expect("a name").to_owned()
    };
    let (dora, web) = (add("developer", "dora"), add("agent", "web-7"));
    let listed = good(&["token", "list", "--data", data]);
    assert_eq!(listed, "developer  dora\nagent      web-7\n");
    let json: serde_json::Value =
        serde_json::from_str(&good(&["token", "list", "--json", "--data", data])).expect("JSON");
    assert_eq!(json[1]["role"], "agent");

    let server = Serving::start(folder.path());
    let url = server.url.as_str();
    let nobody = refused(&["failures", "--server", url]);
    assert!(
        nobody.contains("--token") && nobody.contains("role developer"),
        "{nobody}"
    );
    let agent = refused(&["failures", "--server", url, "--token", &web]);
    assert!(agent.contains("`web-7` has role agent"), "{agent}");
    let listed = good(&["failures", "--server", url, "--token", &dora]);
    assert_eq!(listed, "no failure has been reported yet\n");
    assert_eq!(
        good(&["failures", "--json", "--server", url, "--token", &dora]),
        "[]\n"
    );
    for verb in ["show", "stop", "resume", "widen", "pin", "unpin", "declare"] {
        let said = refused(&["campaign", verb, "7", "--server", url, "--token", &dora]);
        assert!(said.contains("there is no campaign 7"), "{verb}: {said}");
    }
    good(&["token", "revoke", "dora", "--data", data]);
    let gone = refused(&["failures", "--server", url, "--token", &dora]);
    assert!(gone.contains("was revoked"), "{gone}");
    let unknown = refused(&["token", "revoke", "dora", "--data", data]);
    assert!(unknown.contains("there is no token `dora`"), "{unknown}");
    server.end();
}

#[test]
fn without_tokens_the_quick_start_works_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Serving::start(folder.path());
    let listed = good(&["failures", "--server", &server.url]);
    assert_eq!(listed, "no failure has been reported yet\n");
    server.end();
}

#[test]
fn what_cannot_be_served_is_said_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a name");
    let said = refused(&["serve", "--listen", "0.0.0.0:0", "--data", data]);
    assert!(said.contains("failsketch token add --role admin"), "{said}");
    let said = refused(&["failures", "--server", "http://127.0.0.1:1"]);
    assert!(
        said.contains("no server answers at http://127.0.0.1:1"),
        "{said}"
    );
    let said = refused(&[
        "failures",
        "--server",
        "http://127.0.0.1:1",
        "--token",
        "/nowhere",
    ]);
    assert!(said.contains("/nowhere cannot be read"), "{said}");
    let said = refused(&[
        "failures",
        "--server",
        "https://127.0.0.1:1",
        "--ca",
        "/nowhere",
    ]);
    assert!(said.contains("--ca names a PEM file"), "{said}");
}
