//! What whole-system tests share: finding the commands that were built.
//!
//! These tests use the commands as people do. Cargo does not build another
//! package's binaries for a test, so `./dev test` builds them first, and a
//! missing one is a failure that says so.

use std::path::PathBuf;

/// The command of that name, built into the same target folder as this test.
pub fn command(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let path = test
        .ancestors()
        .nth(2)
        .expect("tests live in target/<profile>/deps")
        .join(name);
    assert!(
        path.is_file(),
        "{} is not built; run `cargo build --workspace --bins` or ./dev test",
        path.display()
    );
    path
}
