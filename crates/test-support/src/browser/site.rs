//! A web server for one test: serves the pages it is given, remembers what was
//! asked for.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is served: its kind, its text, and the policy header it comes with, if any.
pub struct Served {
    kind: &'static str,
    text: String,
    policy: Option<&'static str>,
}

impl Served {
    pub fn html(text: String, policy: Option<&'static str>) -> Served {
        Served {
            kind: "text/html; charset=utf-8",
            text,
            policy,
        }
    }

    pub fn script(text: &str) -> Served {
        Served {
            kind: "text/javascript; charset=utf-8",
            text: text.to_owned(),
            policy: None,
        }
    }
}

pub struct Site {
    pub origin: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// The listener comes first, so that pages can name their own origin.
    pub fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        (listener, origin)
    }

    pub fn serve(
        listener: TcpListener,
        origin: String,
        pages: HashMap<&'static str, Served>,
    ) -> Site {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let pages = Arc::new(pages);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, pages) = (Arc::clone(&log), Arc::clone(&pages));
                std::thread::spawn(move || answer(stream, &log, &pages));
            }
        });
        Site { origin, asked }
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic while logging").clone()
    }
}

fn answer(mut stream: TcpStream, log: &Mutex<Vec<String>>, pages: &HashMap<&'static str, Served>) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    while lines.next().is_some_and(|l| !l.is_empty()) {}
    drop(lines);
    let path = request.split(' ').nth(1).unwrap_or("").to_owned();
    let page = pages.get(path.split('?').next().unwrap_or(""));
    log.lock().expect("no panic while logging").push(path);
    let reply = match page {
        Some(page) => {
            let policy = page
                .policy
                .map(|p| format!("Content-Security-Policy: {p}\r\n"))
                .unwrap_or_default();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\n{policy}Connection: close\r\n\r\n{}",
                page.kind,
                page.text.len(),
                page.text
            )
        }
        None => {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
        }
    };
    // The browser may have gone; the test will notice by itself.
    let _ = stream.write_all(reply.as_bytes());
}
