//! `failsketch serve`: the server with its embedded store.

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sketch_server::serve;
use sketch_server::storage::{BlobPlace, Database, Retention};
use sketch_server::{Limits, ServerConfig, TlsFiles};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub struct Arguments {
    /// The address to listen on. One that other machines can reach needs tokens
    /// (`failsketch token add`) and TLS.
    #[arg(long, default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Where campaigns, runs, sketches and the signing key are kept.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The build store that `failsketch register` fills.
    #[arg(long)]
    store: Option<PathBuf>,
    /// A PostgreSQL database for campaigns, runs and sketches, instead of a file in
    /// the data folder. Several servers may share one; see docs/server.md.
    #[arg(long, value_name = "postgres://USER@HOST/NAME")]
    database: Option<Database>,
    /// Where tracked builds and patches are kept, instead of the data folder.
    /// Servers that share a database must share this too.
    #[arg(long, value_name = "FOLDER|s3://BUCKET/PREFIX")]
    blobs: Option<BlobPlace>,
    /// Days for which the records of runs are kept; 0 for no limit. Counts and
    /// sketches are always kept.
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    keep_days: u64,
    /// Records that are kept of each campaign, and of each build's untracked runs;
    /// 0 for all.
    #[arg(long, value_name = "RUNS", default_value_t = 100_000)]
    keep_runs: u64,
    /// The token file; tokens.json in the data folder by default. If the file exists,
    /// every request needs a token.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// The server's certificate chain, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Agents must show a certificate that this authority signed, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Listen without TLS although other machines can reach the address, because a
    /// proxy in front encrypts.
    #[arg(long, conflicts_with = "tls_cert")]
    plain_http: bool,
}

/// Beside the build store: one folder holds all that a server knows.
pub fn default_data(store: &Path) -> PathBuf {
    store.parent().unwrap_or(store).join("server")
}

pub fn run(arguments: Arguments) -> Result<()> {
    let store = crate::open_store(arguments.store.as_ref())?
        .root()
        .to_owned();
    let data = match arguments.data {
        Some(data) => data,
        None => default_data(&store),
    };
    let config = ServerConfig {
        data,
        store,
        database: arguments.database.unwrap_or_default(),
        blobs: arguments.blobs,
        retention: Retention {
            days: Some(arguments.keep_days).filter(|days| *days > 0),
            runs: Some(arguments.keep_runs).filter(|runs| *runs > 0),
        },
        listen: arguments.listen,
        tokens: arguments.tokens,
        tls: arguments
            .tls_cert
            .zip(arguments.tls_key)
            .map(|(certificate, key)| TlsFiles {
                certificate,
                key,
                client_ca: arguments.client_ca,
            }),
        plain_http: arguments.plain_http,
        limits: Limits {
            connections: connections(),
            ..Limits::default()
        },
        // This very command reads what others wrote, in processes with limits.
        worker: std::env::current_exe().ok(),
    };
    let scheme = match config.tls {
        Some(_) => "https",
        None => "http",
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("FAILSKETCH_LOG")
                .unwrap_or_else(|_| "info".into()),
        )
        .init();
    tokio::runtime::Runtime::new()
        .context("starting the server's threads")?
        .block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let shutdown = async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            serve(config, shutdown, |address| {
                println!("Failsketch server at {scheme}://{address}");
            })
            .await?;
            Ok(())
        })
}

/// As many connections as this process may have files, less some for its own.
fn connections() -> usize {
    const OWN: u64 = 128;
    let wanted = Limits::default().connections;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return wanted;
    };
    let asked = hard.min(wanted as u64 + OWN).max(soft);
    let granted = match setrlimit(Resource::RLIMIT_NOFILE, asked, hard) {
        Ok(()) => asked,
        Err(_) => soft,
    };
    wanted.min(
        usize::try_from(granted.saturating_sub(OWN))
            .unwrap_or(wanted)
            .max(16),
    )
}
