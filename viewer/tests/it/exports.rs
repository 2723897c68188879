//! What leaves the tool: the picture and the profile, as small snapshots, and
//! read back by a strict reader of our own and by valgrind's.

use crate::common::{
    first_failure, five_threads, hostile, large, pbzip2, real, three_threads, turns_text,
};
use sketch_model::FailureSketch;
use std::collections::BTreeMap;
use std::process::Command;

fn all() -> Vec<FailureSketch> {
    vec![
        pbzip2(),
        real(),
        three_threads(),
        five_threads(),
        first_failure(),
        large(),
        hostile("http://127.0.0.1:1"),
    ]
}

#[test]
fn a_picture() {
    // One element a line makes the snapshot reviewable; the style is not the point.
    let svg = viewer::svg(&pbzip2());
    let (before, after) = svg.split_once("<style>").expect("a style");
    let after = after.split_once("</style>").expect("its end").1;
    insta::assert_snapshot!(format!("{before}{after}").replace("><", ">\n<"));
}

#[test]
fn a_profile() {
    insta::assert_snapshot!(viewer::callgrind(&pbzip2()));
}

#[test]
fn pictures_are_well_formed_and_hold_nothing_that_acts() {
    for sketch in all() {
        let svg = viewer::svg(&sketch);
        assert_eq!(unclosed(&svg), [""; 0]);
        for acting in ["<script", "<image", "<foreignObject", "href", " on", "url("] {
            let inside: Vec<&str> = tags(&svg)
                .into_iter()
                .filter(|t| t.contains(acting))
                .collect();
            assert!(inside.is_empty(), "{acting}: {inside:?}");
        }
        assert!(
            !svg.chars()
                .any(|c| turns_text(c) || (c.is_control() && c != '\n'))
        );
        assert!(svg.len() < 200_000, "{} bytes", svg.len());
        assert!(svg.contains("FAILS HERE"));
    }
}

fn tags(xml: &str) -> Vec<&str> {
    let opened = xml.split('<').skip(1);
    opened.map(|t| t.split('>').next().unwrap_or("")).collect()
}

/// Tags that are opened and not closed in their order.
fn unclosed(xml: &str) -> Vec<&str> {
    let mut open = Vec::new();
    for tag in tags(xml) {
        if tag.starts_with('?') || tag.ends_with('/') {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "closed out of order"),
            None => open.push(tag.split(' ').next().unwrap_or("")),
        }
    }
    open
}

/// Reads a profile by the letter of the format; panics on any line it does not know.
/// Returns the costs by file, function and line, and the calls by names.
#[derive(Default)]
struct Profile {
    events: Vec<String>,
    costs: BTreeMap<(String, String, u32), Vec<u64>>,
    calls: Vec<(String, String)>,
    totals: Vec<u64>,
}

fn read(text: &str) -> Profile {
    let mut profile = Profile::default();
    let mut known: BTreeMap<(bool, usize), String> = BTreeMap::new();
    let mut name = |file: bool, spelled: &str| -> String {
        let (number, name) = spelled
            .strip_prefix('(')
            .and_then(|s| s.split_once(')'))
            .unwrap_or_else(|| panic!("not compressed: {spelled}"));
        let key = (file, number.parse().expect("a number"));
        match name.strip_prefix(' ') {
            Some(new) => assert!(
                known.insert(key, new.to_owned()).is_none(),
                "twice: {spelled}"
            ),
            None => assert_eq!(name, ""),
        }
        known.get(&key).expect("named before").clone()
    };
    let (mut file, mut function) = (String::new(), String::new());
    let mut callee = String::new();
    let mut call = false;
    let numbers = |line: &str| -> Vec<u64> {
        line.split(' ')
            .map(|n| n.parse().unwrap_or_else(|_| panic!("{line}")))
            .collect()
    };
    let mut in_header = true;
    for line in text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        if in_header {
            let (key, value) = line.split_once(": ").expect("a header line");
            match key {
                "version" | "creator" | "cmd" | "part" | "desc" | "event" => {}
                "positions" => assert_eq!(value, "line"),
                "events" => {
                    profile.events = value.split(' ').map(str::to_owned).collect();
                    in_header = false;
                }
                other => panic!("unknown header {other}"),
            }
            continue;
        }
        if let Some(spelled) = line.strip_prefix("fl=") {
            file = name(true, spelled);
        } else if let Some(spelled) = line.strip_prefix("fn=") {
            function = name(false, spelled);
        } else if let Some(spelled) = line.strip_prefix("cfi=") {
            name(true, spelled);
        } else if let Some(spelled) = line.strip_prefix("cfn=") {
            callee = name(false, spelled);
        } else if let Some(counts) = line.strip_prefix("calls=") {
            assert_eq!(numbers(counts).len(), 2);
            call = true;
        } else if let Some(totals) = line.strip_prefix("totals: ") {
            profile.totals = numbers(totals);
        } else {
            let numbers = numbers(line);
            assert_eq!(numbers.len(), 1 + profile.events.len(), "{line}");
            if std::mem::take(&mut call) {
                profile.calls.push((function.clone(), callee.clone()));
            } else {
                let key = (file.clone(), function.clone(), numbers[0] as u32);
                let twice = profile.costs.insert(key, numbers[1..].to_vec());
                assert!(twice.is_none(), "a line has its costs once: {line}");
            }
        }
    }
    profile
}

