//! `failsketch serve`: the server with its embedded store.

use anyhow::{Context, Result, bail};
use sketch_server::service::storage::{BlobPlace, Database, Retention};
use sketch_server::service::{ServerConfig, serve};
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub struct Arguments {
    /// The address to listen on. Only this machine's own addresses are accepted:
    /// there is no authentication yet.
    #[arg(long, default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Where campaigns, runs, sketches and the signing key are kept.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The build store that `failsketch register` fills.
    #[arg(long)]
    store: Option<PathBuf>,
    /// A PostgreSQL to keep campaigns, runs and sketches in, instead of a file in
    /// the data folder. Several servers may share one; see docs/server.md.
    #[arg(long, value_name = "postgres://USER@HOST/NAME")]
    database: Option<Database>,
    /// Where tracked builds and patches are kept, instead of the data folder.
    /// Servers that share a database must share this too.
    #[arg(long, value_name = "FOLDER|s3://BUCKET/PREFIX")]
    blobs: Option<BlobPlace>,
    /// Days for which the records of runs are kept; 0 for ever. Counts and
    /// sketches are always kept.
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    keep_days: u64,
    /// Records that are kept of each campaign, and of each build's untracked runs;
    /// 0 for all.
    #[arg(long, value_name = "RUNS", default_value_t = 100_000)]
    keep_runs: u64,
    /// Which stores a load through a pointer may see in slices; see `failsketch
    /// slice --help`.
    #[arg(long, value_name = "none|field|andersen", default_value_t = slicer::Alias::default())]
    alias: slicer::Alias,
}

pub fn run(arguments: Arguments) -> Result<()> {
    if !arguments.listen.ip().is_loopback() {
        bail!(
            "{} can be reached from other machines, and the server does not authenticate anybody yet; listen on 127.0.0.1 and put a proxy that does in front of it",
            arguments.listen
        );
    }
    let store = crate::open_store(arguments.store.as_ref())?
        .root()
        .to_owned();
    let data = match arguments.data {
        Some(data) => data,
        // Beside the build store: one folder holds all that a server knows.
        None => store.parent().unwrap_or(&store).join("server"),
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
        alias: arguments.alias,
        // Traces are decoded by this very command, in a process with limits.
        trace_worker: std::env::current_exe().ok(),
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
                println!("Failsketch server at http://{address}");
            })
            .await?;
            Ok(())
        })
}
