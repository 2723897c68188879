//! TLS by rustls: the server's certificate, and whose certificates agents show.
//!
//! Only what is needed: the `ring` provider, TLS 1.2 and 1.3 as rustls offers them,
//! HTTP/1.1. Client certificates are asked for and verified if shown, not demanded
//! of every connection: browsers have none. The gate demands them of agents.

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The files of a server that speaks TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and those that lead to its root, in PEM.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Whose signature agents' certificates must bear.
    pub client_ca: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} cannot be read as PEM: {source}; name a file with a {what}")]
    Pem {
        what: &'static str,
        path: PathBuf,
        source: pem::Error,
    },
    #[error("{path} holds no certificate; name a PEM file with one")]
    Empty { path: PathBuf },
    #[error("the certificate {certificate} and the key {key} do not work together: {source}")]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        source: rustls::Error,
    },
    #[error("{path} cannot vouch for agents: {source}")]
    ClientCa {
        path: PathBuf,
        source: VerifierBuilderError,
    },
    #[error("{path} holds something that is no certificate: {source}")]
    BadRoot {
        path: PathBuf,
        source: rustls::Error,
    },
}

/// What accepts TLS connections with these files.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = |source| TlsError::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        source,
    };
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(pair)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(|source| TlsError::BadRoot {
                    path: path.clone(),
                    source,
                })?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|source| TlsError::ClientCa {
                    path: path.clone(),
                    source,
                })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsError::Pem {
        what: "private key",
        path: files.key.clone(),
        source,
    })?;
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = |source| TlsError::Pem {
        what: "certificate",
        path: path.to_owned(),
        source,
    };
    let found = CertificateDer::pem_file_iter(path).map_err(bad)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(bad)?;
    match found.is_empty() {
        true => Err(TlsError::Empty {
            path: path.to_owned(),
        }),
        false => Ok(found),
    }
}
