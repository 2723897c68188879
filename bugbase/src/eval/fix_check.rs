//! Whether the cause that a sketch states is absent from the fixed program.
//!
//! The fixed program is built and tracked as the faulty one was, from the same
//! statement, and run; a predictor that names the cause must not hold in any of these
//! runs. A statement for which the fixed program has no code at all cannot hold
//! either. Judged here from the agent's records, not by the code that made the
//! sketch: what is recorded is in the documented JSON.
//!
//! Only the sources of a folder have a fix that leaves lines where they are; a package's
//! fix moves them, so packages are left out.

use crate::corpus::bug::Bug;
use crate::corpus::expected::{best_predictors, fits_one};
use crate::corpus::program::Variant;
use crate::corpus::workload::Files;
use crate::fleet::register_sources;
use crate::tools::Tools;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const RUNS: u64 = 40;

/// By the number of a hook: its line, and that of the call that it is for.
type Sites = BTreeMap<u64, (u64, Option<u64>)>;

/// "absent in 40 runs", or what was found; `None` where nothing can be said.
pub fn absent(
    tools: &Tools,
    bug: &Bug,
    folder: &Path,
    input: &Path,
    sketch: &Value,
    slice: &Value,
) -> Result<Option<String>> {
    let ideals = &bug.ideal.predictors;
    let mut causes: Vec<&Value> = best_predictors(sketch)
        .filter(|best| fits_one(ideals, best, sketch))
        .collect();
    // A weak one is on the sketch too, and is not what it states as the cause.
    let strength = |cause: &&Value| cause["score"]["f_measure"].as_f64().unwrap_or(0.0);
    let strongest = causes.iter().map(strength).fold(0.0, f64::max);
    causes.retain(|cause| 2.0 * strength(cause) >= strongest);
    let location = &slice["entries"][0]["statement"]["location"];
    if causes.is_empty() || bug.build.package.is_some() || location.is_null() {
        return Ok(None);
    }
    let folder = folder.join("fixed");
    fs::create_dir_all(&folder)?;
    let (store, deployed) = register_sources(tools, bug, Variant::Fixed, &folder)?;
    let patch = folder.join("fixed.patch");
    let at = format!("{}:{}", text(&location["file"]), location["line"]);
    let made = Command::new(&tools.failsketch)
        .args(["patch", "--json", "--build", "", "--at", &at, "--sigma"])
        .arg(sketch["provenance"]["sigma"].to_string())
        .arg("--store")
        .arg(&store)
        .arg("--data")
        .arg(folder.join("key"))
        .arg("--out")
        .arg(&patch)
        .output()?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        let no_code = said.contains("has no code");
        return Ok(no_code.then(|| "absent: the fixed program has no code at that line".into()));
    }
    let report: Value = serde_json::from_slice(&made.stdout)?;
    let sites = sites(&report);
    let lines = lines(sketch, slice);
    let (mut seen, mut runs) = (0, 0);
    for seed in 0..RUNS {
        let Some(record) = run(tools, bug, &folder, &deployed, input, &patch, seed)? else {
            continue;
        };
        runs += 1;
        let here = causes
            .iter()
            .any(|cause| holds(cause, &lines, &sites, &record));
        seen += u64::from(here);
    }
    Ok(Some(match seen {
        0 => format!("absent in {runs} runs"),
        seen => format!("present in {seen} of {runs} runs"),
    }))
}

