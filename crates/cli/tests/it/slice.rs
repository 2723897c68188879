//! `failsketch slice` on the pbzip2 miniature: the order that its failure has,
//! the three formats, and one clear sentence for what cannot be sliced.

use crate::support::{FAILSKETCH, Place};
use sketch_model::Slice;
use std::process::{Command, Output};

const PBZIP2: &str = include_str!("../../../../bugbase/pbzip2/pbzip2.c");

struct Registered {
    place: Place,
}

impl Registered {
    fn new() -> Registered {
        let place = Place::new(&[("pbzip2.c", PBZIP2)]);
        place.run_ok("failsketch-cc -O2 -pthread pbzip2.c -o pbzip2");
        assert!(place.register("pbzip2").status.success());
        Registered { place }
    }

    fn slice(&self, arguments: &str) -> Output {
        let store = self.place.store();
        let line = format!("{FAILSKETCH} slice --store {} {arguments}", store.display());
        self.place.command(&line).output().unwrap()
    }
}

fn stdout(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The line of the source that holds the text, from 1.
fn line(text: &str) -> u32 {
    let found = PBZIP2.lines().position(|l| l.contains(text));
    found.unwrap_or_else(|| panic!("no line has {text}")) as u32 + 1
}

fn unlock() -> u32 {
    line("free(work);") + 1
}

#[test]
fn the_chain_of_the_failure_is_in_its_order_in_every_mode() {
    let build = Registered::new();
    for alias in ["field", "andersen"] {
        let json = build.slice(&format!(
            "--build= --at pbzip2.c:{} --alias {alias} --format json",
            unlock()
        ));
        let slice: Slice = serde_json::from_str(&stdout(&json)).unwrap();
        let distance = |line: u32| {
            let mut entries = slice.entries.iter();
            let entry = entries.find(|e| e.statement.location.line == line);
            entry
                .unwrap_or_else(|| panic!("{alias}: line {line}"))
                .distance
        };
        let chain = [
            unlock(),
            line("queue *fifo = q;"),
            line("pthread_create(&con[i]"),
            line("queue *fifo = queueInit();"),
        ];
        let distances = chain.map(distance);
        assert!(
            distances.is_sorted_by(|near, far| near < far),
            "{alias}: {distances:?}"
        );
        assert_eq!(distances[0], 0, "{alias}");
        assert!(
            distance(line("q->mut = NULL;")) < 20,
            "{alias}: a step by memory"
        );
    }
}

#[test]
fn text_shows_the_source_and_the_reasons() {
    let build = Registered::new();
    let at = unlock();
    let text = stdout(&build.slice(&format!("--build= --at pbzip2.c:{at} --sigma 8")));
    assert!(text.starts_with(&format!(
        "Slice of pbzip2 from pbzip2.c:{at}: the nearest 8 of "
    )));
    assert!(text.contains(&format!(
        "  > {at:>5} │                 pthread_mutex_unlock(fifo->mut);"
    )));
    assert!(text.contains(&format!("stores what is loaded by pbzip2.c:{at}")));
    assert!(text.contains("in queueDelete, thread main"));
    let dot = stdout(&build.slice(&format!("--build= --at pbzip2.c:{at} --format dot")));
    assert!(dot.starts_with("digraph slice {") && dot.ends_with("}\n"));
    assert!(dot.contains("[label=\"stores what is loaded by\"]"));
}

#[test]
fn the_alias_mode_none_is_gone_and_the_server_has_no_modes() {
    let build = Registered::new();
    let refused = |output: Output, sentence: &str| {
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(sentence), "{said}");
    };
    refused(
        build.slice("--build= --at pbzip2.c:3 --alias none"),
        "none is no alias mode; choose field or andersen",
    );
    let serve = Command::new(FAILSKETCH)
        .args(["serve", "--alias", "field"])
        .output()
        .unwrap();
    refused(serve, "unexpected argument '--alias'");
}

#[test]
fn what_cannot_be_sliced_is_said_in_one_sentence() {
    let build = Registered::new();
    let cases = [
        (
            "--build= --at pbzip2.c:3",
            "line 3 of pbzip2.c has no code; the nearest lines",
        ),
        (
            "--build= --at other.c:3",
            "no code from a file other.c; it has pbzip2.c",
        ),
        ("--build= --at pbzip2.c", "pbzip2.c is not FILE:LINE"),
        (
            "--build=zz --at pbzip2.c:3",
            "no registered build begins with zz",
        ),
    ];
    for (arguments, sentence) in cases {
        let output = build.slice(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(sentence), "{said}");
    }
}
