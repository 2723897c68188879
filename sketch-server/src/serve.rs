//! Starting and stopping the whole server.

use crate::access::Gate;
use crate::campaigns::assignment::Assigner;
use crate::campaigns::assignment_feed::Standing;
use crate::campaigns::engine;
use crate::campaigns::fleet::Fleet;
use crate::http::events::MOST_STREAMS;
use crate::http::limits::Limits;
use crate::http::listen::listen;
use crate::http::metrics::Metrics;
use crate::http::routes::{Service, router};
use crate::http::tls::{self, TlsError, TlsFiles};
use crate::http::upload;
use crate::jobs::Tools;
use crate::storage::{BlobPlace, Blobs, Database, Retention, Storage, StorageError, keep_sweeping};
use crate::traces::decode::TraceReader;
use build_analysis::{BitcodeReader, BuildTools, StoredBuilds};
use server_files::private_files::{
    make_private_folder, open_lock_file, tighten_data, tighten_folder,
};
use server_files::signing_key::{self, KeyError};
use server_files::{TokenFile, TokenFileError};
use std::fs::{File, TryLockError};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Where a server keeps its things and where it listens.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The database, the blobs and the signing key.
    pub data: PathBuf,
    /// The build store that `failsketch register` fills.
    pub store: PathBuf,
    pub database: Database,
    /// Where tracked builds and patches are kept; `None` for the data folder.
    pub blobs: Option<BlobPlace>,
    pub retention: Retention,
    pub listen: SocketAddr,
    /// The token file; `tokens.json` in the data folder by default.
    pub tokens: Option<PathBuf>,
    /// TLS, if the server is to speak it.
    pub tls: Option<TlsFiles>,
    /// Tokens may cross the network in the clear: something in front of the
    /// server encrypts.
    pub plain_http: bool,
    pub limits: Limits,
    /// `failsketch` itself, which reads in processes with limits what others wrote: Intel
    /// PT with `pt-worker`, and bitcode with `read-bitcode`. Without one traces stay
    /// undecoded, and sketches say so; builds whose graph is not stored are refused.
    pub worker: Option<PathBuf>,
}

impl ServerConfig {
    /// A server with nothing chosen but where its things are.
    pub fn new(data: &Path, store: &Path, listen: SocketAddr) -> ServerConfig {
        ServerConfig {
            data: data.to_owned(),
            store: store.to_owned(),
            listen,
            database: Database::default(),
            blobs: None,
            retention: Retention::default(),
            tokens: None,
            tls: None,
            plain_http: false,
            limits: Limits::default(),
            worker: None,
        }
    }

    /// Where the tokens are.
    pub fn token_file(&self) -> PathBuf {
        let given = self.tokens.clone();
        given.unwrap_or_else(|| self.data.join("tokens.json"))
    }

    /// Who is let in; refuses what would let in anybody from anywhere.
    fn gate(&self) -> Result<Gate, ServerError> {
        let gate = Gate {
            book: TokenFile::at(&self.token_file()),
            may_be_open: self.listen.ip().is_loopback(),
            certificates: self.tls.as_ref().is_some_and(|t| t.client_ca.is_some()),
        };
        let tokens = gate.book.tokens()?;
        if gate.may_be_open {
            return Ok(gate);
        }
        if tokens.is_none_or(|tokens| tokens.is_empty()) {
            return Err(ServerError::NoTokens {
                address: self.listen,
                tokens: self.token_file(),
            });
        }
        if self.tls.is_none() && !self.plain_http {
            return Err(ServerError::NoTls {
                address: self.listen,
            });
        }
        Ok(gate)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot use the data folder {path}: {source}; choose one that can be written to")]
    DataFolder { path: PathBuf, source: io::Error },
    #[error(
        "the data folder {path} is open to others and cannot be closed to them: {source}; give it to the server's user, or name another folder with --data"
    )]
    OpenData { path: PathBuf, source: io::Error },
    #[error(
        "another server uses the data folder {path}; stop it, or choose another folder with --data"
    )]
    InUse { path: PathBuf },
    #[error(
        "cannot listen on {address}: {source}; choose another address, or port 0 for any free one"
    )]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "{address} can be reached from other machines, and {tokens} holds no token; make one with `failsketch token add --role admin NAME`, or listen on 127.0.0.1"
    )]
    NoTokens {
        address: SocketAddr,
        tokens: PathBuf,
    },
    #[error(
        "{address} can be reached from other machines, and tokens would cross the network in the clear; name --tls-cert and --tls-key, or say --plain-http if a proxy in front encrypts"
    )]
    NoTls { address: SocketAddr },
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(
        "the servers of this database sign patches with another key than {path}; copy \
         `signing.key` from the data folder of one of them, or agents would refuse the patches \
         of one or the other"
    )]
    OtherKey { path: PathBuf },
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Runs the server until `shutdown` completes. `ready` hears the address that
/// it listens on, once it does.
pub async fn serve(
    config: ServerConfig,
    shutdown: impl Future<Output = ()> + Send + 'static,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServerError> {
    let reader = BitcodeReader {
        command: config.worker.clone(),
    };
    let builds = Arc::new(StoredBuilds::open(&config.store, reader));
    serve_with(config, builds, shutdown, |address, _| ready(address)).await
}

