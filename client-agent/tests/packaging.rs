//! The systemd unit that is shipped is one that systemd takes.

mod common;

use std::{fs, process::Command};

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let workshop = common::Workshop::new();
    let unit = include_str!("../packaging/failsketch-agent.service");
    // systemd looks whether the command exists; here it lies elsewhere.
    let unit = unit.replace("/usr/bin/failsketch-agent", common::AGENT);
    let file = workshop.path("failsketch-agent.service");
    fs::write(&file, unit).expect("written");
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&file)
        .output()
        .expect("systemd-analyze is installed, ./dev test sees to it");
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && said.is_empty(), "{said}");
}
