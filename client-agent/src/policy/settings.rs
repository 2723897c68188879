//! Flags, configuration file and daemon → the settings of one `run`.
//!
//! A flag beats the daemon's policy, which beats the file's. Nothing in here
//! may keep the command from running: what cannot be used is reported and ignored.

use crate::cli::RunArguments;
use crate::daemon::default_socket;
use crate::delivery::client::Server;
use crate::delivery::connection::Access;
use crate::delivery::outbox::Outbox;
use crate::delivery::spool::{Folder, Spool};
use crate::error::AgentError;
use crate::policy::Policy;
use crate::policy::file::Config;
use crate::preload;
use crate::process::sys;
use crate::record::secret;
use crate::record::secret::foreign_owner;
use crate::stderr_log::say;
use code_patch::PublicKey;
use sketch_model::{AgentId, Privacy};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// What a run goes by.
pub struct Settings {
    pub agent: AgentId,
    pub cache: PathBuf,
    pub key: Option<PublicKey>,
    pub policy: Policy,
    /// The operator's secret for disguised values.
    pub secret: Vec<u8>,
    /// Whom it asks and tells: the machine's daemon, or the server itself.
    pub upstream: Option<Outbox<Folder>>,
}

impl Settings {
    pub fn gather(arguments: &RunArguments, program: &Path) -> Settings {
        let mut config = Config::read(arguments.config.as_deref()).unwrap_or_else(|error| {
            say(&error);
            Config::default()
        });
        arguments.way.beat(&mut config);
        let daemon = daemon(arguments, &config);
        let mut policy = match daemon.as_ref().map(|daemon| daemon.policy(program)) {
            Some(Ok(policy)) => policy,
            Some(Err(error)) => {
                say(&error);
                config.policy_for(program).clone()
            }
            None => config.policy_for(program).clone(),
        };
        apply_flags(&mut policy, arguments);
        let cache = arguments
            .cache
            .clone()
            .or_else(|| config.cache.clone())
            .unwrap_or_else(preload::default_cache);
        let given = arguments.key.as_ref().or(config.key.as_ref());
        let key = given.and_then(|given| public_key(given).inspect_err(|e| say(e)).ok());
        let secret = privacy_secret(&config, daemon.as_ref(), &cache, &mut policy);
        let grace = Duration::try_from_secs_f64(arguments.grace).unwrap_or_default();
        let name = arguments.agent.clone().or_else(|| config.agent.clone());
        Settings {
            agent: AgentId(name.unwrap_or_else(sys::host_name)),
            // No server knows of a build that the operator made by hand.
            upstream: match &arguments.patch {
                Some(_) => None,
                None => upstream(&config, daemon, &cache, grace),
            },
            cache,
            key,
            policy,
            secret,
        }
    }
}

/// The daemon that was named, or the machine's if one answers; a server named
/// on the command line is meant to be used directly.
fn daemon(arguments: &RunArguments, config: &Config) -> Option<Server> {
    if arguments.way.server.is_some() {
        return None;
    }
    let named = arguments.daemon.as_ref().or(config.socket.as_ref());
    match named {
        Some(socket) => Server::daemon(socket).inspect_err(|e| say(e)).ok(),
        None => unnamed_daemon(&default_socket(), sys::user_id()),
    }
}

/// The daemon at the usual place, if there is one: nobody promised that. In a temporary folder
/// it may be anybody's, who would be told everything.
fn unnamed_daemon(socket: &Path, own: u32) -> Option<Server> {
    let daemon = Server::daemon(socket).ok()?;
    let foreign = socket.parent().and_then(foreign_owner);
    let Some(owner) = foreign.filter(|_| own != 0) else {
        return Some(daemon);
    };
    say(format_args!(
        "the daemon at {} is not asked, because the folder belongs to another user (number \
         {owner}); name its socket with --daemon if it is yours",
        socket.display()
    ));
    None
}

