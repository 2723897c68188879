//! What only admins may do over HTTP: see who has tokens, and take them back.
//!
//! Deliberately absent: making tokens. Their text would cross the network and stay
//! in proxies' logs; `failsketch token add` makes them where the server's data is.

use super::refusal::Refusal;
use super::routes::Shared;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use server_files::{TokenFileError, TokenListed};
use std::sync::Arc;

/// Everybody who has a token.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "administration", responses((status = 200, body = Vec<TokenListed>)))]
pub async fn tokens(State(service): Shared) -> Result<Json<Vec<TokenListed>>, Refusal> {
    let tokens = service.gate.book.tokens().map_err(refused)?;
    let tokens = tokens.unwrap_or_default();
    Ok(Json(tokens.iter().map(TokenListed::from).collect()))
}

/// Takes a token back; it is worth nothing from the next request on.
#[utoipa::path(delete, path = "/api/v1/tokens/{name}", tag = "administration", params(("name" = String, Path, description = "Whose token")), responses((status = 204, description = "It is revoked")))]
pub async fn revoke(
    State(service): Shared,
    name: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Refusal> {
    let Ok(Path(name)) = name else {
        return Err(Refusal::bad_request("tokens are named by text in UTF-8"));
    };
    let gate = Arc::clone(&service.gate);
    let revoked = tokio::task::spawn_blocking(move || gate.book.revoke(&name)).await?;
    revoked.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

fn refused(error: TokenFileError) -> Refusal {
    let status = match error {
        TokenFileError::Unknown(_) => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal::new(status, error.to_string())
}
