//! What leaves the machine, and whether it can be compared with what others send.
//!
//! Values that two secrets disguised cannot be compared: the same value is another
//! number on the other machine. Nobody sees that in a record, so it is said here, by
//! the fingerprints of the secrets that the server has seen.

use super::{Finding, Health};
use crate::daemon::default_socket;
use crate::delivery::client::{Server, ServerAgent};
use crate::delivery::connection::Access;
use crate::policy::file::Config;
use crate::process::sys;
use crate::record::secret;
use sketch_model::Privacy;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// Machines that are named; the others are counted.
const MOST_NAMED: usize = 5;

pub fn values(config: &Config) -> Finding {
    let (health, detail) = match config.disguises_values() {
        true => disguised(config),
        false => undisguised(config.policy.privacy),
    };
    Finding::new(health, "privacy", detail)
}

fn undisguised(privacy: Privacy) -> (Health, String) {
    let detail = match privacy {
        Privacy::ControlFlowOnly => "no values leave this machine",
        Privacy::Full | Privacy::Shapes => {
            "values leave this machine undisguised; privacy = \"shapes\" in the policy disguises \
             them"
        }
    };
    (Health::Ok, detail.into())
}

fn disguised(config: &Config) -> (Health, String) {
    let cache = secret::cache(config);
    let path = secret::path(config, &cache);
    let socket = config.socket.clone().unwrap_or_else(default_socket);
    let of_the_daemon = Server::daemon(&socket)
        .and_then(|daemon| daemon.secret())
        .ok();
    let secret = match of_the_daemon.map(|secret| Ok(Some(secret))) {
        Some(found) => found,
        None => secret::read(config, &cache),
    };
    let key = match secret {
        Ok(Some(secret)) => secret::fingerprint(&secret),
        Ok(None) => {
            let file = path.display();
            return (
                Health::Degraded,
                format!(
                    "values will be disguised by a secret that the first run or daemon makes in \
                     {file}: those of two machines cannot be compared unless all have the same \
                     file; copy one to all of them, mode 600, or name one with privacy_secret"
                ),
            );
        }
        Err(why) => return (Health::Missing, format!("only control flow is sent: {why}")),
    };
    if others_may_read(&path) {
        let file = path.display();
        let detail = format!("others may read the privacy secret; chmod 600 {file}");
        return (Health::Degraded, detail);
    }
    let agent = config.agent.clone().unwrap_or_else(sys::host_name);
    compared(&key, &agent, agents(config))
}

fn others_may_read(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o077 != 0)
}

fn agents(config: &Config) -> Option<Vec<ServerAgent>> {
    let server = Server::new(&Access::configured(config)?).ok()?;
    server.agents().ok()
}

/// `seen` is what the server tells of its agents, if it tells us.
fn compared(key: &str, own: &str, seen: Option<Vec<ServerAgent>>) -> (Health, String) {
    let Some(seen) = seen else {
        return (
            Health::Ok,
            format!(
                "values are disguised by the secret {key}; they can be compared only with those of \
                 machines that show the same here, and the server's fleet page lists those that \
                 do not"
            ),
        );
    };
    let others = seen.into_iter().filter(|other| other.agent != own);
    let (same, different): (Vec<_>, Vec<_>) = others
        .filter_map(|other| Some((other.agent, other.privacy_key?)))
        .partition(|(_, theirs)| theirs == key);
    if different.is_empty() {
        let detail = format!(
            "values are disguised by the secret {key}, as are those of {} other machines that the \
             server has heard of",
            same.len()
        );
        return (Health::Ok, detail);
    }
    let named: Vec<String> = different
        .iter()
        .take(MOST_NAMED)
        .map(|(agent, theirs)| format!("{agent} (secret {theirs})"))
        .collect();
    let more = match different.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (
        Health::Degraded,
        format!(
            "values are disguised by the secret {key} and cannot be compared with those of {}{more}; \
             put one privacy_secret on all machines of the fleet",
            named.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_with_another_secret_are_named_and_this_one_is_not() {
        let agent = |name: &str, key: Option<&str>| ServerAgent {
            agent: name.into(),
            privacy_key: key.map(str::to_owned),
        };
        let seen = vec![
            agent("web-1", Some("00000000")),
            agent("web-2", Some("aaaaaaaa")),
            agent("web-3", Some("bbbbbbbb")),
            agent("web-4", None),
        ];
        let (health, detail) = compared("aaaaaaaa", "web-1", Some(seen.clone()));
        assert_eq!(health, Health::Degraded);
        assert!(
            detail.contains("cannot be compared with those of web-3 (secret bbbbbbbb);"),
            "{detail}"
        );
        let alike = seen[..2].to_vec();
        let (health, detail) = compared("aaaaaaaa", "web-1", Some(alike));
        assert_eq!(health, Health::Ok);
        assert!(detail.contains("of 1 other machines"), "{detail}");
        let (health, detail) = compared("aaaaaaaa", "web-1", None);
        assert_eq!(health, Health::Ok);
        assert!(detail.contains("can be compared only with"), "{detail}");
        let many = (0..9).map(|n| agent(&format!("m{n}"), Some("cccccccc")));
        let (_, detail) = compared("aaaaaaaa", "web-1", Some(many.collect()));
        assert!(
            detail.contains("m4 (secret cccccccc) and 4 more;"),
            "{detail}"
        );
    }
}
