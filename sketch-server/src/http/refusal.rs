//! Refusals over HTTP: a status and one clear sentence, as JSON, and a reason
//! that the metrics count.

use crate::campaigns::engine::{EngineGone, NotSteered};
use crate::storage::StorageError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use build_analysis::BuildError;
use serde::{Deserialize, Serialize};

/// Why a request was refused, in words few enough to count by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    BadRequest,
    NotFound,
    /// The body is no document of the kind that is wanted.
    Malformed,
    TooLarge,
    /// The body came too slowly.
    TooSlow,
    /// The body is compressed or otherwise encoded.
    Encoded,
    /// More uploads are under way than memory is set aside for.
    Busy,
    UnknownBuild,
    UnknownVariant,
    /// What the record says cannot be true together.
    Contradictory,
    NoToken,
    UnknownToken,
    WrongRole,
    OtherAgent,
    NoCertificate,
    ForeignHost,
    CrossSite,
    Conflict,
    /// This server's own trouble.
    Server,
}

/// What a request is answered with when it cannot be done.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    reason: Reason,
    sentence: String,
}

/// The body of every refusal.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// One sentence that names what is wrong and, where there is one, the remedy.
    pub error: String,
}

impl Refusal {
    pub fn bad_request(sentence: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, sentence)
    }

    pub fn not_found(sentence: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, sentence)
    }

    /// A refusal whose status says enough about its reason.
    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Refusal {
        let reason = match status {
            StatusCode::NOT_FOUND => Reason::NotFound,
            StatusCode::CONFLICT => Reason::Conflict,
            StatusCode::PAYLOAD_TOO_LARGE => Reason::TooLarge,
            status if status.is_server_error() => Reason::Server,
            _ => Reason::BadRequest,
        };
        Refusal::because(reason, status, sentence)
    }

    pub fn because(reason: Reason, status: StatusCode, sentence: impl Into<String>) -> Refusal {
        Refusal {
            status,
            reason,
            sentence: sentence.into(),
        }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn reason(&self) -> Reason {
        self.reason
    }

    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Problem {
            error: self.sentence,
        };
        let mut response = (self.status, axum::Json(body)).into_response();
        response.extensions_mut().insert(self.reason);
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            }
            _ => {}
        }
        response
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Refusal {
        tracing::error!(%error, "a request failed because the storage failed");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl From<EngineGone> for Refusal {
    fn from(error: EngineGone) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<NotSteered> for Refusal {
    fn from(error: NotSteered) -> Refusal {
        match error {
            NotSteered::EngineGone(error) => error.into(),
            NotSteered::Storage(error) => error.into(),
        }
    }
}

impl From<BuildError> for Refusal {
    fn from(error: BuildError) -> Refusal {
        let (reason, status) = match error {
            BuildError::UnknownBuild(_) => (Reason::UnknownBuild, StatusCode::NOT_FOUND),
            BuildError::BadBuild { .. }
            | BuildError::Slicing(_)
            | BuildError::NothingToHook
            | BuildError::Tracking(_) => (Reason::Server, StatusCode::INTERNAL_SERVER_ERROR),
        };
        Refusal::because(reason, status, error.to_string())
    }
}

/// A blocking task that did not come back.
impl From<tokio::task::JoinError> for Refusal {
    fn from(error: tokio::task::JoinError) -> Refusal {
        tracing::error!(%error, "internal error while handling a request");
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal error while handling this request; the server's log says where",
        )
    }
}
