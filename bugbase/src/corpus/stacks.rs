//! The stacks of one failing run of a bug, kept as `stacks.toml` beside its `bug.toml`.
//!
//! With them a slice can be judged without a fleet. Frames name their lines by text, as
//! the rest of the corpus does; those of libraries, whose text is not ours, by number.
//! `bugbase stacks` writes the file.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;

pub const FILE: &str = "stacks.toml";

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Stacks {
    pub failure: Shape,
    /// The failing one first.
    #[serde(rename = "thread")]
    pub threads: Vec<Thread>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    Fault,
    Abort,
    Hang,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Innermost first, inlined ones too.
    pub frames: Vec<Frame>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// The linkage name.
    pub function: String,
    /// Below the sources' folder, or absolute for a library's.
    pub file: String,
    /// The whole line without surrounding space ...
    pub text: Option<String>,
    /// ... and which of several such lines of the file, from 1.
    pub nth: Option<usize>,
    /// For a library's file.
    pub line: Option<usize>,
}

/// The stacks of the bug in a folder, if they were recorded.
pub fn load(folder: &Path) -> Result<Option<Stacks>> {
    let file = folder.join(FILE);
    if !file.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(&file)?;
    let stacks = toml::from_str(&text).with_context(|| format!("in {}", file.display()))?;
    Ok(Some(stacks))
}

impl Frame {
    /// The frame of a line: by text if the file lies below `tree`.
    pub fn of_line(tree: &Path, function: &str, file: &str, line: usize) -> Frame {
        let mut frame = Frame {
            function: function.to_owned(),
            file: file.to_owned(),
            text: None,
            nth: None,
            line: Some(line),
        };
        let Ok(inside) = Path::new(file).strip_prefix(tree) else {
            return frame;
        };
        let source = fs::read(file).unwrap_or_default();
        let source = String::from_utf8_lossy(&source).into_owned();
        let Some(text) = source.lines().nth(line - 1).map(str::trim) else {
            return frame;
        };
        frame.file = inside.to_string_lossy().into_owned();
        frame.text = Some(text.to_owned());
        frame.line = None;
        let same = source.lines().filter(|other| other.trim() == text).count();
        if same > 1 {
            let before = source.lines().take(line);
            frame.nth = Some(before.filter(|other| other.trim() == text).count());
        }
        frame
    }

    fn number(&self, tree: &Path) -> Result<usize> {
        let Some(text) = &self.text else {
            return self.line.context("a frame needs its text or its line");
        };
        let path = tree.join(&self.file);
        let source = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let source = String::from_utf8_lossy(&source);
        let lines = (1..).zip(source.lines());
        let mut lines = lines.filter(|(_, line)| line.trim() == text.as_str());
        let nth = self.nth.unwrap_or(1).saturating_sub(1);
        match lines.nth(nth) {
            Some((number, _)) => Ok(number),
            None => bail!(
                "no line of {} reads {text:?}; record the stacks again",
                self.file
            ),
        }
    }
}

impl Stacks {
    /// In the form that `failsketch slice --stacks` reads; the sources lie in `tree`.
    pub fn for_command(&self, tree: &Path) -> Result<Value> {
        let frame = |frame: &Frame| {
            let line = frame.number(tree)?;
            Ok(json!({ "function": frame.function, "file": frame.file, "line": line }))
        };
        let frames =
            |thread: &Thread| -> Result<Vec<Value>> { thread.frames.iter().map(frame).collect() };
        let threads: Vec<Vec<Value>> = self.threads.iter().map(frames).collect::<Result<_>>()?;
        Ok(json!({ "failure": self.failure, "threads": threads }))
    }

    /// The file's text.
    pub fn text(&self, bug: &str) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let shape = json!(self.failure);
        let mut out = format!(
            "# The stacks of one failing run, innermost frames first: `bugbase stacks {bug}`.\n\
             failure = {shape}\n"
        );
        for thread in &self.threads {
            out.push_str("\n[[thread]]\nframes = [\n");
            for frame in &thread.frames {
                // Writing to a string cannot fail.
                let _ = write!(
                    out,
                    "    {{ function = {}, file = {}",
                    quoted(&frame.function),
                    quoted(&frame.file)
                );
                if let Some(text) = &frame.text {
                    let _ = write!(out, ", text = {}", quoted(text));
                }
                for (name, number) in [("nth", frame.nth), ("line", frame.line)] {
                    if let Some(number) = number {
                        let _ = write!(out, ", {name} = {number}");
                    }
                }
                out.push_str(" },\n");
            }
            out.push_str("]\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_finds_its_line_again_after_an_edit_above_it() {
        let folder = std::env::temp_dir().join(format!("bugbase-stacks-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.c");
        fs::write(&file, "int f;\n\tg('\"');\nint h;\n  g('\"');\n").unwrap();
        let frame = Frame::of_line(&folder, "f", &file.to_string_lossy(), 4);
        assert_eq!(frame.text.as_deref(), Some("g('\"');"));
        assert_eq!((frame.nth, frame.line), (Some(2), None));
        let library = Frame::of_line(&folder, "lib", "/usr/include/x.h", 7);
        assert_eq!(library.line, Some(7));
        let stacks = Stacks {
            failure: Shape::Hang,
            threads: vec![Thread {
                frames: vec![frame, library],
            }],
        };
        fs::write(&file, "int more;\nint f;\n\tg('\"');\nint h;\n  g('\"');\n").unwrap();
        fs::write(folder.join(FILE), stacks.text("a")).unwrap();
        let read = load(&folder).unwrap().unwrap();
        assert_eq!(read, stacks);
        let asked = read.for_command(&folder).unwrap();
        assert_eq!(asked["failure"], "hang");
        assert_eq!(asked["threads"][0][0]["line"], 5);
        assert_eq!(asked["threads"][0][1]["line"], 7);
        fs::remove_dir_all(&folder).unwrap();
    }
}