#[test]
fn a_profile_reads_back_with_every_step_in_it() {
    for sketch in all() {
        let profile = read(&viewer::callgrind(&sketch));
        assert_eq!(profile.events, ["Ran", "Steps", "Cause", "Fails"]);
        let mut sums = vec![0; 4];
        for costs in profile.costs.values() {
            for (sum, cost) in sums.iter_mut().zip(costs) {
                *sum += cost;
            }
        }
        assert_eq!(sums, profile.totals);
        assert_eq!(sums[1], sketch.steps.len() as u64);
        assert_eq!(sums[3], 1, "one statement fails");
    }
    let profile = read(&viewer::callgrind(&pbzip2()));
    let at = |function: &str, line| {
        let key = ("/src/pbzip2/pbzip2.c".to_owned(), function.to_owned(), line);
        profile.costs[&key].clone()
    };
    assert_eq!(at("consumer", 902), [12, 1, 0, 0]);
    assert_eq!(at("queueDelete", 890), [1, 1, 1, 0]);
    assert_eq!(at("consumer", 914), [1, 1, 1, 1]);
    assert_eq!(profile.calls, [("main".to_owned(), "consumer".to_owned())]);
}

#[test]
fn threads_that_run_the_same_function_stay_apart() {
    let mut sketch = pbzip2();
    for step in &mut sketch.steps {
        step.statement.function = "decrement".to_owned();
    }
    let profile = read(&viewer::callgrind(&sketch));
    let mut functions: Vec<&str> = profile.costs.keys().map(|(_, f, _)| f.as_str()).collect();
    functions.dedup();
    assert_eq!(
        functions,
        ["decrement [T1 main]", "decrement [T2 consumer]"]
    );
}

#[test]
fn valgrinds_own_reader_takes_the_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (i, sketch) in all().iter().enumerate() {
        let file = folder.path().join(format!("callgrind.out.{i}"));
        std::fs::write(&file, viewer::callgrind(sketch)).expect("a writable folder");
        let read = Command::new("callgrind_annotate")
            .args(["--threshold=100", "--inclusive=no"])
            .arg(&file)
            .output()
            .expect("callgrind_annotate starts: install the Debian package `valgrind` (`./dev` does it)");
        let said = String::from_utf8_lossy(&read.stdout);
        let warned = String::from_utf8_lossy(&read.stderr);
        assert!(
            read.status.success() && !warned.contains("WARNING"),
            "{warned}\n{said}"
        );
        assert!(said.contains("PROGRAM TOTALS"), "{said}");
    }
    let file = folder.path().join("callgrind.out.0");
    let read = Command::new("callgrind_annotate")
        .arg("--tree=calling")
        .arg(file)
        .output();
    let said = String::from_utf8_lossy(&read.expect("as before").stdout).into_owned();
    assert!(said.contains("pbzip2.c:queueDelete"), "{said}");
}
