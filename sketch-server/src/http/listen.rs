//! Connections: accepted, bounded, encrypted if asked for, and let finish when the
//! server ends.
//!
//! `axum::serve` does none of the three, so hyper is driven here. A connection
//! that sends no request within its time is closed; so is one that is still open
//! when the time for finishing is over. Only HTTP/1.1: agents and commands speak
//! nothing else, and one protocol less is one protocol less to defend.

use super::limits::Limits;
use super::metrics::Metrics;
use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// How long a listener is left alone that could not accept: mostly for lack of
/// descriptors, which the end of other connections cures.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The head of a request, and what is read ahead of its body.
const LARGEST_HEAD: usize = 64 << 10;

/// Who is at the other end, for the handlers.
#[derive(Clone, Debug)]
pub struct Peer {
    pub encrypted: bool,
    /// Has shown a certificate that the server's `--client-ca` signed.
    pub certified: bool,
}

/// What all connections share.
struct Shared {
    app: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    metrics: Arc<Metrics>,
    from: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place among those that are allowed.
struct Place {
    shared: Arc<Shared>,
    address: IpAddr,
    _slot: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.metrics.connections.dec();
        let mut from = self.shared.from.lock();
        if let Some(count) = from.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                from.remove(&self.address);
            }
        }
    }
}

/// Serves until `closing` turns true, then lets requests under way finish.
pub async fn listen(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    app: Router,
    limits: Limits,
    metrics: Arc<Metrics>,
    mut closing: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let drain = limits.drain;
    let shared = Arc::new(Shared {
        app,
        tls,
        limits,
        metrics,
        from: Mutex::new(HashMap::new()),
    });
    let finishing = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let Some((stream, peer, slot)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        match placed(&shared, peer, slot) {
            Some(place) => {
                tokio::spawn(connection(stream, place, finishing.watcher()));
            }
            // Closed without a word: the words would cost what is short.
            None => {
                shared.metrics.turned_away.inc();
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(drain, finishing.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("requests were still running when the time to finish them ended");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // Never closed, so always granted in the end.
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, slot)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            None
        }
    }
}

fn placed(shared: &Arc<Shared>, peer: SocketAddr, slot: OwnedSemaphorePermit) -> Option<Place> {
    let address = peer.ip();
    let most = shared.limits.connections.div_ceil(4);
    {
        let mut from = shared.from.lock();
        let count = from.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
    }
    shared.metrics.connections.inc();
    Some(Place {
        shared: Arc::clone(shared),
        address,
        _slot: slot,
    })
}

async fn connection(stream: TcpStream, place: Place, watcher: Watcher) {
    // Small answers should leave at once; without it they come later, no worse.
    let _ = stream.set_nodelay(true);
    let Some(tls) = &place.shared.tls else {
        let peer = Peer {
            encrypted: false,
            certified: false,
        };
        return conversation(stream, peer, &place.shared, watcher).await;
    };
    let shaken = tokio::time::timeout(place.shared.limits.head, tls.accept(stream)).await;
    let Ok(Ok(stream)) = shaken else {
        place.shared.metrics.handshakes_failed.inc();
        return;
    };
    let peer = Peer {
        encrypted: true,
        certified: stream.get_ref().1.peer_certificates().is_some(),
    };
    conversation(stream, peer, &place.shared, watcher).await;
}

async fn conversation<S>(stream: S, peer: Peer, shared: &Shared, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let app = shared.app.clone();
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(peer.clone());
        app.clone().oneshot(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(shared.limits.head)
        .max_buf_size(LARGEST_HEAD);
    let conversation = http.serve_connection(TokioIo::new(stream), service);
    // How it ends is the other end's affair: resets and timeouts are everyday.
    if let Err(error) = watcher.watch(conversation).await {
        tracing::debug!(%error, "a connection ended");
        if error.is_timeout() {
            shared.metrics.silent.inc();
        }
    }
}
