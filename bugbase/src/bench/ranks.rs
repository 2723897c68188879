//! `./dev bench slicer --ranks`: where the statements that explain a failure stand in
//! its slice, for each bug with recorded stacks, without a fleet.
//!
//! A statement's rank is its place among all statements of the slice, from 1; a line that
//! stands in the columns of several threads of the ideal sketch counts once. The rank
//! of the cause is where all statements of one expected predictor are in: the σ that a
//! diagnosis needs. Both are compared with `ranks.txt`; one that is worse there ends the
//! bench with an error, unless `--accept` writes the new ones down.
//!
//! The miniatures are built and registered once, real programs only looked up: building
//! them is `real-programs.sh`'s work. A bug joins with its stacks (`bugbase stacks`),
//! before anybody has looked at its slice.

use crate::bench::Arguments;
use crate::corpus::bug::{self, Bug, Group, IdealStatement};
use crate::corpus::program::Variant;
use crate::corpus::stacks::{self, Stacks};
use crate::corpus::{folder, package};
use crate::fleet::register_sources;
use crate::tables::{self, Column, figures, words};
use crate::tools::{Tools, run as run_command};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The σs that the table counts by.
const SIGMAS: [usize; 3] = [16, 32, 64];

/// The ranks of one bug.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Ranks {
    /// Statements of the slice.
    slice: usize,
    cause: Option<usize>,
    /// Of the ideal statements, in the order of `bug.toml`.
    statements: Vec<Option<usize>>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let failsketch = match std::env::var_os("FAILSKETCH") {
        Some(command) => PathBuf::from(command),
        None => Tools::find()?.failsketch,
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("ranks.txt");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let mut kept = read(&text).with_context(|| format!("in {}", file.display()))?;
    println!("{}", tables::head(&COLUMNS));
    let mut measured: Vec<(Group, Ranks)> = Vec::new();
    let (mut left_out, mut worse) = (Vec::new(), Vec::new());
    let mut rows = BTreeMap::new();
    for mut bug in bug::chosen(&arguments.programs)? {
        let ranks = match measure(&failsketch, &mut bug, &arguments.folder)? {
            Ok(ranks) => ranks,
            Err(why) => {
                left_out.push(format!("{}: {why}", bug.name));
                continue;
            }
        };
        println!("{}", line(&bug, &ranks, kept.get(&bug.name)));
        if let Some(before) = kept.get(&bug.name) {
            worse.extend(what_is_worse(&bug, before, &ranks));
        }
        rows.insert(bug.name.clone(), ranks.clone());
        measured.push((bug.group, ranks));
    }
    println!("\n{}", summary(&measured));
    for bug in &left_out {
        println!("left out: {bug}");
    }
    let json = arguments.json.clone();
    let json = json.unwrap_or_else(|| arguments.folder.join("ranks.json"));
    tables::save(&json, &rows)?;
    if arguments.accept {
        kept.extend(rows);
        fs::write(&file, written(&kept))?;
        println!("written to {}", file.display());
    } else if !worse.is_empty() {
        bail!(
            "ranks that are worse than in ranks.txt: {}",
            worse.join("; ")
        );
    }
    Ok(())
}

const COLUMNS: [Column<'_>; 5] = [
    words("bug", 20),
    figures("slice", 6),
    figures("cause", 5),
    words("ideal statements, in the order of bug.toml", 60),
    words("before", 20),
];

fn line(bug: &Bug, ranks: &Ranks, before: Option<&Ranks>) -> String {
    let before = match before {
        None => "new".to_owned(),
        Some(before) if before.cause == ranks.cause && before.statements == ranks.statements => {
            "the same".to_owned()
        }
        Some(before) => format!("{}: {}", rank(before.cause), list(&before.statements)),
    };
    let cells = [
        bug.name.clone(),
        ranks.slice.to_string(),
        rank(ranks.cause),
        list(&ranks.statements),
        before,
    ];
    tables::line(&COLUMNS, &cells)
}

fn rank(rank: Option<usize>) -> String {
    rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string())
}

fn list(ranks: &[Option<usize>]) -> String {
    let ranks: Vec<String> = ranks.iter().map(|one| rank(*one)).collect();
    ranks.join(" ")
}

