//! The commands that talk to a server, against the real `failsketch serve`: tokens,
//! failures, campaigns, and sentences for what is wrong.

use crate::support::serving::{FAILSKETCH, Serving};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use test_support::postgres::Postgres;

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

fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    metadata.permissions().mode() & 0o777
}

#[test]
fn whatever_the_umask_only_its_user_reads_the_servers_files_and_wider_ones_are_closed() {
    let files = [
        "failsketch.sqlite",
        "failsketch.sqlite-wal",
        "failsketch.sqlite-shm",
        "lock",
        "signing.key",
        "signing.pub",
    ];
    for umask in ["000", "022", "777"] {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("new/data");
        let server = Serving::under(umask, &data);
        good(&["failures", "--server", &server.url]);
        assert_eq!(mode(&data), 0o700, "umask {umask}");
        assert_eq!(mode(&data.join("blobs")), 0o700, "umask {umask}");
        for name in files {
            assert_eq!(mode(&data.join(name)), 0o600, "{name}, umask {umask}");
        }
        let log = server.end();
        assert!(!log.contains("other users could read"), "{log}");

        fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("a mode");
        let database = data.join("failsketch.sqlite");
        fs::set_permissions(&database, Permissions::from_mode(0o644)).expect("a mode");
        let server = Serving::under(umask, &data);
        assert_eq!((mode(&data), mode(&database)), (0o700, 0o600));
        let log = server.end();
        assert_eq!(log.matches("other users could read").count(), 1, "{log}");
    }
}
