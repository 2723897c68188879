//! Whether a bug's description can be true: reports the first thing that cannot.
//! Words that the format does not have are refused before, by `bug`'s types.
//!
//! Functions are found by layout, not by parsing: in the corpus a definition
//! begins in the first column and nothing inside one does. That is the style of
//! the sources here, and a source that breaks it is refused, not misread.

use crate::corpus::bug::{Bug, Class, IdealPredictor, IdealStatement, Pattern};
use anyhow::{Result, bail, ensure};

/// Refuses what cannot be true, and finds where the ideal statements stand, if the
/// sources are there.
pub fn check(bug: &mut Bug) -> Result<()> {
    let folder = bug.folder.file_name().unwrap_or_default().to_string_lossy();
    ensure!(
        folder == bug.name.as_str(),
        "the name is {:?} but the folder is {folder:?}; make them the same",
        bug.name
    );
    check_build(bug)?;
    let failure = &bug.failure;
    ensure!(
        !failure.signals.is_empty()
            || !failure.exit_codes.is_empty()
            || failure.hang_after_ms.is_some(),
        "[failure] names no way to fail; give signals, exit_codes or hang_after_ms"
    );
    bug.workload.check(&bug.folder)?;
    ensure!(
        !bug.ideal.statements.is_empty(),
        "the ideal sketch is empty"
    );
    ensure!(
        !bug.ideal.predictors.is_empty(),
        "no expected predictor is named"
    );
    for predictor in &bug.ideal.predictors {
        check_predictor(predictor)?;
    }
    if bug.tree.is_some() {
        find_statements(bug)?;
    }
    Ok(())
}

fn check_build(bug: &Bug) -> Result<()> {
    let build = &bug.build;
    if build.package.is_none() {
        ensure!(
            !build.fixed_flags.is_empty(),
            "fixed_flags is empty; name the flags that build the fix"
        );
        let of_packages = build.fault.len() + build.patches.len();
        ensure!(
            of_packages == 0 && build.recipe.is_none() && build.binary.is_none(),
            "patches, fault, recipe and binary are of a package; name it"
        );
        return Ok(());
    }
    ensure!(
        build.flags.is_empty() && build.fixed_flags.is_empty(),
        "flags and fixed_flags are of programs in the folder; a package is built its own way"
    );
    ensure!(
        !build.fault.is_empty(),
        "fault is empty; name the patches that put the fault back"
    );
    let files = build.patches.iter().chain(&build.fault);
    for file in files.chain(&build.recipe) {
        ensure!(
            bug.folder.join(file).is_file(),
            "{file:?} is no file of the folder"
        );
    }
    Ok(())
}

/// Finds the line of one statement in the sources.
pub fn find_statement(bug: &Bug, statement: &mut IdealStatement) -> Result<()> {
    locate(statement, &lines(&bug.sources()?))
}

fn lines(sources: &[(String, String)]) -> Vec<Line> {
    let each = sources.iter().map(|(file, text)| lines_of(file, text));
    each.flatten().collect()
}

/// Finds the lines of the ideal sketch in the sources.
pub fn find_statements(bug: &mut Bug) -> Result<()> {
    let sources = bug.sources()?;
    let lines = lines(&sources);
    for statement in &mut bug.ideal.statements {
        locate(statement, &lines)?;
    }
    for (position, statement) in bug.ideal.statements.iter().enumerate() {
        ensure!(
            !bug.ideal.statements[..position].contains(statement),
            "{:?} occurs twice in the ideal sketch's column {}",
            statement.text,
            statement.thread
        );
    }
    for predictor in &bug.ideal.predictors {
        for part in &predictor.statements {
            ensure!(
                sources.iter().any(|(_, text)| text.contains(part.as_str())),
                "a predictor names {part:?}, which no line of the sources contains"
            );
        }
    }
    Ok(())
}

