//! What one run of a bug's program is given: arguments and files, by the run's seed.
//!
//! The same seed gives the same arguments and inputs on every machine. A workload
//! without `{seed}` and `{choice}` is the same in every run; its variety comes
//! from the scheduler.

use anyhow::{Result, bail, ensure};
use serde::Deserialize;
use std::path::Path;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// `{input}` is a generated file, `{output}` a file private to the agent,
    /// `{seed}` the run's number, `{choice}` one of the choices, `{socket}` a name
    /// for a socket private to the agent, `{server}` the address of a web server,
    /// `{folder}` the bug's folder.
    pub arguments: Vec<String>,
    /// A C file of the folder: a client that runs beside the program, once for each
    /// run, until either has ended.
    pub client: Option<String>,
    /// What the client is given; the same words.
    #[serde(default)]
    pub client_arguments: Vec<String>,
    /// The size of the generated input.
    #[serde(default)]
    pub input_bytes: usize,
    /// One is taken for each run, by its seed.
    #[serde(default)]
    pub choices: Vec<Choice>,
}

/// One of several things that users do, some more often than others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    pub weight: u32,
    /// Passed as it is ...
    pub text: Option<String>,
    /// ... or a file of the bug's folder, passed as its path.
    pub file: Option<String>,
}

/// Where the files of one agent are.
pub struct Files<'a> {
    pub input: &'a Path,
    pub output: &'a Path,
    /// The bug's folder.
    pub folder: &'a Path,
    /// The address of the web server, empty if there is none.
    pub server: &'a str,
}

impl Workload {
    pub fn check(&self, folder: &Path) -> Result<()> {
        let known = [
            "{input}", "{output}", "{seed}", "{choice}", "{socket}", "{server}", "{folder}",
        ];
        for argument in self.arguments.iter().chain(&self.client_arguments) {
            let mut rest = argument.clone();
            for word in known {
                rest = rest.replace(word, "");
            }
            ensure!(
                !rest.contains('{'),
                "the argument {argument:?} has an unknown word; there are: {}",
                known.join(", ")
            );
        }
        let uses_choice = self.uses("{choice}");
        ensure!(
            uses_choice != self.choices.is_empty(),
            "{{choice}} and [[workload.choices]] go together; one of them is missing"
        );
        ensure!(
            self.uses("{input}") == (self.input_bytes > 0),
            "{{input}} and input_bytes go together; one of them is missing"
        );
        if let Some(client) = &self.client {
            ensure!(
                folder.join(client).is_file(),
                "the client {client:?} is no file of the folder"
            );
        }
        for choice in &self.choices {
            match (&choice.text, &choice.file) {
                (Some(_), None) => {}
                (None, Some(file)) => ensure!(
                    folder.join(file).is_file(),
                    "the choice {file:?} is no file of the folder"
                ),
                _ => bail!("a choice has either text or file"),
            }
            ensure!(choice.weight > 0, "a choice of weight 0 is never taken");
        }
        Ok(())
    }

    fn uses(&self, word: &str) -> bool {
        self.arguments
            .iter()
            .any(|argument| argument.contains(word))
    }

    /// Whether one run differs from the next in what it is given, or needs
    /// something else beside it.
    pub fn varies(&self) -> bool {
        self.uses("{seed}") || self.uses("{choice}") || self.client.is_some()
    }

    /// Whether there has to be a web server.
    pub fn fetches(&self) -> bool {
        let texts = self
            .choices
            .iter()
            .filter_map(|choice| choice.text.as_ref());
        self.uses("{server}") || texts.into_iter().any(|text| text.contains("{server}"))
    }

    /// The program's arguments in the run of that seed.
    pub fn arguments(&self, files: &Files, seed: u64) -> Vec<String> {
        self.filled(&self.arguments, files, seed)
    }

    /// The client's arguments in the run of that seed.
    pub fn client_arguments(&self, files: &Files, seed: u64) -> Vec<String> {
        self.filled(&self.client_arguments, files, seed)
    }