/// Holds the data folder for as long as the file stays open: two engines on one
/// database would overwrite each other's campaigns.
fn lock(data: &Path) -> Result<File, ServerError> {
    let path = data.join("lock");
    let file = open_lock_file(&path).map_err(|source| ServerError::DataFolder {
        path: path.clone(),
        source,
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServerError::InUse {
            path: data.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(ServerError::DataFolder { path, source }),
    }
}

/// Tightens the data folder of an earlier release, and says so. The signing key is
/// not among the files: one that others could read is known to them, and is refused.
fn close_to_others(data: &Path) -> Result<(), ServerError> {
    const OURS: [&str; 8] = [
        "failsketch.sqlite",
        "failsketch.sqlite-wal",
        "failsketch.sqlite-shm",
        "failsketch.sqlite-journal",
        "lock",
        "signing.pub",
        "tokens.json",
        "tokens.lock",
    ];
    let open = |source| ServerError::OpenData {
        path: data.to_owned(),
        source,
    };
    let mut files = tighten_data(data, &OURS).map_err(open)?.len();
    files += tighten_folder(&data.join("blobs")).map_err(open)?;
    if files > 0 {
        tracing::warn!(data = %data.display(), files, "other users could read the data folder; now only its owner can");
    }
    Ok(())
}

/// As [`serve`], with build tools of the caller's choice. `ready` also gets the
/// engine, so that a test can wait until it is quiet.
pub async fn serve_with(
    config: ServerConfig,
    builds: Arc<dyn BuildTools>,
    shutdown: impl Future<Output = ()> + Send + 'static,
    ready: impl FnOnce(SocketAddr, engine::EngineHandle),
) -> Result<(), ServerError> {
    let gate = Arc::new(config.gate()?);
    let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
    make_private_folder(&config.data).map_err(|source| ServerError::DataFolder {
        path: config.data.clone(),
        source,
    })?;
    let _alone = lock(&config.data)?;
    close_to_others(&config.data)?;
    let signing = signing_key::load_or_make(&config.data)?;
    let beside = || BlobPlace::Folder(config.data.join("blobs"));
    let blobs = Blobs::open(&config.blobs.clone().unwrap_or_else(beside))?;
    let blobs = Arc::new(blobs);
    let storage = config.database.open(&config.data).await?;
    if storage.agree("signing_key", &signing.public).await? != signing.public {
        let path = config.data.join("signing.key");
        return Err(ServerError::OtherKey { path });
    }
    let unreachable = |source| ServerError::Listen {
        address: config.listen,
        source,
    };
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(unreachable)?;
    let address = listener.local_addr().map_err(unreachable)?;
    let tools = Tools {
        builds: Arc::clone(&builds),
        blobs: Arc::clone(&blobs),
        key: Arc::new(signing.secret),
        traces: TraceReader {
            worker: config.worker.clone(),
        },
    };
    let (close, closing) = watch::channel(false);
    let (engine, thread) = engine::start(Arc::clone(&storage), tools).await?;
    let metrics = Arc::new(Metrics::default());
    let alive = tokio::spawn(keep_alive(Arc::clone(&storage)));
    let sweeping = tokio::spawn(keep_sweeping(Arc::clone(&storage), config.retention));
    let database = Arc::clone(&storage);
    let service = Arc::new(Service {
        storage,
        blobs,
        builds,
        engine: engine.clone(),
        assigner: Assigner::default(),
        standing: Standing::default(),
        public_key: signing.public,
        registered: Default::default(),
        variants: Default::default(),
        fleet: Fleet::default(),
        gate,
        metrics: Arc::clone(&metrics),
        uploads: upload::allowance(&config.limits),
        limits: config.limits.clone(),
        streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        closing: closing.clone(),
    });
    ready(address, engine.clone());
    tracing::info!(%address, "listening");
    // Streams of progress end with `closing`: they would keep it waiting for ever.
    tokio::spawn(async move {
        shutdown.await;
        let _ = close.send(true);
    });
    let app = router(service);
    listen(listener, tls, app, config.limits, metrics, closing).await;
    engine.shut_down();
    if let Err(error) = thread.await {
        tracing::error!(%error, "the engine panicked");
    }
    sweeping.abort();
    alive.abort();
    if let Err(error) = database.close().await {
        tracing::warn!(%error, "the other servers take over only when this one's lease has \
                                expired");
    }
    Ok(())
}

/// Tells the other servers of a shared storage that this one lives.
async fn keep_alive(storage: Arc<Storage>) {
    let Some(heartbeat) = storage.heartbeat() else {
        return;
    };
    let mut beat = tokio::time::interval(heartbeat);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        if let Err(error) = storage.still_alive().await {
            tracing::warn!(%error, "other servers may take over this one's work");
        }
    }
}
