//! Taking in the body of a request from someone who may mean harm.
//!
//! A body is bounded in size, and all bodies together in memory; it must keep
//! coming, so that a thousand senders of one byte a second cannot hold the server;
//! and it must be what it is: a compressed one is refused, since what it unpacks to
//! is not known before it is unpacked. Agents do not compress.

use super::limits::Limits;
use super::refusal::{Reason, Refusal};
use super::routes::Service;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sketch_model::Schema;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Bodies are accounted for in pieces of this many bytes.
const PIECE: usize = 1 << 10;
/// Larger documents are read on a thread of their own: they take milliseconds.
const READ_ELSEWHERE: usize = 64 << 10;

/// Memory that is set aside for bodies.
pub fn allowance(limits: &Limits) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limits.bodies / PIECE))
}

/// A whole body, with its share of the memory that is set aside.
pub struct Upload {
    bytes: Bytes,
    _share: Option<OwnedSemaphorePermit>,
}

impl FromRequest<Arc<Service>> for Upload {
    type Rejection = Refusal;

    async fn from_request(request: Request, service: &Arc<Service>) -> Result<Upload, Refusal> {
        match checked(request.headers(), &service.limits) {
            Ok(declared) => taken_in(request.into_body(), declared, service).await,
            Err(refusal) => {
                passed_by(request.into_body(), &service.limits).await;
                Err(refusal)
            }
        }
    }
}

/// Lets a body that is refused pass by for a while, keeping nothing of it: most
/// senders listen for an answer only once they have sent everything.
async fn passed_by(body: Body, limits: &Limits) {
    let most = 4 * limits.body;
    let passing = async {
        let mut stream = body.into_data_stream();
        let mut passed = 0;
        while let Some(Ok(chunk)) = stream.next().await {
            passed += chunk.len();
            if passed > most {
                break;
            }
        }
    };
    // Whether it ended or not, the refusal is the same.
    let _ = tokio::time::timeout(limits.body_grace, passing).await;
}

/// What the head says about the body: nothing, or its length.
fn checked(headers: &HeaderMap, limits: &Limits) -> Result<usize, Refusal> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|e| e.as_bytes() != b"identity") {
        return Err(Refusal::because(
            Reason::Encoded,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body is compressed; send it as it is, without Content-Encoding",
        ));
    }
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length
        .and_then(|l| l.to_str().ok())
        .and_then(|l| l.parse().ok());
    let length: u64 = length.unwrap_or(0);
    match usize::try_from(length) {
        Ok(length) if length <= limits.body => Ok(length),
        _ => Err(too_large(limits)),
    }
}

fn too_large(limits: &Limits) -> Refusal {
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!(
            "the body is larger than the {} MiB that are accepted",
            limits.body >> 20
        ),
    )
}

async fn taken_in(body: Body, declared: usize, service: &Service) -> Result<Upload, Refusal> {
    let limits = &service.limits;
    let begun = Instant::now();
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::with_capacity(declared.min(PIECE));
    let mut share: Option<OwnedSemaphorePermit> = None;
    loop {
        let earned = std::time::Duration::from_secs(bytes.len() as u64 / limits.body_rate.max(1));
        let next = timeout_at(begun + limits.body_grace + earned, stream.next()).await;
        let chunk = match next {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(None) => break,
            Ok(Some(Err(_))) => {
                return Err(Refusal::because(
                    Reason::Malformed,
                    StatusCode::BAD_REQUEST,
                    "the body did not arrive whole; send it again",
                ));
            }
            Err(_) => {
                return Err(Refusal::because(
                    Reason::TooSlow,
                    StatusCode::REQUEST_TIMEOUT,
                    format!(
                        "the body came too slowly; it must keep up {} KiB/s",
                        limits.body_rate >> 10
                    ),
                ));
            }
        };
        if bytes.len() + chunk.len() > limits.body {
            return Err(too_large(limits));
        }
        bytes.extend_from_slice(&chunk);
        let held = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.len().div_ceil(PIECE).saturating_sub(held) as u32;
        let more = Arc::clone(&service.uploads).try_acquire_many_owned(missing);
        let more = more.map_err(|_| {
            Refusal::because(
                Reason::Busy,
                StatusCode::SERVICE_UNAVAILABLE,
                "too many uploads are in progress; send this one again shortly",
            )
        })?;
        match &mut share {
            Some(share) => share.merge(more),
            None => share = Some(more),
        }
    }
    Ok(Upload {
        bytes: bytes.into(),
        _share: share,
    })
}

impl Upload {
    /// The document in the body. One of another format version is refused as
    /// such, even if its fields cannot be read.
    pub async fn read<T>(self, what: &'static str) -> Result<T, Refusal>
    where
        T: DeserializeOwned + Send + 'static,
    {
        if self.bytes.len() < READ_ELSEWHERE {
            return parsed(what, &self.bytes);
        }
        tokio::task::spawn_blocking(move || parsed(what, &self.bytes)).await?
    }
}

fn parsed<T: DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, Refusal> {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(default)]
        schema: Schema,
    }
    serde_json::from_slice(body).map_err(|error| {
        let versioned = serde_json::from_slice::<Versioned>(body);
        let sentence = match versioned.map(|v| v.schema.check(what)) {
            Ok(Err(unknown)) => unknown.to_string(),
            Ok(Ok(())) | Err(_) => format!("the body is not a readable {what}: {error}"),
        };
        Refusal::because(Reason::Malformed, StatusCode::BAD_REQUEST, sentence)
    })
}

/// Bytes of the memory set aside that nobody holds.
pub fn free(allowance: &Semaphore) -> usize {
    allowance.available_permits() * PIECE
}
