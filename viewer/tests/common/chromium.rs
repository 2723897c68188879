//! A real browser for tests: Debian's Chromium, headless, a new profile each time.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CHROMIUM: &str = "/usr/bin/chromium";

/// The reader's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

pub struct Seen {
    /// The document after it was loaded.
    pub dom: String,
    /// What the page wrote to the console: refusals of the policy, errors.
    pub console: Vec<String>,
}

/// Loads a page and reads back what became of it.
pub fn open(url: &str) -> Seen {
    let out = run(&["--dump-dom", "--virtual-time-budget=5000", url]);
    let console = String::from_utf8_lossy(&out.stderr)
        .lines()
        .filter(|l| l.contains("CONSOLE"))
        .map(str::to_owned)
        .collect();
    Seen {
        dom: String::from_utf8_lossy(&out.stdout).into_owned(),
        console,
    }
}

/// Writes a picture of a page into `target/screenshots`.
pub fn screenshot(url: &str, name: &str, scheme: Scheme, (width, height): (u32, u32)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the temporary folder is within the target folder")
        .join("screenshots");
    std::fs::create_dir_all(&folder).expect("a writable target folder");
    let file = folder.join(format!("{name}.png"));
    let _ = std::fs::remove_file(&file);
    let preferred = match scheme {
        Scheme::Dark => "--blink-settings=preferredColorScheme=0",
        Scheme::Light => "--blink-settings=preferredColorScheme=1",
    };
    run(&[
        preferred,
        "--hide-scrollbars",
        &format!("--window-size={width},{height}"),
        &format!("--screenshot={}", file.display()),
        url,
    ]);
    let size = std::fs::metadata(&file).map(|m| m.len()).unwrap_or(0);
    assert!(
        size > 10_000,
        "{} is not a picture of a page ({size} bytes)",
        file.display()
    );
    file
}

fn run(arguments: &[&str]) -> Output {
    assert!(
        Path::new(CHROMIUM).exists(),
        "{CHROMIUM} is missing: install the Debian package `chromium` (`./dev` does it)"
    );
    let profile = tempfile::tempdir().expect("a temporary folder");
    // `timeout` ends a browser that hangs, with its children.
    let out = Command::new("timeout")
        .args(["--kill-after=10", "180", CHROMIUM])
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .output()
        .expect("chromium starts");
    assert!(
        out.status.success(),
        "chromium failed: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    out
}
