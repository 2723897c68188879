//! The agent's configuration file.
//!
//! One TOML file for the machine, `/etc/failsketch/agent.toml` unless another is
//! named. An unknown key is an error: a policy that was meant and not understood
//! must not pass silently.

use crate::{
    error::AgentError,
    policy::{Policy, fits},
};
use serde::Deserialize;
use sketch_model::Privacy;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub const DEFAULT_PATH: &str = "/etc/failsketch/agent.toml";
const MEGABYTE: u64 = 1 << 20;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The server's address.
    pub server: Option<String>,
    /// The server's public key: a file, or the key itself.
    pub key: Option<String>,
    /// A file with the token that the server gave this machine.
    pub token: Option<PathBuf>,
    /// Certificates of the authorities to trust, in place of the machine's.
    pub ca: Option<PathBuf>,
    /// This machine's certificate and its key, for servers that ask for one.
    pub certificate: Option<PathBuf>,
    /// The name of this agent.
    pub agent: Option<String>,
    /// Where patches and the runtime are kept.
    pub cache: Option<PathBuf>,
    /// Where the daemon listens.
    pub socket: Option<PathBuf>,
    /// A file with the secret for `privacy = "shapes"`; made if it is not there.
    pub privacy_secret: Option<PathBuf>,
    pub spool: SpoolConfig,
    /// The policy of programs without one of their own.
    pub policy: Policy,
    /// Policies of single programs; the first that fits counts.
    pub program: Vec<ProgramConfig>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolConfig {
    pub folder: Option<PathBuf>,
    pub limit_mb: u64,
}

impl Default for SpoolConfig {
    fn default() -> SpoolConfig {
        SpoolConfig {
            folder: None,
            limit_mb: 256,
        }
    }
}

impl SpoolConfig {
    pub fn limit(&self) -> u64 {
        self.limit_mb.saturating_mul(MEGABYTE)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramConfig {
    /// A path or file name, with `*` for any characters.
    #[serde(rename = "match")]
    pub pattern: String,
    #[serde(default)]
    pub policy: Policy,
}

impl Config {
    /// Reads a file; a missing one at the default place is an empty one.
    pub fn read(named: Option<&Path>) -> Result<Config, AgentError> {
        let path = named.unwrap_or(Path::new(DEFAULT_PATH));
        let bad = |reason: String| AgentError::BadConfig {
            path: path.to_owned(),
            reason,
        };
        match fs::read_to_string(path) {
            Ok(text) => Config::parse(&text).map_err(bad),
            Err(e) if named.is_none() && e.kind() == io::ErrorKind::NotFound => {
                Ok(Config::default())
            }
            Err(error) => Err(bad(error.to_string())),
        }
    }

    fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|e| e.to_string().trim().to_owned())?;
        let own = config.program.iter().map(|p| (&*p.pattern, &p.policy));
        for (whose, policy) in std::iter::once(("all programs", &config.policy)).chain(own) {
            if let Some(fault) = policy.fault() {
                return Err(format!("in the policy of {whose}, {fault}"));
            }
        }
        if config.spool.limit_mb == 0 {
            return Err("spool.limit_mb = 0 leaves no room for any record".into());
        }
        Ok(config)
    }

    /// Whether some program's values leave this machine disguised.
    pub fn disguises_values(&self) -> bool {
        let own = self.program.iter().map(|program| &program.policy);
        std::iter::once(&self.policy)
            .chain(own)
            .any(|policy| policy.privacy == Privacy::Shapes)
    }

    /// The policy for a program.
    pub fn policy_for(&self, program: &Path) -> &Policy {
        self.program
            .iter()
            .find(|own| fits(&own.pattern, program))
            .map_or(&self.policy, |own| &own.policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_each_program_its_policy() {
        let config = Config::parse(
            r#"
            server = "http://127.0.0.1:7420"
            [policy]
            track = 0.1
            [[program]]
            match = "postgres"
            policy = { privacy = "control-flow-only", hang_after = 30 }
            "#,
        )
        .expect("is well-formed");
        let own = config.policy_for(Path::new("/usr/bin/postgres"));
        assert_eq!(own.privacy, Privacy::ControlFlowOnly);
        assert_eq!(own.hang().expect("watches").patience.as_secs(), 30);
        let other = config.policy_for(Path::new("/usr/bin/curl"));
        assert_eq!((other.track, other.privacy), (0.1, Privacy::Full));
    }

    #[test]
    fn the_file_that_is_shipped_says_what_happens_without_one_but_for_privacy() {
        let shipped = Config::parse(include_str!("../../packaging/agent.toml")).expect("is right");
        // But for this: a machine that is installed sends no values as they are.
        assert_eq!(shipped.policy.privacy, Privacy::Shapes);
        assert!(shipped.disguises_values() && !Config::default().disguises_values());
        let policy = Policy {
            privacy: Policy::default().privacy,
            ..shipped.policy
        };
        assert_eq!(policy, Policy::default());
        assert_eq!(shipped.spool, SpoolConfig::default());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let table = [
            ("trak = 1", "unknown field `trak`"),
            (
                "[policy]\ntrack = 2",
                "in the policy of all programs, track = 2",
            ),
            ("[spool]\nlimit_mb = 0", "leaves no room"),
            (
                "[[program]]\nmatch = \"x\"\npolicy = { hang_after = 0 }",
                "in the policy of x, hang_after = 0",
            ),
            ("[policy]\nprivacy = \"some\"", "unknown variant `some`"),
        ];
        for (text, words) in table {
            let refused = Config::parse(text).expect_err(text);
            assert!(refused.contains(words), "{refused}");
        }
    }
}
