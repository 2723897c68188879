//! `failsketch-agent daemon`: one per machine.
//!
//! It knows the server and the policies, answers `run`s over a local socket at the server's
//! own routes, and keeps their records in the spool until the server has them. A `run` that
//! finds no daemon does all this itself; the daemon exists so that a thousand
//! short runs share one connection, one spool and one answer to "what to run".
//!
//! Threads, no runtime: connections are few and short, and an idle daemon has
//! every thread asleep in the kernel.

pub(crate) mod assignment_feed;
mod keeper;

use crate::delivery::client::{self, Server};
use crate::delivery::connection::Access;
use crate::delivery::local_http;
use crate::error::AgentError;
use crate::policy::file::Config;
use crate::preload::{default_cache, prepare_cache};
use crate::process::sys;
use crate::record::secret;
use crate::stderr_log::say;
use assignment_feed::Plans;
use keeper::Keeper;
use std::{
    ffi::OsStr,
    fs,
    io::{self, BufReader},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

/// A run record.
const LONGEST_QUESTION: u64 = 64 << 20;
/// Connections beyond this wait in the kernel's queue.
const MOST_CONNECTIONS: usize = 64;
/// A client that says nothing for this long is cut off.
const CLIENT_PATIENCE: Duration = Duration::from_secs(10);

/// Where `run` looks for the daemon and the daemon listens, if nobody says.
pub fn default_socket() -> PathBuf {
    if sys::user_id() == 0 {
        return PathBuf::from("/run/failsketch/agent.sock");
    }
    std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .unwrap_or_else(default_cache)
        .join("failsketch-agent.sock")
}

/// Serves until the process is ended.
pub fn serve(config_path: Option<&Path>) -> Result<(), AgentError> {
    sys::survive_large_files();
    let config = Config::read(config_path)?;
    let access = Access::configured(&config).ok_or(AgentError::NoServer)?;
    let server = Server::new(&access)?;
    let cache = config.cache.clone().unwrap_or_else(default_cache);
    prepare_cache(&cache)?;
    let spool = config
        .spool
        .folder
        .clone()
        .unwrap_or_else(|| cache.join("spool"));
    if config.disguises_values()
        && let Err(why) = secret::read_or_make(&config, &cache)
    {
        say(format_args!("this machine has no privacy secret: {why}"));
    }
    let keeper = Keeper::start(
        &spool,
        config.spool.limit(),
        server.clone(),
        sys::unique_u64(),
    )
    .map_err(|reason| AgentError::File {
        action: "use the spool",
        path: spool,
        reason,
    })?;
    let socket = config.socket.clone().unwrap_or_else(default_socket);
    let listener = listen(&socket).map_err(|reason| AgentError::File {
        action: "listen on",
        path: socket.clone(),
        reason,
    })?;
    say(format_args!(
        "listening on {}, reporting to {}",
        socket.display(),
        access.url
    ));
    let daemon = Arc::new(Daemon {
        configuration: Mutex::new(Configuration::new(config_path, config)),
        plans: Plans::new(server),
        keeper,
        connections: AtomicUsize::new(0),
    });
    for connection in listener.incoming() {
        match connection {
            Ok(connection) => daemon.clone().welcome(connection),
            // Out of descriptors, most likely: some will be free again soon.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    Ok(())
}

/// Takes over the socket of a daemon that is gone, never of one that answers.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = socket.parent() {
        // Whoever may use the socket must get there: its group, as the socket says.
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o750).create(folder)?;
    }
    if UnixStream::connect(socket).is_ok() {
        return Err(io::Error::other(
            "another daemon answers there; stop it first",
        ));
    }
    match fs::symlink_metadata(socket) {
        Ok(_) => fs::remove_file(socket)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// The configuration as it is on disk now.
#[derive(Debug)]
struct Configuration {
    path: Option<PathBuf>,
    changed: Option<SystemTime>,
    current: Config,
}

impl Configuration {
    fn new(path: Option<&Path>, current: Config) -> Configuration {
        let mut configuration = Configuration {
            path: path.map(Path::to_owned),
            changed: None,
            current,
        };
        configuration.changed = configuration.time();
        configuration
    }

    fn time(&self) -> Option<SystemTime> {
        let path = self
            .path
            .as_deref()
            .unwrap_or(Path::new(crate::policy::file::DEFAULT_PATH));
        fs::metadata(path).and_then(|about| about.modified()).ok()
    }

    /// Reads the file again if it has changed. A file that makes no sense, or
    /// is gone, leaves the last good one in force.
    fn fresh(&mut self) -> &Config {
        let time = self.time();
        if time.is_some() && time != self.changed {
            self.changed = time;
            match Config::read(self.path.as_deref()) {
                Ok(config) => {
                    self.current = config;
                    say("the configuration was reloaded");
                }
                Err(error) => say(format_args!(
                    "the old configuration stays in force: {error}"
                )),
            }
        }
        &self.current
    }
}

struct Daemon {
    configuration: Mutex<Configuration>,
    plans: Arc<Plans>,
    keeper: Keeper,
    connections: AtomicUsize,
}

/// A thread that panicked while holding one of these left it whole: every
/// change is a single assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    fn welcome(self: Arc<Daemon>, connection: UnixStream) {
        while self.connections.load(Ordering::Acquire) >= MOST_CONNECTIONS {
            thread::sleep(Duration::from_millis(5));
        }
        self.connections.fetch_add(1, Ordering::AcqRel);
        let daemon = self.clone();
        let started = thread::Builder::new().stack_size(256 << 10).spawn(move || {
            // The client may be gone; there is nobody to tell.
            let _ = daemon.converse(&connection);
            daemon.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            self.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn converse(&self, connection: &UnixStream) -> io::Result<()> {
        connection.set_read_timeout(Some(CLIENT_PATIENCE))?;
        connection.set_write_timeout(Some(CLIENT_PATIENCE))?;
        let asked = local_http::receive(&mut BufReader::new(connection), LONGEST_QUESTION);
        let answer = match asked {
            Ok(Some((first, body))) => self.answer(&first, body),
            // Somebody looked whether there is a daemon.
            Ok(None) => return Ok(()),
            // Whoever sent it may want to know.
            Err(error) => Err((400, error.to_string())),
        };
        let (status, body) = match answer {
            Ok(body) => (200, body),
            Err((status, why)) => (status, why.into_bytes()),
        };
        let first = format!("HTTP/1.1 {status} \r\nconnection: close");
        local_http::send(&mut &*connection, &first, &body)
    }

    fn answer(&self, first: &str, body: Vec<u8>) -> Result<Vec<u8>, (u16, String)> {
        let failed = |why: String| (500, why);
        let json =
            |written: serde_json::Result<Vec<u8>>| written.map_err(|e| failed(e.to_string()));
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        match (method, path, client::patch_at(path), client::worth_at(path)) {
            ("POST", client::POLICY, ..) => {
                let path = Path::new(OsStr::from_bytes(&body));
                let mut configuration = lock(&self.configuration);
                json(serde_json::to_vec(configuration.fresh().policy_for(path)))
            }
            ("GET", client::SECRET, ..) => {
                let mut configuration = lock(&self.configuration);
                let config = configuration.fresh();
                secret::read_or_make(config, &secret::cache(config)).map_err(failed)
            }
            ("POST", client::ASSIGNMENTS, ..) => {
                let request = serde_json::from_slice(&body).map_err(|e| (400, e.to_string()))?;
                let told = self.plans.assignments(&request).map_err(passed_on)?;
                json(serde_json::to_vec(&told))
            }
            ("GET", _, Some(variant), _) => {
                let patch = self.plans.patch(variant).map_err(passed_on)?;
                Ok(patch.to_vec())
            }
            ("POST", _, _, Some(worth)) => {
                let kept = self.keeper.keep(body, worth);
                kept.map(|()| Vec::new()).map_err(failed)
            }
            _ => Err((404, format!("the daemon is not asked for {method} {path}"))),
        }
    }
}

/// What kept the daemon from an answer: the server's own refusal, or that it gave none.
fn passed_on(error: AgentError) -> (u16, String) {
    match error {
        AgentError::ServerRefused { status, answer, .. } => (status, answer),
        error => (502, error.to_string()),
    }
}
