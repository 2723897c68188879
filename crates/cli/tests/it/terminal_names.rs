//! Names that act on a terminal, in builds, sketches and servers' answers: whatever
//! the commands print of them is only seen.

use crate::support::{FAILSKETCH, Place};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

/// Renames the window, clears the screen, goes back in the line, and turns it round.
const NASTY: &str = "a\x1b]0;owned\x07b\x1b[2J\u{9b}1Ac\rd\u{202e}e\u{2066}f\ng\x7f";
const SEEN: &str = "a\\u{1b}]0;owned\\u{7}b\\u{1b}[2J\\u{9b}1Ac\\rd\\u{202e}e\\u{2066}f\\ng\\u{7f}";

fn acts(c: char) -> bool {
    c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What a command printed, of which nothing acts.
fn inert(output: Output) -> String {
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).expect("text");
    let acting: Vec<char> = printed.chars().filter(|c| acts(*c)).collect();
    assert!(acting.is_empty(), "{acting:?} in {printed:?}");
    printed
}

fn failsketch(arguments: &[&str]) -> Output {
    Command::new(FAILSKETCH)
        .args(arguments)
        .env_remove("FAILSKETCH_TOKEN")
        .output()
        .expect("failsketch")
}

/// A sketch in which every text is nasty.
fn sketch() -> Value {
    let fixture = include_str!("../../../../viewer/tests/fixtures/pbzip2.json");
    let mut sketch: Value = serde_json::from_str(fixture).expect("JSON");
    for key in ["program", "title", "summary", "build"] {
        sketch[key] = json!(NASTY);
    }
    sketch["said"] = json!(NASTY);
    sketch["stack"] = json!([NASTY]);
    sketch["gaps"] = json!([NASTY]);
    sketch["provenance"]["privacy"] = json!(NASTY);
    sketch["provenance"]["control_flow"] = json!(NASTY);
    sketch["provenance"]["drawn_run"] = json!(NASTY);
    for thread in sketch["threads"].as_array_mut().expect("threads") {
        thread["role"] = json!(NASTY);
        thread["created_at"] = json!([{ "file": NASTY, "line": 7 }]);
    }
    for step in sketch["steps"].as_array_mut().expect("steps") {
        step["statement"]["text"] = json!(NASTY);
        step["statement"]["function"] = json!(NASTY);
        step["statement"]["location"]["file"] = json!(NASTY);
    }
    for predictor in sketch["predictors"].as_array_mut().expect("predictors") {
        predictor["sentence"] = json!(NASTY);
    }
    sketch
}

fn summary() -> Value {
    json!({
        "id": 1, "build": NASTY, "program": NASTY, "signature": NASTY, "title": NASTY,
        "state": "failed", "problem": NASTY, "sigma": 16, "iteration": 1, "runs": 2,
        "failures": 1, "tracked_failing": 0, "tracked_successful": 0, "sketch_version": 1,
        "best": { "class": "value", "sentence": NASTY, "precision": 1.0, "recall": 1.0,
                  "f_measure": 1.0 },
    })
}

/// A server that says what a hostile one would, for as long as the test lives.
fn hostile_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            drop(lines);
            let (status, body) = match request.split(' ').nth(1).unwrap_or_default() {
                "/api/v1/campaigns" => ("200 OK", json!([summary()])),
                "/api/v1/campaigns/1" => ("200 OK", summary()),
                "/api/v1/campaigns/1/sketch" => ("200 OK", sketch()),
                _ => ("404 Not Found", json!({ "error": NASTY })),
            };
            let body = body.to_string();
            let length = body.len();
            // The command may have gone; its test notices by itself.
            let _ = (&stream).write_all(
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
                    .as_bytes(),
            );
        }
    });
    url
}

#[test]
fn what_a_server_says_is_seen_and_does_nothing() {
    let url = hostile_server();
    let at = ["--server", url.as_str()];
    for command in [
        &["failures"][..],
        &["campaign", "show", "1"],
        &["sketch", "show", "1", "--watch"],
    ] {
        let shown = inert(failsketch(&[command, &at].concat()));
        assert!(shown.contains(SEEN), "{command:?}: {shown}");
    }
    for command in [
        &["failures", "--json"][..],
        &["campaign", "show", "1", "--json"],
    ] {
        let shown = inert(failsketch(&[command, &at].concat()));
        let value: Value = serde_json::from_str(&shown).expect("JSON");
        let one = value.get(0).unwrap_or(&value);
        assert_eq!(one["program"], NASTY, "JSON says it exactly");
    }
    let refused = failsketch(&[&["campaign", "stop", "7"], &at[..]].concat());
    assert!(!refused.status.success());
    let said = inert(refused);
    assert!(said.contains("a\\u{1b}]0;owned\\u{7}b"), "{said}");
}