/// How many causes and ideal statements are within each σ.
fn summary(measured: &[(Group, Ranks)]) -> String {
    let mut text = String::new();
    let parts: [(&str, &dyn Fn(Group) -> bool); 2] = [
        ("real programs", &|group| group == Group::Real),
        ("miniatures", &|group| group != Group::Real),
    ];
    for (name, belongs) in parts {
        let part: Vec<&Ranks> = measured
            .iter()
            .filter(|(group, _)| belongs(*group))
            .map(|(_, ranks)| ranks)
            .collect();
        let statements: Vec<Option<usize>> = part
            .iter()
            .flat_map(|ranks| ranks.statements.iter().copied())
            .collect();
        let within = |ranks: &[Option<usize>]| {
            let count = |most: usize| ranks.iter().flatten().filter(|rank| **rank <= most).count();
            SIGMAS.map(|most| count(most).to_string()).join(" / ")
        };
        let causes: Vec<Option<usize>> = part.iter().map(|ranks| ranks.cause).collect();
        text += &format!(
            "{name}: within 16 / 32 / 64: the cause in {} of {}, ideal statements {} of {}\n",
            within(&causes),
            part.len(),
            within(&statements),
            statements.len(),
        );
    }
    text
}

/// The ranks of a bug, or why it has none.
fn measure(
    failsketch: &Path,
    bug: &mut Bug,
    folder: &Path,
) -> Result<std::result::Result<Ranks, String>> {
    let Some(stacks) = stacks::load(&bug.folder)? else {
        return Ok(Err("its stacks were not recorded (`bugbase stacks`)".into()));
    };
    let folder = folder.join("ranks").join(&bug.name);
    let store = match &bug.build.package {
        Some(package) => {
            let cache = package::cache();
            let tree = cache.join(package).join(&bug.name);
            let registered = format!("{}.registered", bug.name);
            if !tree.with_file_name(registered).is_file() {
                return Ok(Err("not built here (`./dev eval` builds it)".into()));
            }
            bug.found_in(tree.canonicalize()?)?;
            cache.join("store")
        }
        None => built(failsketch, bug, &folder)?,
    };
    let tree = bug
        .tree
        .clone()
        .context("a bug that is built has sources")?;
    let slice = slice(failsketch, &store, &stacks, &tree)
        .with_context(|| format!("slicing {}", bug.name))?;
    Ok(Ok(ranks_in(bug, &slice)))
}

/// The store with a miniature's build; made anew when its sources or flags changed.
fn built(failsketch: &Path, bug: &Bug, place: &Path) -> Result<PathBuf> {
    let stamp = format!("{:?}\n{:?}", bug.build, bug.sources()?);
    let kept = place.join("stamp");
    if fs::read_to_string(&kept).is_ok_and(|kept| kept == stamp) {
        return Ok(place.join("store"));
    }
    let place = folder::emptied(place)?;
    let tools = Tools {
        failsketch: failsketch.to_owned(),
        agent: PathBuf::new(),
    };
    let (store, _) = register_sources(&tools, bug, Variant::Faulty, &place)?;
    fs::write(kept, stamp)?;
    Ok(store)
}

