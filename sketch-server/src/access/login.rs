//! Logging in with a browser: a form takes the token and a cookie keeps it.
//!
//! The cookie cannot be read by scripts, is not sent along by other sites' forms
//! (`SameSite=Lax`, beside the check in `steering.rs`) and not over plain HTTP if
//! the server speaks TLS. It holds the token itself, so it is worth nothing from
//! the moment the token is revoked.

use super::gate::{COOKIE, found};
use crate::http::listen::Peer;
use crate::http::pages::page;
use crate::http::refusal::{Reason, Refusal};
use crate::http::routes::Shared;
use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{Extension, Form, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use server_files::{Role, TokenEntry};

/// A browser asks again after a working day.
const COOKIE_SECONDS: u64 = 12 * 3600;

#[derive(Deserialize, utoipa::IntoParams)]
pub struct Next {
    /// Where to go after logging in.
    #[serde(default)]
    next: String,
}

#[derive(Deserialize, utoipa::ToSchema)]
pub struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

/// The login page.
#[utoipa::path(get, path = "/login", tag = "pages", params(Next), responses((status = 200, description = "A form that takes a token", content_type = "text/html")))]
pub async fn login_page(query: Result<Query<Next>, QueryRejection>) -> Response {
    let next = query.map(|Query(q)| q.next).unwrap_or_default();
    page(viewer::login_page(local(&next), None))
}

/// Takes a token from the login page's form and sets the cookie.
#[utoipa::path(post, path = "/login", tag = "pages", request_body(content = Login, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "Logged in; redirects to the requested page"), (status = 401, description = "The \
                                                                                                                        form \
                                                                                                                        again, \
                                                                                                                        with \
                                                                                                                        the \
                                                                                                                        error", content_type = "text/html")))]
pub async fn log_in(
    State(service): Shared,
    peer: Option<Extension<Peer>>,
    form: Result<Form<Login>, FormRejection>,
) -> Result<Response, Refusal> {
    let Form(login) =
        form.map_err(|_| Refusal::bad_request("the login form has one field: token"))?;
    let next = local(&login.next);
    let tokens = service
        .gate
        .book
        .tokens()
        .ok()
        .flatten()
        .unwrap_or_default();
    let holder = found(&login.token, &tokens);
    let wrong = match holder {
        None => Some("This token is not known here, or was revoked."),
        Some(TokenEntry {
            role: Role::Agent, ..
        }) => Some("This token is an agent's. Pages need one of role developer or admin."),
        Some(_) => None,
    };
    if let Some(wrong) = wrong {
        let mut again = page(viewer::login_page(next, Some(wrong)));
        *again.status_mut() = StatusCode::UNAUTHORIZED;
        again.extensions_mut().insert(Reason::UnknownToken);
        return Ok(again);
    }
    let secure = peer.is_some_and(|Extension(p)| p.encrypted);
    let cookie = cookie(login.token.trim(), COOKIE_SECONDS, secure);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(next)).into_response())
}

/// Forgets the cookie.
#[utoipa::path(post, path = "/logout", tag = "pages", responses((status = 303, description = "Logged out")))]
pub async fn log_out(peer: Option<Extension<Peer>>) -> Response {
    let secure = peer.is_some_and(|Extension(p)| p.encrypted);
    (
        [(header::SET_COOKIE, cookie("", 0, secure))],
        Redirect::to("/login"),
    )
        .into_response()
}

fn cookie(value: &str, seconds: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}")
}

/// A path of this server, whatever was asked for: a login must not lead away.
fn local(next: &str) -> &str {
    let plain = next.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    match next.starts_with('/') && !next.starts_with("//") && plain {
        true => next,
        false => "/",
    }
}

/// A path within a query.
pub fn escaped(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b);
    path.bytes().fold(String::new(), |mut text, b| {
        match plain(b) {
            true => text.push(char::from(b)),
            false => text.push_str(&format!("%{b:02X}")),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logging_in_leads_to_pages_of_this_server_only() {
        for (next, leads_to) in [
            ("/campaigns/1?version=2", "/campaigns/1?version=2"),
            ("", "/"),
            ("https://evil.example/", "/"),
            ("//evil.example/", "/"),
            ("/\\evil.example", "/"),
            ("/a\r\nset-cookie: b", "/"),
        ] {
            assert_eq!(local(next), leads_to, "{next:?}");
        }
        assert_eq!(escaped("/a?b=1&c"), "/a%3Fb%3D1%26c");
    }
}
