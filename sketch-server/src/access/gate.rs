//! The gate in front of the routes: who asks, and may they?
//!
//! Programs send `Authorization: Bearer TOKEN`. Browsers send the cookie that the
//! login page set; a cookie counts only for what browsers do, so a page cannot be
//! made to report runs. Which role a route needs stands once, where routes are
//! grouped (`api.rs`), and both this gate and the OpenAPI description follow it.
//!
//! A server that is open because it listens on a loopback address answers only
//! to loopback names: otherwise any web site could point a name of its own at
//! 127.0.0.1 and read everything through a visitor's browser.

use crate::http::listen::Peer;
use crate::http::refusal::{Reason, Refusal};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use server_files::{Role, Token, TokenEntry, TokenFile};
use sketch_model::AgentId;
use std::sync::Arc;

/// The cookie that carries a browser's token.
pub const COOKIE: &str = "failsketch_token";

/// Who asks.
#[derive(Clone, Debug)]
pub enum Principal {
    /// The server is open: anyone on this machine.
    Anyone,
    Holder {
        name: String,
        fleet: bool,
    },
}

impl Principal {
    /// Refuses an agent that speaks for another.
    pub fn speaks_for(&self, agent: &AgentId) -> Result<(), Refusal> {
        match self {
            Principal::Holder { name, fleet: false } if *name != agent.0 => Err(Refusal::because(
                Reason::OtherAgent,
                StatusCode::FORBIDDEN,
                format!(
                    "this token speaks for agent `{name}` alone; name the agent so, or make a token with --fleet"
                ),
            )),
            Principal::Anyone | Principal::Holder { .. } => Ok(()),
        }
    }
}

/// What decides who is let in.
pub struct Gate {
    pub book: TokenFile,
    /// Whether a server without a token file may be open: it listens on a
    /// loopback address.
    pub may_be_open: bool,
    /// Whether agents must also show a certificate (`--client-ca`).
    pub certificates: bool,
}

/// A gate and the role that the routes behind it need.
#[derive(Clone)]
pub struct Guard {
    pub gate: Arc<Gate>,
    pub needed: Role,
}

/// Lets a request through to routes that need a role, or refuses it.
pub async fn guard(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let certified = request
        .extensions()
        .get::<Peer>()
        .is_some_and(|p| p.certified);
    match guard.gate.admit(request.headers(), guard.needed, certified) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(refusal) if refusal.status() == StatusCode::UNAUTHORIZED && is_page(&request) => {
            let wanted = request.uri().path_and_query().map_or("/", |p| p.as_str());
            let mut redirect = Redirect::to(&format!(
                "/login?next={}",
                crate::access::login::escaped(wanted)
            ))
            .into_response();
            redirect.extensions_mut().insert(refusal.reason());
            redirect
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Whether a browser asks for a page, which is then sent to the login page.
fn is_page(request: &Request) -> bool {
    let accepts = request.headers().get(header::ACCEPT);
    let html = accepts.is_some_and(|a| a.to_str().is_ok_and(|a| a.contains("text/html")));
    html && request.method() == axum::http::Method::GET
        && !request.uri().path().starts_with("/api/")
}

impl Gate {
    /// Whether everybody is let in.
    pub fn is_open(&self) -> Result<bool, Refusal> {
        Ok(self.may_be_open && self.tokens()?.is_none())
    }

    /// Who asks, if they may do what needs `needed`.
    pub fn admit(
        &self,
        headers: &HeaderMap,
        needed: Role,
        certified: bool,
    ) -> Result<Principal, Refusal> {
        if needed == Role::Agent && self.certificates && !certified {
            return Err(Refusal::because(
                Reason::NoCertificate,
                StatusCode::FORBIDDEN,
                "agents must show a certificate that this server's --client-ca signed",
            ));
        }
        let tokens = match self.tokens()? {
            None if self.may_be_open => return Ok(Principal::Anyone),
            None => Arc::default(),
            Some(tokens) => tokens,
        };
        let Some(given) = presented(headers, needed) else {
            return Err(Refusal::because(
                Reason::NoToken,
                StatusCode::UNAUTHORIZED,
                format!(
                    "this needs a token of role {needed}; send it as `Authorization: Bearer TOKEN`, or log in at /login"
                ),
            ));
        };
        let Some(holder) = found(&given, &tokens) else {
            return Err(Refusal::because(
                Reason::UnknownToken,
                StatusCode::UNAUTHORIZED,
                "this token is not known here, or was revoked; `failsketch token add` makes one",
            ));
        };
        if !holder.role.suffices(needed) {
            return Err(Refusal::because(
                Reason::WrongRole,
                StatusCode::FORBIDDEN,
                format!(
                    "the token `{}` has role {}; this needs role {needed}",
                    holder.name, holder.role
                ),
            ));
        }
        Ok(Principal::Holder {
            name: holder.name.clone(),
            fleet: holder.fleet || holder.role != Role::Agent,
        })
    }

    fn tokens(&self) -> Result<Option<Arc<Vec<TokenEntry>>>, Refusal> {
        self.book.tokens().map_err(|error| {
            tracing::error!(%error, "the token file cannot be read; every request is refused");
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "this server cannot read its token file and refuses every request; its log says \
                 why",
            )
        })
    }
}

/// The holder of a token, whose secret half must be right.
pub fn found<'a>(given: &str, tokens: &'a [TokenEntry]) -> Option<&'a TokenEntry> {
    let token = Token::read(given)?;
    let entry = tokens.iter().find(|t| t.id == token.public())?;
    token.matches(&entry.hash).then_some(entry)
}

