//! `failsketch serve`: the server with its embedded store.

use anyhow::{Context, Result, bail};
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
