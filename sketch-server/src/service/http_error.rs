//! Refusals over HTTP: a status and one clear sentence, as JSON.

use super::engine::EngineGone;
use super::storage::StorageError;
use super::workshop::WorkshopError;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What a request is answered with when it cannot be done.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    sentence: String,
}

#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
}

impl Refusal {
    pub fn bad_request(sentence: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, sentence)
    }

    pub fn not_found(sentence: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, sentence)
    }

    pub fn new(status: StatusCode, sentence: impl Into<String>) -> Refusal {
        Refusal {
            status,
            sentence: sentence.into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Body {
            error: &self.sentence,
        };
        (self.status, axum::Json(body)).into_response()
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Refusal {
        tracing::error!(%error, "a request met a storage that failed");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl From<EngineGone> for Refusal {
    fn from(error: EngineGone) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<WorkshopError> for Refusal {
    fn from(error: WorkshopError) -> Refusal {
        let status = match error {
            WorkshopError::UnknownBuild(_) => StatusCode::NOT_FOUND,
            WorkshopError::BadBuild { .. }
            | WorkshopError::Slicing(_)
            | WorkshopError::NothingToHook
            | WorkshopError::Tracking(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal::new(status, error.to_string())
    }
}

/// A blocking task that did not come back.
impl From<tokio::task::JoinError> for Refusal {
    fn from(error: tokio::task::JoinError) -> Refusal {
        tracing::error!(%error, "a request met a defect of this server");
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "this request came upon a defect of the server; its log says where",
        )
    }
}