#[test]
fn what_a_sketch_holds_is_seen_and_does_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sketch.json");
    std::fs::write(&file, sketch().to_string()).expect("a file");
    let file = file.to_str().expect("a name");
    for format in ["text", "markdown", "html", "svg", "json", "callgrind"] {
        let command = ["sketch", "show", "--file", file, "--format", format];
        let shown = inert(failsketch(&command));
        assert!(shown.contains("owned"), "{format}: {shown}");
    }
    // With colours there are sequences, all of them ours.
    let command = ["sketch", "show", "--file", file, "--color", "always"];
    let coloured = String::from_utf8(failsketch(&command).stdout).expect("text");
    assert!(coloured.contains("\\u{1b}]0;owned"), "{coloured}");
    for piece in coloured.split('\x1b').skip(1) {
        let (sequence, rest) = piece.split_once('m').expect("a colour ends with m");
        let digits = sequence.strip_prefix('[').expect("a colour begins so");
        assert!(
            digits.chars().all(|c| c.is_ascii_digit() || c == ';'),
            "{piece}"
        );
        assert!(!rest.chars().any(acts), "{piece:?}");
    }
}

#[test]
fn what_a_build_is_called_is_seen_and_does_nothing() {
    let place = Place::new(&[]);
    // A file's name takes anything but a slash; spaces would end it here.
    let source = "n\x1b]0;owned\x07\u{202e}.c";
    let text = "int main(int n, char **v) {\n  int x = n; /* \x1b[2J\u{202e} */\n  return x;\n}\n";
    std::fs::write(place.path(source), text).expect("a file");
    place.run_ok(&format!(
        "failsketch-cc -O0 {source} -o nasty\x1b]0;owned\x07"
    ));
    let registered = place.register("nasty\x1b]0;owned\x07");
    assert!(registered.status.success(), "{registered:?}");
    let said = inert(registered);
    assert!(said.contains("nasty\\u{1b}]0;owned\\u{7}"), "{said}");
    let run = |arguments: &[&str]| {
        let mut command = place.command(&format!("{FAILSKETCH} {}", arguments[0]));
        let output = command
            .args(&arguments[1..])
            .arg("--store")
            .arg(place.store());
        let output = output.output().expect("failsketch");
        assert!(output.status.success(), "{output:?}");
        inert(output)
    };
    let listed = run(&["builds"]);
    assert!(listed.contains("nasty\\u{1b}]0;owned\\u{7}"), "{listed}");
    let manifests: Value = serde_json::from_str(&run(&["builds", "--json"])).expect("JSON");
    let build = manifests[0]["build_id"].as_str().expect("an id");
    assert_eq!(manifests[0]["program"], "nasty\x1b]0;owned\x07");
    let at = format!("{source}:3");
    let of = ["--build", build, "--at", &at];
    for format in ["text", "json", "dot"] {
        let shown = run(&[&["slice", "--format", format], &of[..]].concat());
        assert!(shown.contains("owned"), "{format}: {shown}");
    }
    for format in ["text", "json"] {
        run(&[&["plan", "--format", format], &of[..]].concat());
    }
}

/// Whoever hands over a file chose what its sources are called.
#[test]
fn what_a_refused_module_is_called_is_seen_and_does_nothing() {
    let place = Place::new(&[]);
    let source = "n\x1b]0;owned\x07\u{202e}.c";
    std::fs::write(place.path(source), "int main(void) { return 0; }\n").expect("a file");
    place.run_ok(&format!("failsketch-cc -O0 {source} -o nasty"));
    let output = place
        .command(&format!("{FAILSKETCH} register nasty --store"))
        .arg(place.store())
        .env("FAILSKETCH_CLANG", "/bin/false")
        .output();
    let shown = inert(output.expect("failsketch"));
    assert!(
        shown.contains("n\\u{1b}]0;owned\\u{7}\\u{202e}.c is untrackable"),
        "{shown}"
    );
}