fn run(
    tools: &Tools,
    bug: &Bug,
    folder: &Path,
    deployed: &Path,
    input: &Path,
    patch: &Path,
    seed: u64,
) -> Result<Option<Value>> {
    let (output, record) = (folder.join("output"), folder.join("record"));
    let files = Files {
        input,
        output: &output,
        folder: &bug.folder,
        server: "",
    };
    let status = Command::new(&tools.agent)
        .args(["run", "--max-overhead", "0", "--store-record"])
        .arg(&record)
        .arg("--patch")
        .arg(patch)
        .arg("--key")
        .arg(folder.join("key/signing.pub"))
        .arg("--cache")
        .arg(folder.join("cache"))
        .arg("--")
        .arg(deployed)
        .args(bug.workload.arguments(&files, seed))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let record: Value = serde_json::from_str(fs::read_to_string(&record)?.trim())?;
    Ok((status.success() && !record["variant"].is_null()).then_some(record))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn sites(report: &Value) -> Sites {
    let mut sites = Sites::new();
    for site in report["hooks"].as_array().into_iter().flatten() {
        if let (Some(line), Some(id)) = (site["line"].as_u64(), site["site"].as_u64()) {
            sites.insert(id, (line, site["called_at"].as_u64()));
        }
    }
    sites
}

/// The lines of statements, by their numbers in the sketch.
fn lines(sketch: &Value, slice: &Value) -> BTreeMap<u64, u64> {
    let steps = sketch["steps"].as_array().into_iter().flatten();
    let entries = slice["entries"].as_array().into_iter().flatten();
    let statements = steps.chain(entries).map(|with| &with["statement"]);
    statements
        .filter_map(|s| Some((s["id"].as_u64()?, s["location"]["line"].as_u64()?)))
        .collect()
}

/// One recorded access or branch.
struct Event {
    thread: usize,
    line: u64,
    /// The line of the call, where that is told apart.
    caller: Option<u64>,
    kind: String,
    address: u64,
    value: u64,
    size: u64,
    before: u64,
    after: u64,
}

fn events(sites: &Sites, record: &Value) -> Vec<Event> {
    let threads = record["threads"].as_array().into_iter().flatten();
    let mut events = Vec::new();
    for (number, thread) in threads.enumerate() {
        let parts = [&thread["head"], &thread["tail"]];
        for event in parts.into_iter().filter_map(Value::as_array).flatten() {
            let number_of = |name: &str| event[name].as_u64().unwrap_or_default();
            if let Some((line, caller)) = sites.get(&number_of("site")).copied() {
                events.push(Event {
                    thread: number,
                    line,
                    caller,
                    kind: text(&event["kind"]).to_owned(),
                    address: number_of("address"),
                    value: number_of("value"),
                    size: number_of("size"),
                    before: number_of("before"),
                    after: number_of("after"),
                });
            }
        }
    }
    events
}

/// Whether the predictor held in a run, by what was recorded at its statements.
fn holds(cause: &Value, lines: &BTreeMap<u64, u64>, sites: &Sites, record: &Value) -> bool {
    let events = events(sites, record);
    let line = |id: &Value| id.as_u64().and_then(|id| lines.get(&id)).copied();
    let predictor = &cause["predictor"];
    if let Some(value) = predictor.get("value") {
        let at = line(&value["statement"]);
        // A call that has no hook of its own cannot be told apart here.
        let told_apart = |caller: &u64| sites.values().any(|(_, by)| *by == Some(*caller));
        let caller = line(&value["caller"]).filter(told_apart);
        let accesses = events.iter().filter(|e| Some(e.line) == at);
        return accesses
            .filter(|e| caller.is_none() || e.caller == caller)
            .filter(|e| e.kind == "read" || e.kind == "write")
            .any(|e| has_shape(&value["shape"], e, &events));
    }
    if let Some(branch) = predictor.get("branch") {
        let at = line(&branch["statement"]);
        let taken = branch["successor"].as_u64();
        return events
            .iter()
            .any(|e| e.kind == "branch" && Some(e.line) == at && Some(e.value) == taken);
    }
    let order = &predictor["order"];
    let ids = order["statements"].as_array().into_iter().flatten();
    let at: Vec<Option<u64>> = ids.map(line).collect();
    let pattern: Vec<&str> = text(&order["pattern"])
        .chars()
        .map(|c| if c == 'W' { "write" } else { "read" })
        .collect();
    in_order(&events, &pattern, &at, &mut Vec::new())
}

fn has_shape(shape: &Value, event: &Event, all: &[Event]) -> bool {
    let negative = match event.size {
        1 => event.value as i8 as i64,
        2 => event.value as i16 as i64,
        4 => event.value as i32 as i64,
        _ => event.value as i64,
    } < 0;
    match shape {
        Value::String(name) => match name.as_str() {
            "zero" => event.value == 0,
            "non_zero" => event.value != 0,
            "negative" => negative,
            "unwritten" => event.value != 0 && !all.iter().any(|w| was_before(w, event)),
            _ => false,
        },
        other => other["equals"].as_u64() == Some(event.value),
    }
}

/// Whether a write may have put there what a read saw.
fn was_before(write: &Event, read: &Event) -> bool {
    write.kind == "write" && write.address == read.address && write.before <= read.after
}

/// Whether accesses to one place follow each other as the pattern says, the second by
/// another thread, with no other write proved to lie in between.
fn in_order<'e>(
    events: &'e [Event],
    pattern: &[&str],
    at: &[Option<u64>],
    chosen: &mut Vec<&'e Event>,
) -> bool {
    let (Some(kind), Some(line)) = (pattern.get(chosen.len()), at.get(chosen.len())) else {
        return !chosen.is_empty() && chosen.len() == pattern.len();
    };
    for event in events {
        let fits = event.kind == *kind && Some(event.line) == *line;
        let follows = chosen.last().is_none_or(|last| {
            let written_over = events.iter().any(|other| {
                other.kind == "write"
                    && other.address == event.address
                    && last.after < other.before
                    && other.after < event.before
            });
            last.address == event.address && last.after < event.before && !written_over
        });
        let by_whom = match chosen.as_slice() {
            [] => true,
            [first] => first.thread != event.thread,
            [first, ..] => first.thread == event.thread,
        };
        if fits && follows && by_whom {
            chosen.push(event);
            if in_order(events, pattern, at, chosen) {
                return true;
            }
            chosen.pop();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Line 10 writes (site 0), line 20 reads (site 1), line 30 branches (site 2).
    fn held(cause: Value, threads: Value) -> bool {
        let report = json!({"hooks": [{"site": 0, "line": 10}, {"site": 1, "line": 20},
            {"site": 2, "line": 30}]});
        let lines = BTreeMap::from([(5, 10), (6, 20), (7, 30)]);
        let cause = json!({"predictor": cause});
        holds(
            &cause,
            &lines,
            &sites(&report),
            &json!({"threads": threads}),
        )
    }

    fn event(site: u64, kind: &str, when: u64, value: u64) -> Value {
        json!({"site": site, "kind": kind, "size": 4, "before": when, "after": when + 5,
            "address": 4096, "value": value})
    }

    #[test]
    fn an_order_holds_by_intervals_between_threads() {
        let cause = json!({"order": {"pattern": "WR", "statements": [5, 6]}});
        let threads = |write: u64, read: u64| {
            json!([{"head": [event(0, "write", write, 0)], "tail": []},
                {"head": [], "tail": [event(1, "read", read, 0)]}])
        };
        assert!(held(cause.clone(), threads(100, 200)));
        assert!(!held(cause.clone(), threads(200, 100)));
        assert!(!held(cause.clone(), threads(100, 103)), "not ordered");
        let same =
            json!([{"head": [event(0, "write", 1, 0), event(1, "read", 50, 0)], "tail": []}]);
        assert!(!held(cause.clone(), same), "one thread alone");
        let over = json!([{"head": [event(0, "write", 1, 0), event(0, "write", 20, 7)], "tail": []},
            {"head": [event(1, "read", 50, 7)], "tail": []}]);
        assert!(held(cause, over), "by the second write");
    }

    #[test]
    fn values_and_branches_hold_by_what_they_were() {
        let threads = json!([{"head": [event(1, "read", 1, 0xffff_ffff), event(2, "branch", 9, 1)],
            "tail": []}]);
        let value = |shape: Value| json!({"value": {"statement": 6, "shape": shape}});
        assert!(held(value(json!("negative")), threads.clone()));
        assert!(!held(value(json!("zero")), threads.clone()));
        assert!(held(
            value(json!({"equals": 0xffff_ffffu32})),
            threads.clone()
        ));
        let branch = |successor: u32| json!({"branch": {"statement": 7, "successor": successor}});
        assert!(held(branch(1), threads.clone()) && !held(branch(0), threads));
    }
}
