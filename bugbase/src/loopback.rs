//! A web server on this machine's loopback, for programs that fetch.
//!
//! Answers every GET with text that follows from its path: `/bytes/N…` is N bytes,
//! anything else a line. Connections stay open for further requests, as clients
//! expect. Nothing but that: no other method, no errors to provoke.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// A client that says nothing for so long has gone.
const SILENCE: Duration = Duration::from_secs(30);
/// The largest body that a path can ask for.
const MOST: usize = 64 << 20;

/// Serves until it is dropped.
pub struct WebServer {
    /// "127.0.0.1:40123"
    pub address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl WebServer {
    pub fn start() -> Result<WebServer> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listening on the loopback")?;
        let address = listener.local_addr()?.to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = spawn(move || {
            for connection in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                if let Ok(connection) = connection {
                    spawn(move || {
                        // A client that goes away in the middle is its own business.
                        let _ = serve(connection);
                    });
                }
            }
        });
        Ok(WebServer {
            address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread, which waits for a connection.
        let woken = TcpStream::connect(&self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn serve(connection: TcpStream) -> std::io::Result<()> {
    connection.set_read_timeout(Some(SILENCE))?;
    connection.set_nodelay(true)?;
    let mut answers = connection.try_clone()?;
    let mut requests = BufReader::new(connection);
    loop {
        let mut first = String::new();
        if requests.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut line = first.clone();
        while !line.trim_end().is_empty() {
            line.clear();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        let path = first.split(' ').nth(1).unwrap_or("/");
        let body = body(path);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        answers.write_all(head.as_bytes())?;
        answers.write_all(&body)?;
    }
}

fn body(path: &str) -> Vec<u8> {
    let asked = path.strip_prefix("/bytes/").map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        rest[..digits.unwrap_or(rest.len())].parse::<usize>()
    });
    match asked {
        Some(Ok(count)) => (0..count.min(MOST))
            .map(|at| b' ' + (at % 90) as u8)
            .collect(),
        _ => format!("{path}\n").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn two_requests_on_one_connection_are_answered_by_their_paths() {
        let server = WebServer::start().unwrap();
        let mut client = TcpStream::connect(&server.address).unwrap();
        client
            .write_all(b"GET /bytes/5x HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\n\r\n")
            .unwrap();
        let wanted = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n !\"#$\
                      HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n/a\n";
        let mut answer = vec![0; wanted.len()];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), wanted);
    }
}
