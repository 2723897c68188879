//! Records go to servers that prove who they are, with proof of who we are.

use crate::common::Workshop;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Output,
    sync::{Arc, Mutex},
    thread,
};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
}

/// A certificate and its key, as PEM.
fn issued(by: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, by).expect("signed");
    (certificate.pem(), key.serialize_pem())
}

/// The requests that arrived whole, as they came.
type Requests = Arc<Mutex<Vec<String>>>;

/// A server with a certificate of `by` that takes every record; if `clients` is
/// given, only from those who show one of its certificates.
fn serve(by: &Authority, clients: Option<&Authority>) -> (String, Requests) {
    let (certificate, key) = issued(by, "127.0.0.1");
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions");
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            let root = CertificateDer::from_pem_slice(clients.pem().as_bytes()).expect("PEM");
            roots.add(root).expect("an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            config.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
    };
    let config = Arc::new(config.with_single_cert(chain, key).expect("a pair"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("bound"));
    let requests = Requests::default();
    let kept = requests.clone();
    // Ends with the test's process.
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (config, kept) = (config.clone(), kept.clone());
            thread::spawn(move || answer(connection, config, &kept));
        }
    });
    (url, requests)
}

fn answer(connection: TcpStream, config: Arc<ServerConfig>, kept: &Requests) {
    let tls = ServerConnection::new(config).expect("a connection");
    let mut stream = StreamOwned::new(tls, connection);
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    let whole = |request: &[u8]| {
        let text = String::from_utf8_lossy(request).to_ascii_lowercase();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))?;
        (body.len() >= length.parse().ok()?).then_some(())
    };
    while whole(&request).is_none() {
        match stream.read(&mut piece) {
            Ok(got @ 1..) => request.extend_from_slice(&piece[..got]),
            // Not trusted, or done.
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let body = match request.starts_with("POST /api/v1/assignments ") {
        true => {
            r#"{"schema":1,"tag":"none","programs":[{"build":"","variant":null,"finished":false,"tracked_share":1.0,"canary_share":1.0}]}"#
        }
        false => r#"{"accepted":true}"#,
    };
    kept.lock().expect("no panic").push(request);
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes());
    let _ = stream.flush();
}

struct Client {
    workshop: Workshop,
    program: PathBuf,
}

impl Client {
    fn new() -> Client {
        let workshop = Workshop::new();
        let program = workshop.compile("crash", "crash", &[]);
        Client { workshop, program }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.workshop.path(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// A run that reports to `url`; its command ends as it would anyway.
    fn run(&self, url: &str, options: &[(&str, &Path)]) -> Output {
        let mut agent = self.workshop.agent();
        agent.args(["--server", url, "--grace", "1"]);
        for (option, file) in options {
            agent.arg(option).arg(file);
        }
        let output = agent
            .arg("--")
            .arg(&self.program)
            .args(["exit", "7"])
            .output()
            .expect("runs");
        assert_eq!(output.status.code(), Some(7));
        output
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_token_goes_to_a_server_whose_authority_is_trusted_and_to_no_other() {
    let client = Client::new();
    let (ours, theirs) = (authority(), authority());
    let (url, requests) = serve(&ours, None);
    let token = client.file("token", "machine-17.secret\n");
    let trusted = client.file("ours.pem", &ours.pem());
    let output = client.run(&url, &[("--ca", &trusted), ("--token", &token)]);
    assert_eq!(said(&output), "");
    let received = std::mem::take(&mut *requests.lock().expect("no panic"));
    assert_eq!(received.len(), 2, "assignment and record");
    for request in &received {
        let request = request.to_ascii_lowercase();
        assert!(
            request.contains("authorization: bearer machine-17.secret\r\n"),
            "{request}"
        );
    }

    // One that we do not trust hears nothing, neither token nor record.
    let other = client.file("theirs.pem", &theirs.pem());
    let output = client.run(&url, &[("--ca", &other), ("--token", &token)]);
    assert!(
        said(&output).contains("cannot be reached"),
        "{}",
        said(&output)
    );
    assert!(
        said(&output).contains("the record will be sent later"),
        "{}",
        said(&output)
    );
    assert!(requests.lock().expect("no panic").is_empty());
    // Nor one that only the machine's own list would know.
    let output = client.run(&url, &[("--token", &token)]);
    assert!(!said(&output).is_empty());
    assert!(requests.lock().expect("no panic").is_empty());

    // A token that cannot be read is said; the record waits.
    let missing = client.workshop.path("no-such-token");
    let output = client.run(&url, &[("--ca", &trusted), ("--token", &missing)]);
    assert!(
        said(&output).contains("cannot read the token in"),
        "{}",
        said(&output)
    );
    assert!(requests.lock().expect("no panic").is_empty());
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_ours() {
    let client = Client::new();
    let (servers, clients) = (authority(), authority());
    let (url, requests) = serve(&servers, Some(&clients));
    let trusted = client.file("ca.pem", &servers.pem());
    let (certificate, key) = issued(&clients, "machine-17");
    let own = client.file("own.pem", &format!("{certificate}{key}"));
    let output = client.run(&url, &[("--ca", &trusted), ("--certificate", &own)]);
    assert_eq!(said(&output), "");
    assert_eq!(requests.lock().expect("no panic").len(), 2);

    let output = client.run(&url, &[("--ca", &trusted)]);
    assert!(
        said(&output).contains("the record will be sent later"),
        "{}",
        said(&output)
    );
    assert_eq!(requests.lock().expect("no panic").len(), 2);
    // A file without the key is named before anything is sent.
    let half = client.file("half.pem", &certificate);
    let output = client.run(&url, &[("--ca", &trusted), ("--certificate", &half)]);
    assert!(said(&output).contains("it must hold a certificate and its private key"));
}