fn check_predictor(predictor: &IdealPredictor) -> Result<()> {
    let wanted = match (predictor.class, predictor.pattern) {
        (Class::Order, Some(Pattern::Ww | Pattern::Wr | Pattern::Rw)) => 2,
        (Class::Order, Some(_)) => 3,
        (Class::Order, None) => bail!("an order predictor needs its pattern"),
        (Class::Lifetime, None) => 2,
        (_, Some(_)) => bail!("only an order predictor has a pattern"),
        (_, None) => 1,
    };
    ensure!(
        predictor.shape.is_none() || predictor.class == Class::Value,
        "only a value predictor has a shape"
    );
    ensure!(
        predictor.statements.len() == wanted,
        "a predictor names {} statements and needs {wanted}",
        predictor.statements.len()
    );
    Ok(())
}

/// Finds the statement's line; several of the same text need to be told apart.
fn locate(statement: &mut IdealStatement, lines: &[Line]) -> Result<()> {
    let found: Vec<&Line> = lines
        .iter()
        .filter(|line| line.function == statement.function && line.text == statement.text)
        .collect();
    let chosen = match (found.len(), statement.nth) {
        (0, _) => bail!(
            "no line of {} in the sources reads {:?}",
            statement.function,
            statement.text
        ),
        (1, None) => found[0],
        (times, None) => bail!(
            "{times} lines of {} read {:?}; say by nth which one is meant",
            statement.function,
            statement.text
        ),
        (times, Some(nth)) => match nth.checked_sub(1).and_then(|at| found.get(at)) {
            Some(line) => line,
            None => bail!(
                "nth is {nth}, but {times} lines of {} read {:?}",
                statement.function,
                statement.text
            ),
        },
    };
    statement.file = chosen.file.clone();
    statement.line = chosen.number;
    Ok(())
}

/// A line inside a function.
#[derive(Debug, PartialEq)]
struct Line {
    function: String,
    text: String,
    file: String,
    number: u64,
}

/// By layout: functions begin at the margin, those in a class one step from it.
fn lines_of(file: &str, source: &str) -> Vec<Line> {
    let mut class: Option<String> = None;
    let mut current: Option<String> = None;
    let mut lines = Vec::new();
    for (line, number) in source.lines().zip(1..) {
        let text = line.trim();
        let at_margin = line.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if at_margin && let Some(name) = class_of(text) {
            class = Some(name);
            continue;
        }
        if at_margin
            && !text.ends_with(';')
            && let Some(name) = name_of(text)
        {
            current = Some(name);
            continue;
        }
        let one_step_in = line.strip_prefix("    ").filter(|rest| *rest == text);
        if let (Some(class), Some(text)) = (&class, one_step_in) {
            if text.starts_with('}') {
                current = None;
            } else if text.ends_with('{')
                && let Some(name) = name_of(text)
            {
                current = Some(format!("{class}::{name}"));
                continue;
            }
        }
        if line.starts_with('}') {
            (class, current) = (None, None);
        }
        if let Some(function) = &current
            && line.starts_with(char::is_whitespace)
            && !text.is_empty()
        {
            lines.push(Line {
                function: function.clone(),
                text: text.to_owned(),
                file: file.to_owned(),
                number,
            });
        }
    }
    lines
}

/// The name in `class EXPORTED Name : public Base {`.
fn class_of(text: &str) -> Option<String> {
    let keyword = text.starts_with("class ") || text.starts_with("struct ");
    let head = text
        .strip_suffix('{')
        .filter(|h| keyword && !h.contains('('))?;
    let head = head.split(" : ").next()?;
    head.split_whitespace().last().map(str::to_owned)
}

/// The name in `static void *f(int x)`: what stands before the first bracket.
fn name_of(definition: &str) -> Option<String> {
    let before = &definition[..definition.find('(')?];
    let name = before
        .trim_end()
        .rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == '~'))
        .next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::corpus::bug::load;
    use std::fs;

    const SOURCE: &str = "/* x */\nint g;\n\nint f(int a)\n{\n    g = a;\n    if (a)\n        g = a;\n    return g;\n}\n";
    const GOOD: &str = r#"
