//! Talking to a server: where it is, who we are, whose word we take for it.
//!
//! The token comes from a file or the environment, never from the command line,
//! where every user of the machine could read it.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Duration;
use ureq::RequestBuilder;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

const DEFAULT_SERVER: &str = "http://127.0.0.1:7420";
const TOKEN_VARIABLE: &str = "FAILSKETCH_TOKEN";
/// A server that has not answered by then is not going to.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server to ask.
#[derive(clap::Args)]
pub struct Connection {
    /// The server to ask.
    #[arg(long, env = "FAILSKETCH_SERVER", default_value = DEFAULT_SERVER)]
    pub server: String,
    #[command(flatten)]
    pub trust: Trust,
}

/// The token that we show to a server, and the authority that its certificate needs.
#[derive(Clone, clap::Args)]
pub struct Trust {
    /// A file with your token; the variable FAILSKETCH_TOKEN may hold the token
    /// itself instead.
    #[arg(long, value_name = "FILE", env = "FAILSKETCH_TOKEN_FILE")]
    token: Option<PathBuf>,
    /// The certificate authority that signed the server's certificate, in PEM; the
    /// well-known ones by default.
    #[arg(long, value_name = "FILE", env = "FAILSKETCH_CA")]
    ca: Option<PathBuf>,
}

impl Connection {
    /// A document of the server, or the sentence with which it refuses.
    pub fn get(&self, path: &str) -> Result<String> {
        let request = self.trust.agent()?.get(self.url(path));
        self.read(path, self.signed(request)?.call())
    }

    /// Posts an action; returns the server's answer.
    pub fn post(&self, path: &str) -> Result<String> {
        let request = self.trust.agent()?.post(self.url(path));
        self.read(path, self.signed(request)?.send_empty())
    }

    /// Posts a JSON document; returns the server's answer.
    pub fn post_json(&self, path: &str, json: &[u8]) -> Result<String> {
        let request = self.trust.agent()?.post(self.url(path));
        let request = request.header("content-type", "application/json");
        self.read(path, self.signed(request)?.send(json))
    }

    fn signed<Body>(&self, request: RequestBuilder<Body>) -> Result<RequestBuilder<Body>> {
        Ok(match self.trust.authorization()? {
            Some(value) => request.header("authorization", value),
            None => request,
        })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.trim_end_matches('/'))
    }

    fn read(
        &self,
        path: &str,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<String> {
        let mut response = answer.with_context(|| {
            format!(
                "no server answers at {}; start one with `failsketch serve` or name it with --server",
                self.server
            )
        })?;
        let body = response.body_mut().read_to_string()?;
        if response.status().is_success() {
            return Ok(body);
        }
        let said = serde_json::from_str::<serde_json::Value>(&body)
            .ok()
            .and_then(|v| v["error"].as_str().map(str::to_owned));
        let said =
            said.unwrap_or_else(|| format!("{} answered {}", self.url(path), response.status()));
        match response.status().as_u16() {
            401 if self.trust.token.is_none() => {
                bail!("{said} (name a file with it by --token, or set {TOKEN_VARIABLE})")
            }
            _ => bail!("{said}"),
        }
    }
}

impl Trust {
    fn agent(&self) -> Result<ureq::Agent> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE));
        let Some(file) = &self.ca else {
            return Ok(config.build().into());
        };
        let pem = std::fs::read(file)
            .with_context(|| format!("{} cannot be read; --ca names a PEM file", file.display()))?;
        let roots = Certificate::from_pem(&pem)
            .with_context(|| format!("{} holds no certificate in PEM", file.display()))?;
        let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[roots]));
        Ok(config.tls_config(tls.build()).build().into())
    }

    fn authorization(&self) -> Result<Option<String>> {
        let token = match &self.token {
            Some(file) => std::fs::read_to_string(file).with_context(|| {
                format!(
                    "{} cannot be read; --token names a file with a token",
                    file.display()
                )
            })?,
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(token) => token,
                Err(_) => return Ok(None),
            },
        };
        let token = token.trim();
        let plain = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
        if !plain {
            bail!("the token is empty or not plain text; `failsketch token add` prints one");
        }
        Ok(Some(format!("Bearer {token}")))
    }
}
