//! TLS against a real server, with certificates made here: who trusts whom, and
//! agents that must show a certificate.

use crate::service_support;
use crate::service_support::double::Double;
use crate::service_support::records::{crash, untracked};
use crate::service_support::{Server, config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sketch_server::TlsFiles;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, in PEM.
fn issued(by: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, by).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// A server with a certificate of `by`, which asks agents for one of `agents`.
fn encrypted(data: &Path, by: &Authority, agents: Option<&Authority>) -> Server {
    let (certificate, key) = issued(by, "127.0.0.1");
    let file = |name: &str, text: &str| {
        let path = data.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut config = config(data);
    config.tls = Some(TlsFiles {
        certificate: file("server.pem", &certificate),
        key: file("server.key", &key),
        client_ca: agents.map(|ca| file("agents.pem", &ca.pem())),
    });
    Server::configured(config, Double::default())
}

fn client(trusted: &Authority, shown: Option<(String, String)>) -> ureq::Agent {
    let root = Certificate::from_pem(trusted.pem().as_bytes()).unwrap();
    let mut tls = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(vec![root])));
    if let Some((certificate, key)) = shown {
        let certificate = Certificate::from_pem(certificate.as_bytes()).unwrap();
        let key = PrivateKey::from_pem(key.as_bytes()).unwrap();
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&[certificate], key)));
    }
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.tls_config(tls.build()).build().into()
}

fn url(server: &Server, path: &str) -> String {
    format!("https://{}{path}", server.address())
}

#[test]
fn those_who_trust_its_authority_talk_to_the_server_and_others_do_not() {
    let data = tempfile::tempdir().unwrap();
    let (ours, theirs) = (authority(), authority());
    let server = encrypted(data.path(), &ours, None);
    let record = serde_json::to_vec(&untracked("r", crash(&[120]))).unwrap();
    let trusting = client(&ours, None);
    let reply = trusting
        .post(url(&server, "/api/v1/runs"))
        .send(&record[..])
        .unwrap();
    assert_eq!(reply.status(), 202);
    let doubting = client(&theirs, None)
        .get(url(&server, "/health/live"))
        .call();
    assert!(doubting.is_err(), "{doubting:?}");
    // Plain HTTP to the same port gets no answer.
    let plain = server.raw(b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    assert!(!plain.contains("200"), "{plain}");
    let mut metrics = trusting.get(url(&server, "/metrics")).call().unwrap();
    let metrics = metrics.body_mut().read_to_string().unwrap();
    let failed = service_support::counter(&metrics, "failsketch_handshakes_failed_total");
    assert!(failed >= 1, "{metrics}");
    drop(trusting);
    server.stop();
}

#[test]
fn with_a_client_ca_agents_must_show_a_certificate_and_readers_need_not() {
    let data = tempfile::tempdir().unwrap();
    let (ours, agents, theirs) = (authority(), authority(), authority());
    let server = encrypted(data.path(), &ours, Some(&agents));
    let record = serde_json::to_vec(&untracked("r", crash(&[120]))).unwrap();
    let report = |client: &ureq::Agent| client.post(url(&server, "/api/v1/runs")).send(&record[..]);
    let certified = client(&ours, Some(issued(&agents, "agent-1")));
    assert_eq!(report(&certified).unwrap().status(), 202);
    let bare = client(&ours, None);
    let mut refused = report(&bare).unwrap();
    assert_eq!(refused.status(), 403);
    let said = refused.body_mut().read_to_string().unwrap();
    assert!(said.contains("must show a certificate"), "{said}");
    // Its body was not read, so that connection is over; a new one reads.
    drop(bare);
    let bare = client(&ours, None);
    let read = bare.get(url(&server, "/api/v1/campaigns")).call().unwrap();
    assert_eq!(read.status(), 200);
    // One that somebody else signed does not get as far as a request.
    let foreign = client(&ours, Some(issued(&theirs, "agent-1")));
    assert!(report(&foreign).is_err());
    drop((certified, bare, foreign));
    server.stop();
}

#[test]
fn someone_who_begins_a_handshake_and_waits_is_let_go() {
    let data = tempfile::tempdir().unwrap();
    let ours = authority();
    let (certificate, key) = issued(&ours, "127.0.0.1");
    std::fs::write(data.path().join("server.pem"), certificate).unwrap();
    std::fs::write(data.path().join("server.key"), key).unwrap();
    let mut config = config(data.path());
    config.limits.head = std::time::Duration::from_millis(200);
    config.tls = Some(TlsFiles {
        certificate: data.path().join("server.pem"),
        key: data.path().join("server.key"),
        client_ca: None,
    });
    let server = Server::configured(config, Double::default());
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.write_all(&[22, 3, 1]).unwrap();
    assert_eq!(service_support::until_closed(stream), "");
    server.stop();
}

#[test]
fn files_that_do_not_work_are_named() {
    let data = tempfile::tempdir().unwrap();
    let ours = authority();
    let (certificate, key) = issued(&ours, "127.0.0.1");
    let (_, other_key) = issued(&ours, "127.0.0.1");
    let file = |name: &str, text: &str| {
        let path = data.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = (file("good.pem", &certificate), file("good.key", &key));
    let empty = file("empty.pem", "");
    let other = file("other.key", &other_key);
    for (certificate, key, client_ca, said) in [
        (
            data.path().join("none.pem"),
            good.1.clone(),
            None,
            "none.pem cannot be read as PEM",
        ),
        (
            empty.clone(),
            good.1.clone(),
            None,
            "empty.pem holds no certificate",
        ),
        (
            good.0.clone(),
            empty.clone(),
            None,
            "empty.pem cannot be read as PEM",
        ),
        (good.0.clone(), other, None, "do not work together"),
        (
            good.0.clone(),
            good.1.clone(),
            Some(empty.clone()),
            "empty.pem holds no certificate",
        ),
    ] {
        let mut config = config(data.path());
        config.tls = Some(TlsFiles {
            certificate,
            key,
            client_ca,
        });
        let refusal = Server::refused(config);
        assert!(refusal.contains(said), "{refusal}");
    }
}