fn upstream(
    config: &Config,
    daemon: Option<Server>,
    cache: &Path,
    grace: Duration,
) -> Option<Outbox<Folder>> {
    let (server, folder, grace) = match daemon {
        // Its own spool would give it back what it did not take, and a disk that is slow to
        // sync is no reason to lose a record.
        Some(daemon) => {
            let grace = grace.max(Duration::from_secs(1));
            (daemon, cache.join("handover"), grace)
        }
        None => {
            let server = Server::new(&Access::configured(config)?);
            let folder = config.spool.folder.clone();
            let folder = folder.unwrap_or_else(|| cache.join("spool"));
            (server.inspect_err(|e| say(e)).ok()?, folder, grace)
        }
    };
    let disk = Folder::open(&folder).inspect_err(|reason| {
        let folder = folder.display();
        say(format_args!(
            "there is no spool: cannot use {folder}: {reason}"
        ));
    });
    Some(Outbox {
        server,
        spool: disk
            .ok()
            .map(|disk| Spool::new(disk, config.spool.limit(), sys::unique_u64())),
        grace,
    })
}

fn apply_flags(policy: &mut Policy, arguments: &RunArguments) {
    policy.fail_exits.extend(&arguments.fail_exit);
    policy.privacy = arguments.privacy.unwrap_or(policy.privacy);
    policy.check = arguments.check.clone().or(policy.check.take());
    policy.max_overhead = arguments.max_overhead.unwrap_or(policy.max_overhead);
    policy.watch_way = arguments.watch_way.unwrap_or(policy.watch_way);
    policy.canary = arguments.canary.unwrap_or(policy.canary);
    if arguments.hang_after.is_some() {
        policy.hang_after = arguments.hang_after;
        policy.hang_when_idle = arguments.hang_when_idle;
        policy.end_hung = arguments.end_hung;
    }
    if let Some(fault) = policy.fault() {
        say(format_args!("the default policy is used: {fault}"));
        // What was asked to be withheld stays withheld.
        let privacy = policy.privacy;
        *policy = Policy {
            privacy,
            ..Policy::default()
        };
    }
}

/// The secret, or a policy that needs none: values whose disguise anybody could
/// undo are not sent at all.
fn privacy_secret(
    config: &Config,
    daemon: Option<&Server>,
    cache: &Path,
    policy: &mut Policy,
) -> Vec<u8> {
    if policy.privacy != Privacy::Shapes {
        return Vec::new();
    }
    let from_file = || secret::read_or_make(config, cache);
    let found = match daemon.map(Server::secret) {
        Some(Ok(secret)) => secret::checked(secret),
        // It may be older than this agent.
        Some(Err(_)) | None => from_file(),
    };
    found.unwrap_or_else(|why| {
        say(format_args!("only control flow is sent: {why}"));
        policy.privacy = Privacy::ControlFlowOnly;
        Vec::new()
    })
}

/// The pinned key: from a file, or the text itself.
pub fn public_key(given: &str) -> Result<PublicKey, AgentError> {
    let (origin, text) = match fs::read_to_string(given) {
        Ok(text) => (given.to_owned(), text),
        Err(_) => ("--key".to_string(), given.to_owned()),
    };
    PublicKey::from_text(&text).map_err(|e| AgentError::BadKey {
        origin,
        reason: e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::{fs::chown, net::UnixListener};

    #[test]
    fn a_daemon_that_nobody_named_is_not_asked_in_a_folder_of_another_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("agent.sock");
        assert!(unnamed_daemon(&socket, 1000).is_none(), "there is none");
        let _daemon = UnixListener::bind(&socket).expect("listens");
        assert!(unnamed_daemon(&socket, 1000).is_some(), "root's or our own");
        // Only root gives folders away.
        if sys::user_id() == 0 {
            chown(folder.path(), Some(61917), None).expect("root may");
            assert!(unnamed_daemon(&socket, 1000).is_none(), "another user's");
            assert!(unnamed_daemon(&socket, 0).is_some(), "systemd's, in /run");
        }
    }
}
