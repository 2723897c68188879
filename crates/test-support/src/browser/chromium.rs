//! A real browser for tests: Debian's Chromium, headless, with a new profile,
//! driven by its own debugging protocol over two pipes.
//!
//! The pipes (`--remote-debugging-pipe`, descriptors 3 and 4, JSON ended by a NUL)
//! need no port, no socket and no further package. Every console message, every
//! exception and every request is kept, so that a test can say that there were
//! none. `timeout` ends a browser that hangs, and with it the read that waits for it.
//!
//! Nothing here takes a moment for granted: a page is open when this very page has
//! loaded and drawn a frame, and what follows from a key, the mouse or the server is
//! asked for until it is there ([`Browser::expect`]). On a busy machine that takes
//! longer and means the same.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CHROMIUM: &str = "/usr/bin/chromium";
/// How often a condition in a page is looked at before it counts as never true, and
/// how long to wait between looks: a minute at least.
const LOOKS: u32 = 1_200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The reader's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: String,
    sent: u64,
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Browser {
        assert!(
            Path::new(CHROMIUM).exists(),
            "{CHROMIUM} is missing: install the Debian package `chromium` (`./dev` does it)"
        );
        let profile = tempfile::tempdir().expect("a temporary folder");
        let pipe = |name: &str| {
            let path = profile.path().join(name);
            let made = Command::new("mkfifo").arg(&path).status();
            assert!(made.is_ok_and(|s| s.success()), "mkfifo makes a pipe");
            path
        };
        let (there, back) = (pipe("there"), pipe("back"));
        let child = Command::new("bash")
            .args([
                "-c",
                r#"exec timeout --kill-after=10 600 "$@" 3<"$THERE" 4>"$BACK""#,
                "bash",
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                // Keys and clicks are not dropped because the first frame is late.
                "--allow-pre-commit-input",
                "--remote-debugging-pipe",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("THERE", &there)
            .env("BACK", &back)
            .stderr(Stdio::null())
            .spawn()
            .expect("bash starts");
        let to = OpenOptions::new().write(true).open(&there);
        let from = File::open(&back);
        let mut browser = Browser {
            child,
            to: to.expect("a pipe to the browser"),
            from: BufReader::new(from.expect("a pipe from the browser")),
            session: String::new(),
            sent: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.session = attached["sessionId"]
            .as_str()
            .expect("a session")
            .to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call("Page.setLifecycleEventsEnabled", json!({ "enabled": true }));
        browser.window((1280, 900), Scheme::Light);
        browser
    }

    /// One command and its answer; what the browser tells meanwhile is kept.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        match self.try_call(method, params) {
            Ok(answer) => answer,
            Err(error) => panic!("{method}: {error}"),
        }
    }

    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        loop {
            let message = self.receive();
            if message["id"] == json!(id) {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from
            .read_until(0, &mut bytes)
            .expect("the browser answers");
        assert_eq!(bytes.pop(), Some(0), "the browser ended early");
        let message: Value = serde_json::from_slice(&bytes).expect("JSON from the browser");
        if message["method"].is_string() {
            self.events.push(message.clone());
        }
        message
    }

    /// Opens a page, waits until it is loaded and drawn, and forgets what came before.
    pub fn open(&mut self, url: &str) {
        // The load of the page before may only now be told: it is another loader's.
        let loader = self.leave_for(url);
        while !self.has_loaded(&loader) {
            self.receive();
        }
        // The second frame is asked for when the first has been drawn.
        self.eval("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() => drawn(0))))");
    }

    /// Goes to a page that may lead elsewhere by itself, without waiting for it.
    pub fn leave_for(&mut self, url: &str) -> Value {
        self.events.clear();
        let gone = self.call("Page.navigate", json!({ "url": url }));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        assert!(
            gone["loaderId"].is_string(),
            "{url} is another page: {gone}"
        );
        gone["loaderId"].clone()
    }

    fn has_loaded(&self, loader: &Value) -> bool {
        let told = self.events.iter();
        let mut told = told.filter(|e| e["method"] == "Page.lifecycleEvent");
        told.any(|e| e["params"]["name"] == "load" && e["params"]["loaderId"] == *loader)
    }

    /// The value of an expression in the page; a promise is waited for.
    pub fn eval(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true }),
        );
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// Waits until an expression has a value, also across a reload of the page.
    pub fn expect(&mut self, expression: &str, wanted: impl Into<Value>) {
        let wanted = wanted.into();
        let mut found = Value::Null;
        for _ in 0..LOOKS {
            found = self.glance(expression);
            if found == wanted {
                return;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        let body = self.glance("document.body.innerText");
        panic!("{expression} stayed {found} and never became {wanted}\n{body}");
    }

    /// Waits until a condition holds, also across a reload of the page.
    pub fn wait_for(&mut self, condition: &str) {
        self.expect(condition, true);
    }

    /// The value of an expression now; null while the page is being replaced, or
    /// does not have yet what the expression speaks of.
    fn glance(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true });
        match self.try_call("Runtime.evaluate", params) {
            Ok(answer) if answer["exceptionDetails"].is_null() => answer["result"]["value"].clone(),
            Ok(_) | Err(_) => Value::Null,
        }
    }

    /// Waits until the page has complained in these words.
    pub fn expect_complaint(&mut self, words: &str) {
        let mut complaints = Vec::new();
        for _ in 0..LOOKS {
            complaints = self.complaints();
            if complaints.iter().any(|said| said.contains(words)) {
                return;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        panic!("nothing complained of {words}: {complaints:?}");
    }

    /// What went wrong in the page: errors and warnings of the console, of the
    /// policy and of the network, and exceptions.
    pub fn complaints(&mut self) -> Vec<String> {
        self.glance("0"); // what is under way has arrived
        let bad = |e: &&Value| match e["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => true,
            Some("Log.entryAdded") => e["params"]["entry"]["level"] != "verbose",
            _ => false,
        };
        let complaints = self.events.iter().filter(bad);
        complaints.map(|e| e["params"].to_string()).collect()
    }

    /// The addresses that the page asked for; what is inside the page itself
    /// (`data:`) asks for nothing.
    pub fn requests(&self) -> Vec<String> {
        self.events
            .iter()
            .filter(|e| e["method"] == "Network.requestWillBeSent")
            .filter_map(|e| e["params"]["request"]["url"].as_str())
            .filter(|url| !url.starts_with("data:"))
            .map(str::to_owned)
            .collect()
    }

    pub fn window(&mut self, (width, height): (u32, u32), scheme: Scheme) {
        self.zoomed((width, height), 1.0, scheme);
    }

    /// A window of this size at a zoom: the page has that much less room.
    pub fn zoomed(&mut self, (width, height): (u32, u32), zoom: f64, scheme: Scheme) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({
                "width": f64::from(width) / zoom, "height": f64::from(height) / zoom,
                "deviceScaleFactor": zoom, "mobile": false
            }),
        );
        let scheme = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key });
            if key.len() == 1 && kind == "keyDown" {
                event["text"] = json!(key);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Moves the mouse onto an element until that has had its effect: a page that
    /// still scrolls moves the element away from under the mouse.
    pub fn hover(&mut self, selector: &str, effect: &str) {
        for _ in 0..LOOKS {
            let at = self.eval(&format!(
                "(() => {{ const e = document.querySelector('{selector}');
                   e.scrollIntoView({{block: 'center', behavior: 'instant'}});
                   const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; }})()"
            ));
            // From elsewhere, so that it is a movement each time.
            for (x, y) in [(json!(0), json!(0)), (at[0].clone(), at[1].clone())] {
                let moved = json!({ "type": "mouseMoved", "x": x, "y": y });
                self.call("Input.dispatchMouseEvent", moved);
            }
            if self.glance(effect) == json!(true) {
                return;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        panic!("the mouse on {selector} never made this true: {effect}");
    }

    /// Writes a picture of the whole page into `target/screenshots`.
    pub fn picture(&mut self, name: &str) -> PathBuf {
        self.capture(name, true)
    }

    /// The same, only what the window shows.
    pub fn picture_of_window(&mut self, name: &str) -> PathBuf {
        self.capture(name, false)
    }

    fn capture(&mut self, name: &str, whole: bool) -> PathBuf {
        // The test is target/PROFILE/deps/NAME.
        let test = std::env::current_exe().expect("a test knows where it is");
        let target = test.ancestors().nth(3).expect("a target folder");
        let folder = target.join("screenshots");
        std::fs::create_dir_all(&folder).expect("a writable target folder");
        let file = folder.join(format!("{name}.png"));
        let taken = self.call(
            "Page.captureScreenshot",
            json!({ "format": "png", "captureBeyondViewport": whole }),
        );
        let picture = decoded(taken["data"].as_str().unwrap_or_default());
        assert!(picture.len() > 8_000, "{name} is not a picture of a page");
        std::fs::write(&file, picture).expect("a writable target folder");
        file
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing to close.
        let _ = self
            .to
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Base64, which the protocol wraps pictures in.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut have) = (0u32, 0);
    for c in text.bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(digit);
        have += 6;
        if have >= 8 {
            have -= 8;
            bytes.push((bits >> have) as u8);
        }
    }
    bytes
}