/// The slice of the recorded failure, as JSON, from the build whose sources lie in `tree`.
fn slice(failsketch: &Path, store: &Path, stacks: &Stacks, tree: &Path) -> Result<Value> {
    let output = Command::new(failsketch)
        .args(["builds", "--json", "--store"])
        .arg(store)
        .output()?;
    let builds: Vec<Value> = serde_json::from_slice(&output.stdout)
        .context("`failsketch builds --json` prints the builds")?;
    let of_tree = |build: &&Value| {
        let modules = build["modules"].as_array().into_iter().flatten();
        let mut sources = modules.filter_map(|module| module["source"].as_str());
        sources.any(|source| Path::new(source).starts_with(tree))
    };
    let build = builds.iter().rev().find(of_tree);
    let build = build.and_then(|build| build["build_id"].as_str());
    let build = build.with_context(|| format!("no build of {}", tree.display()))?;
    let file = std::env::temp_dir().join(format!("bugbase-stacks-{}.json", std::process::id()));
    fs::write(&file, stacks.for_command(tree)?.to_string())?;
    let mut command = Command::new(failsketch);
    command
        .args(["slice", "--format", "json", "--build", build, "--store"])
        .arg(store)
        .arg("--stacks")
        .arg(&file);
    let output = command.output()?;
    fs::remove_file(&file)?;
    if !output.status.success() {
        run_command(&mut command)?;
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The ideal statements, each line once.
fn different(bug: &Bug) -> Vec<&IdealStatement> {
    let mut found: Vec<&IdealStatement> = Vec::new();
    for one in &bug.ideal.statements {
        let place = (&one.file, one.line);
        if found.iter().all(|known| (&known.file, known.line) != place) {
            found.push(one);
        }
    }
    found
}

fn ranks_in(bug: &Bug, slice: &Value) -> Ranks {
    let entries = slice["entries"].as_array().map_or(&[][..], Vec::as_slice);
    let first = |fits: &dyn Fn(&Value) -> bool| {
        let found = entries.iter().position(|entry| fits(&entry["statement"]));
        found.map(|position| position + 1)
    };
    let statements = different(bug).into_iter().map(|wanted| {
        first(&|statement| {
            let file = statement["location"]["file"].as_str().unwrap_or_default();
            Path::new(file).ends_with(&wanted.file) && statement["location"]["line"] == wanted.line
        })
    });
    let cause = |parts: &[String]| -> Option<usize> {
        let ranks = parts.iter().map(|part| {
            first(&|statement| {
                let text = statement["text"].as_str();
                text.is_some_and(|text| text.contains(part.as_str()))
            })
        });
        let ranks: Option<Vec<usize>> = ranks.collect();
        ranks?.into_iter().max()
    };
    let predictors = bug.ideal.predictors.iter();
    Ranks {
        slice: entries.len(),
        cause: predictors.filter_map(|one| cause(&one.statements)).min(),
        statements: statements.collect(),
    }
}

fn is_worse(before: Option<usize>, now: Option<usize>) -> bool {
    before.is_some_and(|before| now.is_none_or(|now| now > before))
}

fn what_is_worse(bug: &Bug, before: &Ranks, now: &Ranks) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, before: Option<usize>, now: Option<usize>| {
        if is_worse(before, now) {
            found.push(format!(
                "{}: {what} {} -> {}",
                bug.name,
                rank(before),
                rank(now)
            ));
        }
    };
    compare("the cause", before.cause, now.cause);
    let pairs = before.statements.iter().zip(&now.statements);
    for ((before, now), statement) in pairs.zip(different(bug)) {
        compare(&format!("`{}`", statement.text), *before, *now);
    }
    found
}

/// A bug a line: its name, the rank of its cause, those of its ideal statements.
fn read(text: &str) -> Result<BTreeMap<String, Ranks>> {
    let number = |word: &str| -> Result<Option<usize>> {
        match word {
            "-" => Ok(None),
            word => Ok(Some(word.parse().with_context(|| format!("{word:?}"))?)),
        }
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().context("an empty line")?.to_owned();
        let cause = number(words.next().context("a line ends early")?)?;
        let statements = words.map(number).collect::<Result<_>>()?;
        let slice = 0;
        Ok((
            name,
            Ranks {
                slice,
                cause,
                statements,
            },
        ))
    };
    lines.map(row).collect()
}

fn written(ranks: &BTreeMap<String, Ranks>) -> String {
    let mut text = String::from(
        "# What `./dev bench slicer --ranks` last accepted: of each bug the rank of its cause, then those of the\n\
         # ideal statements in the order of its bug.toml; \"-\" for what is not in the slice.\n",
    );
    for (bug, ranks) in ranks {
        let (cause, statements) = (rank(ranks.cause), list(&ranks.statements));
        text += &format!("{bug:<20} {cause:>4}  {statements}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(line: u64, text: &str) -> Value {
        let location = json!({ "file": "/x/pbzip2/pbzip2.c", "line": line });
        json!({ "statement": { "location": location, "text": text } })
    }

    #[test]
    fn the_cause_needs_all_statements_of_a_predictor() {
        let bug = bug::named("pbzip2").unwrap();
        let wanted: Vec<&str> = bug.ideal.predictors[0]
            .statements
            .iter()
            .map(String::as_str)
            .collect();
        let mut entries = vec![entry(bug.ideal.statements[0].line, "nothing")];
        entries.extend(wanted.iter().map(|text| entry(9999, text)));
        let ranks = ranks_in(&bug, &json!({ "entries": entries }));
        assert_eq!(ranks.cause, Some(entries.len()));
        assert_eq!(ranks.statements[0], Some(1));
        let cut = &entries[..entries.len() - 1];
        assert_eq!(ranks_in(&bug, &json!({ "entries": cut })).cause, None);
    }

    #[test]
    fn what_is_written_is_read_and_only_what_is_worse_is_said() {
        let bug = bug::named("pbzip2").unwrap();
        let ranks = |cause, first| Ranks {
            slice: 0,
            cause,
            statements: vec![first, None],
        };
        let kept = BTreeMap::from([("pbzip2".to_owned(), ranks(Some(7), Some(3)))]);
        assert_eq!(read(&written(&kept)).unwrap(), kept);
        let before = &kept["pbzip2"];
        assert_eq!(
            what_is_worse(&bug, before, &ranks(Some(6), Some(3))),
            [""; 0]
        );
        let worse = what_is_worse(&bug, before, &ranks(None, Some(4)));
        assert_eq!(worse.len(), 2, "{worse:?}");
        assert!(
            worse[0].starts_with("pbzip2: the cause 7 -> -"),
            "{worse:?}"
        );
        assert!(read("pbzip2 seven").is_err());
    }
}
