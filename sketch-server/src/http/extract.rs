//! What requests name in their paths and queries, read once for all handlers and
//! refused in one sentence.

use super::refusal::Refusal;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The numbers and words of a path, in their order: a campaign, or more than that.
pub struct Named<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named<T>, Refusal> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(named)) => Ok(Named(named)),
            Err(_) => Err(Refusal::bad_request(
                "campaigns and iterations are named by whole numbers, as in /1/2",
            )),
        }
    }
}

/// Which version of a sketch is meant.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Version {
    /// A version of the sketch; the latest by default.
    pub version: Option<u32>,
}

impl<S: Send + Sync> FromRequestParts<S> for Version {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Version, Refusal> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(version)) => Ok(version),
            Err(_) => Err(Refusal::bad_request(
                "the version of a sketch is a whole number: ?version=3",
            )),
        }
    }
}
