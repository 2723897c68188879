//! A server on a free port of 127.0.0.1 with build tools that are a double, and a client.

#![allow(dead_code)] // Each test file uses its own part.

pub mod double;
pub mod records;

use double::Double;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sketch_model::{CampaignSummary, FailureSketch, RunRecord};
use sketch_server::{EngineHandle, ServerConfig, ServerError, serve_with};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Server {
    runtime: Abandoned,
    address: SocketAddr,
    engine: EngineHandle,
    shutdown: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServerError>>,
    client: ureq::Agent,
}

/// What the server said.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json<T: DeserializeOwned>(&self) -> T {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The sentence of a refusal.
    pub fn error(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        body["error"].as_str().unwrap().to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A server of this data folder and none other, on a free port.
pub fn config(data: &Path) -> ServerConfig {
    ServerConfig::new(data, &data.join("no-store"), "127.0.0.1:0".parse().unwrap())
}

/// A runtime that does not wait for its threads when a test panics: a failing
/// test must fail, not hang.
struct Abandoned(Option<Runtime>);

impl std::ops::Deref for Abandoned {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("taken only when dropped")
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Server {
    pub fn start(data: &Path, double: Double) -> Server {
        Server::configured(config(data), double)
    }

    /// A server that is told more than where its data is.
    pub fn configured(config: ServerConfig, double: Double) -> Server {
        let runtime = Abandoned(Some(Runtime::new().unwrap()));
        let (shutdown, stopped) = oneshot::channel::<()>();
        let (ready, address) = std::sync::mpsc::channel();
        let served = runtime.spawn(serve_with(
            config,
            Arc::new(double),
            async move {
                let _ = stopped.await;
            },
            move |address, engine| ready.send((address, engine)).unwrap(),
        ));
        let (address, engine) = address.recv().expect("the server starts");
        let client = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        Server {
            runtime,
            address,
            engine,
            shutdown,
            served,
            client,
        }
    }

    /// Why a server on this data folder does not start.
    pub fn refusal(data: &Path) -> String {
        Server::refused(config(data))
    }

    pub fn refused(config: ServerConfig) -> String {
        let double = Arc::new(Double::default());
        let served = serve_with(config, double, async {}, |_, _| ());
        let refused = Runtime::new().unwrap().block_on(served);
        refused.expect_err("the server is refused").to_string()
    }

    /// Stops the server as Ctrl-C does.
    pub fn stop(self) {
        drop(self.client);
        self.shutdown.send(()).unwrap();
        self.runtime.block_on(self.served).unwrap().unwrap();
    }

    /// Waits until all accepted runs are understood and all builds made.
    pub fn quiet(&self) {
        self.runtime.block_on(self.engine.quiet()).unwrap();
    }

    /// Where a browser finds a page.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks with a token.
    pub fn get_as(&self, token: &str, path: &str) -> Reply {
        let url = format!("http://{}{path}", self.address);
        let request = self.client.get(url);
        let request = request.header("authorization", format!("Bearer {token}"));
        reply(request.call().unwrap())
    }

    /// Says something with a token.
    pub fn post_as(&self, token: &str, path: &str, body: &[u8]) -> Reply {
        let url = format!("http://{}{path}", self.address);
        let request = self.client.post(url);
        let request = request.header("authorization", format!("Bearer {token}"));
        reply(request.send(body).unwrap())
    }

    /// Speaks HTTP byte by byte: writes all of `said` and reads until the server
    /// closes the connection.
    pub fn raw(&self, said: &[u8]) -> String {
        let mut stream = std::net::TcpStream::connect(self.address).unwrap();
        // The server may close before it has read everything.
        let _ = std::io::Write::write_all(&mut stream, said);
        until_closed(stream)
    }

    /// The value of a counter, by the beginning of its line in `/metrics`.
    pub fn counter(&self, name: &str) -> u64 {
        let text = self.get("/metrics").text();
        counter(&text, name)
    }

    pub fn get(&self, path: &str) -> Reply {
        let url = format!("http://{}{path}", self.address);
        reply(self.client.get(url).call().unwrap())
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Reply {
        let url = format!("http://{}{path}", self.address);
        reply(self.client.post(url).send(body).unwrap())
    }

    pub fn post_json(&self, path: &str, body: &impl Serialize) -> Reply {
        self.post(path, &serde_json::to_vec(body).unwrap())
    }

    /// Uploads a run and waits until the server has understood it.
    pub fn upload(&self, record: &RunRecord) {
        let reply = self.post_json("/api/v1/runs", record);
        assert_eq!(reply.status, 202, "{}", reply.text());
        assert_eq!(reply.text(), r#"{"accepted":true}"#);
        self.quiet();
    }

    pub fn campaign(&self, id: u64) -> CampaignSummary {
        self.get(&format!("/api/v1/campaigns/{id}")).json()
    }

    pub fn sketch(&self, id: u64) -> FailureSketch {
        self.get(&format!("/api/v1/campaigns/{id}/sketch")).json()
    }
}

fn reply(mut response: ureq::http::Response<ureq::Body>) -> Reply {
    let headers = response.headers().iter();
    let headers = headers
        .map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned()))
        .collect();
    Reply {
        status: response.status().as_u16(),
        headers,
        body: response.body_mut().read_to_vec().unwrap(),
    }
}

/// What comes until the other end closes; a reset is one way of closing.
pub fn until_closed(mut stream: std::net::TcpStream) -> String {
    let mut heard = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut heard);
    String::from_utf8_lossy(&heard).into_owned()
}

/// A counter in the text of `/metrics`; 0 if it has no line yet.
pub fn counter(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.trim().parse().unwrap())
}