name = "NAME"
program = "p 1"
summary = "s"
kind = "k"
nature = "sequential"
group = "further"
[build]
language = "c"
sources = ["p.c"]
flags = []
fixed_flags = ["-DFIXED"]
[workload]
arguments = ["{seed}"]
[failure]
signals = ["SIGSEGV"]
[[ideal.statement]]
thread = "T"
function = "f"
text = "return g;"
[[ideal.predictor]]
class = "value"
location = "g"
shape = "zero"
statements = ["return g"]
"#;

    /// What loading says about `GOOD` with one replacement made in it.
    fn said(case: &str, from: &str, to: &str) -> String {
        assert!(GOOD.contains(from));
        let name = format!("bugbase-check-{case}-{}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("p.c"), SOURCE).unwrap();
        let text = GOOD.replace(from, to).replace("NAME", &name);
        fs::write(folder.join("bug.toml"), text).unwrap();
        let result = load(&folder);
        fs::remove_dir_all(&folder).unwrap();
        result.map_or_else(|error| format!("{error:#}"), |_| "fine".into())
    }

    #[test]
    fn a_true_description_loads() {
        assert_eq!(said("true", "p 1", "p 2"), "fine");
    }

    #[test]
    fn each_untruth_is_named() {
        let cases = [
            ("folder", "\"NAME\"", "\"other\"", "make them the same"),
            ("fix", "[\"-DFIXED\"]", "[]", "flags that build the fix"),
            ("way", "signals = [\"SIGSEGV\"]", "", "names no way to fail"),
            ("signal", "SIGSEGV", "SIGFUN", "unknown variant `SIGFUN`"),
            ("source", "p.c", "q.c", "q.c, a source of it"),
            ("line", "return g;", "return h;", "no line of f"),
            ("twice", "return g;", "g = a;", "2 lines of f read"),
            (
                "nth",
                "\"return g;\"",
                "\"g = a;\"\nnth = 3",
                "nth is 3, but 2 lines",
            ),
            (
                "shape",
                "\"zero\"",
                "\"round\"",
                "unknown variant `round`, expected one of `zero`, `non_zero`",
            ),
            ("class", "\"value\"", "\"order\"", "needs its pattern"),
            (
                "pattern",
                "shape = \"zero\"",
                "pattern = \"RRW\"",
                "unknown variant `RRW`, expected one of `RWR`",
            ),
            (
                "patterned",
                "shape = \"zero\"",
                "pattern = \"RW\"",
                "only an order predictor has a pattern",
            ),
            (
                "shaped",
                "\"value\"",
                "\"branch\"",
                "only a value predictor has a shape",
            ),
            (
                "text",
                "[\"return g\"]",
                "[\"h\"]",
                "no line of the sources",
            ),
            (
                "count",
                "[\"return g\"]",
                "[]",
                "names 0 statements and needs 1",
            ),
            ("key", "summary", "sumary", "unknown field `sumary`"),
            (
                "fault",
                "flags = []\nfixed_flags = [\"-DFIXED\"]",
                "package = \"p\"",
                "fault is empty",
            ),
            (
                "patch",
                "flags = []\nfixed_flags = [\"-DFIXED\"]",
                "package = \"p\"\nfault = [\"f.patch\"]",
                "\"f.patch\" is no file of the folder",
            ),
            (
                "stray",
                "flags = []",
                "flags = []\nfault = [\"f.patch\"]",
                "are of a package; name it",
            ),
            ("word", "{seed}", "{sed}", "{sed}"),
        ];
        for (case, from, to, wanted) in cases {
            let said = said(case, from, to);
            assert!(said.contains(wanted), "{case}: {said}");
        }
    }

    #[test]
    fn functions_are_told_apart_by_layout() {
        let source = "static void *A::f(int)\n{\n    x;\n}\nint g;\nint h(void)\n{\n    y;\n}\n";
        let found: Vec<_> = super::lines_of("s", source)
            .into_iter()
            .map(|line| (line.function, line.text, line.number))
            .collect();
        assert_eq!(
            found,
            [
                ("A::f".into(), "x;".into(), 3),
                ("h".into(), "y;".into(), 8)
            ]
        );
        let class = "class X C : public B {\npublic:\n    int *next() const {\n        return m;\n    }\n    int m;\n};\n";
        let found = super::lines_of("s", class);
        let found: Vec<_> = found.iter().map(|l| (&*l.function, &*l.text)).collect();
        assert_eq!(found, [("C::next", "return m;")]);
    }
}