    fn filled(&self, arguments: &[String], files: &Files, seed: u64) -> Vec<String> {
        let choice = self.choice(files.folder, seed);
        let fill = |argument: &String| {
            argument
                .replace("{input}", &files.input.to_string_lossy())
                .replace("{output}", &files.output.to_string_lossy())
                .replace("{socket}", &format!("{}.socket", files.output.display()))
                .replace("{seed}", &seed.to_string())
                .replace("{choice}", &choice)
                .replace("{server}", files.server)
                .replace("{folder}", &files.folder.to_string_lossy())
        };
        arguments.iter().map(fill).collect()
    }

    fn choice(&self, folder: &Path, seed: u64) -> String {
        let total: u64 = self.choices.iter().map(|c| u64::from(c.weight)).sum();
        if total == 0 {
            return String::new();
        }
        let mut random = Random::new(seed);
        let mut ticket = random.next() % total;
        for choice in &self.choices {
            if ticket < u64::from(choice.weight) {
                return match (&choice.text, &choice.file) {
                    (Some(text), _) => text.clone(),
                    (_, Some(file)) => folder.join(file).to_string_lossy().into_owned(),
                    _ => String::new(),
                };
            }
            ticket -= u64::from(choice.weight);
        }
        String::new()
    }

    /// Input that a compressor finds neither trivial nor hopeless: runs of
    /// random length, the same on every machine.
    pub fn input(&self) -> Vec<u8> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut input = Vec::with_capacity(self.input_bytes);
        while input.len() < self.input_bytes {
            let next = random.next();
            let run = 1 + (next >> 8) as usize % 4;
            input.extend(std::iter::repeat_n(next as u8, run));
        }
        input.truncate(self.input_bytes);
        input
    }
}

/// A xorshift generator: small, and the same everywhere.
struct Random(u64);

impl Random {
    /// Neighbouring seeds begin far apart.
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(text: &str) -> Workload {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn choices_are_taken_by_weight_and_repeat_with_the_seed() {
        let workload = workload(
            "arguments = ['-x', '{choice}']\n\
             choices = [{ weight = 3, text = 'a b' }, { weight = 1, file = 'f' }]",
        );
        assert!(workload.varies());
        let files = Files {
            input: Path::new("/i"),
            output: Path::new("/o"),
            folder: Path::new("/bug"),
            server: "",
        };
        let of = |seed| workload.arguments(&files, seed);
        let first = (0..4000).filter(|seed| of(*seed)[1] == "a b").count();
        let second = (0..4000).filter(|seed| of(*seed)[1] == "/bug/f").count();
        assert_eq!(first + second, 4000);
        // Deterministic: three quarters, as the weights say.
        assert!((2850..3150).contains(&first), "{first}");
        assert_eq!(of(7), of(7));
    }

    #[test]
    fn halves_of_a_pair_are_refused() {
        let refusal = |text| {
            workload(text)
                .check(Path::new("/"))
                .unwrap_err()
                .to_string()
        };
        assert!(refusal("arguments = ['{choice}']").contains("{choice}"));
        assert!(refusal("arguments = ['{input}']").contains("input_bytes"));
        let both = "arguments = ['{choice}']\nchoices = [{ weight = 1, text = 'a', file = 'b' }]";
        assert!(refusal(both).contains("either"));
    }

    #[test]
    fn a_choice_may_name_the_server_and_keep_its_own_braces() {
        let workload = workload(
            "arguments = ['{choice}', '{socket}']\n\
             choices = [{ weight = 1, text = '{server}/{a,b}' }]",
        );
        let files = Files {
            input: Path::new("/i"),
            output: Path::new("/o"),
            folder: Path::new("/bug"),
            server: "127.0.0.1:9",
        };
        assert!(workload.fetches() && workload.check(Path::new("/")).is_ok());
        let given = workload.arguments(&files, 3);
        assert_eq!(given, ["127.0.0.1:9/{a,b}", "/o.socket"]);
    }
}
