//! How the server is reached, and what proves who we are: a token, a certificate.
//!
//! The token's file is read before every question, so that a new one is used as
//! soon as it is there. What is trusted is what the operator names, or else the
//! machine's own list of authorities; nothing is built in, and there is no way to
//! trust everybody.

use crate::error::AgentError;
use crate::policy::file::Config;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use ureq::tls::{Certificate, ClientCert, PemItem, RootCerts, TlsConfig, parse_pem};

/// Where distributions keep the authorities that they trust.
const AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// The way to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub url: String,
    /// A file with the token that this machine was given.
    pub token: Option<PathBuf>,
    /// Certificates of the authorities to trust, in place of the machine's.
    pub ca: Option<PathBuf>,
    /// Our own certificate, with its key in the same file.
    pub certificate: Option<PathBuf>,
}

impl Access {
    /// As the configuration says; `None` if it names no server.
    pub fn configured(config: &Config) -> Option<Access> {
        Some(Access {
            url: config.server.clone()?,
            token: config.token.clone(),
            ca: config.ca.clone(),
            certificate: config.certificate.clone(),
        })
    }

    pub fn is_encrypted(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// Whether others could listen in.
    pub fn can_be_overheard(&self) -> bool {
        let rest = self.url.strip_prefix("http://").unwrap_or("");
        let host = rest.split(['/', ':']).next().unwrap_or("");
        !self.is_encrypted() && !host.starts_with("127.") && host != "localhost" && host != "[::1]"
    }

    /// A client that speaks to this server and no other.
    pub fn client(&self) -> Result<ureq::Agent, AgentError> {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let config = match self.is_encrypted() {
            true => config.tls_config(self.tls()?),
            false => config,
        };
        Ok(config.build().into())
    }

    fn tls(&self) -> Result<TlsConfig, AgentError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::new_with_certs(&self.authorities()?));
        if let Some(path) = &self.certificate {
            let (chain, mut keys) = pem(path, "read the certificate in")?;
            let key = keys.pop().filter(|_| !chain.is_empty()).ok_or_else(|| {
                unusable(
                    path,
                    "it must hold a certificate and its private key, both as PEM",
                )
            })?;
            tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
        }
        Ok(tls.build())
    }

    fn authorities(&self) -> Result<Vec<Certificate<'static>>, AgentError> {
        let own = || AUTHORITIES.map(Path::new).into_iter().find(|p| p.exists());
        let path = self.ca.as_deref().or_else(own);
        let path = path.ok_or(AgentError::NoAuthorities)?;
        let (certificates, _) = pem(path, "read the certificate authorities in")?;
        match certificates.is_empty() {
            true => Err(unusable(path, "it holds no certificate as PEM")),
            false => Ok(certificates),
        }
    }

    /// The header that proves who we are; `None` if nothing was given for that.
    pub fn authorization(&self) -> Result<Option<String>, AgentError> {
        let Some(path) = &self.token else {
            return Ok(None);
        };
        let text = fs::read_to_string(path).map_err(|reason| AgentError::File {
            action: "read the token in",
            path: path.clone(),
            reason,
        })?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(unusable(path, "a token is one word without spaces"));
        }
        Ok(Some(format!("Bearer {token}")))
    }
}

fn unusable(path: &Path, reason: &str) -> AgentError {
    AgentError::File {
        action: "use",
        path: path.to_owned(),
        reason: std::io::Error::other(reason.to_owned()),
    }
}

type Pem = (
    Vec<Certificate<'static>>,
    Vec<ureq::tls::PrivateKey<'static>>,
);

fn pem(path: &Path, action: &'static str) -> Result<Pem, AgentError> {
    let failed = |reason| AgentError::File {
        action,
        path: path.to_owned(),
        reason,
    };
    let text = fs::read(path).map_err(failed)?;
    let (mut certificates, mut keys) = (Vec::new(), Vec::new());
    for item in parse_pem(&text) {
        match item.map_err(|e| failed(std::io::Error::other(e)))? {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            PemItem::PrivateKey(key) => keys.push(key),
            _ => {}
        }
    }
    Ok((certificates, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(url: &str) -> Access {
        Access {
            url: url.into(),
            token: None,
            ca: None,
            certificate: None,
        }
    }

    #[test]
    fn only_other_machines_can_be_overheard() {
        for url in [
            "http://127.0.0.1:7420",
            "http://localhost/x",
            "https://sketch.example",
        ] {
            assert!(!to(url).can_be_overheard(), "{url}");
        }
        for url in [
            "http://sketch.example",
            "http://10.0.0.1:80",
            "http://128.0.0.1",
        ] {
            assert!(to(url).can_be_overheard(), "{url}");
        }
    }

    #[test]
    fn files_that_make_no_sense_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let access = Access {
            token: Some(file.clone()),
            ca: Some(file.clone()),
            ..to("https://sketch.example")
        };
        let said = |error: AgentError| error.to_string();
        let missing = said(access.authorization().expect_err("is missing"));
        assert!(
            missing.starts_with("cannot read the token in /"),
            "{missing}"
        );
        fs::write(&file, "two words\n").expect("written");
        let words = said(access.authorization().expect_err("two words"));
        assert!(words.contains("one word without spaces"), "{words}");
        let none = said(access.client().expect_err("no certificate"));
        assert!(none.contains("holds no certificate"), "{none}");
        fs::write(&file, "abc.DEF-1\n").expect("written");
        let header = access.authorization().expect("is a token");
        assert_eq!(header.as_deref(), Some("Bearer abc.DEF-1"));
    }
}