/// The token that a request brings. Agents are no browsers: they have no cookie.
fn presented(headers: &HeaderMap, needed: Role) -> Option<String> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        return scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| token.trim().to_owned());
    }
    if needed == Role::Agent {
        return None;
    }
    cookie(headers)
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let pairs = headers.get_all(header::COOKIE).iter();
    let pairs = pairs
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(';'));
    let mut named = pairs.filter_map(|pair| pair.trim().split_once('='));
    named
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value.to_owned())
}

/// Refuses names that are not this machine's own while the server is open, and
/// requests that name more than one, of which one might be.
pub async fn host_is_ours(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return Refusal::bad_request("a request names one host; this one has several Host headers")
            .into_response();
    }
    let open = match gate.is_open() {
        Ok(open) => open,
        Err(refusal) => return refusal.into_response(),
    };
    let host = request.headers().get(header::HOST);
    if open && !host.is_some_and(|h| h.to_str().is_ok_and(is_loopback_name)) {
        return Refusal::because(
            Reason::ForeignHost,
            StatusCode::MISDIRECTED_REQUEST,
            "this server has no tokens and answers to 127.0.0.1, [::1] and localhost only; make tokens with `failsketch token add` to use another name",
        )
        .into_response();
    }
    next.run(request).await
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    let address = name.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|a| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_has_loopback_names() {
        for (host, ours) in [
            ("127.0.0.1:7420", true),
            ("127.8.8.8", true),
            ("localhost:1", true),
            ("[::1]:7420", true),
            ("LOCALHOST", true),
            ("evil.example:7420", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1:7420", false),
            ("", false),
        ] {
            assert_eq!(is_loopback_name(host), ours, "{host}");
        }
    }

    #[test]
    fn a_cookie_is_no_token_of_an_agent() {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::COOKIE,
            "a=b; failsketch_token=fsk_1".parse().unwrap(),
        );
        assert_eq!(presented(&headers, Role::Agent), None);
        assert_eq!(
            presented(&headers, Role::Developer).as_deref(),
            Some("fsk_1")
        );
        headers.insert(header::AUTHORIZATION, "Basic abc".parse().unwrap());
        assert_eq!(presented(&headers, Role::Developer), None);
        headers.insert(header::AUTHORIZATION, "bearer fsk_2".parse().unwrap());
        assert_eq!(presented(&headers, Role::Agent).as_deref(), Some("fsk_2"));
    }
}
