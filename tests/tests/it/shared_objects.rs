//! A program as the wrapper builds it and as clones track it, between shared
//! objects: a library that calls it before `main` and after `exit`, and a plugin,
//! built by the wrapper too, that calls back, writes to it, and crashes.
//!
//! What the agent and the runtime make of shared objects in all their ways is tested
//! with hooks called by hand (`client-agent/tests/it/capture/shared_objects.rs`); here it is
//! that gates, clones and their unwind tables are right for callers of all kinds.

use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use system_tests::command;
use tempfile::TempDir;

const HOST: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
long total;
void host_adds(long n) {
    total += n; // HOOKED
    dprintf(1, "%ld\n", total);
}
__attribute__((noinline)) int host_enters(int (*plugin)(long), long way) {
    long seen = total;
    int got = plugin(seen + way);
    return got + 1;
}
int main(int argc, char **argv) {
    void *plugin = dlopen(argv[1], RTLD_NOW);
    void (*uses)(void (*)(long), long *) = dlsym(plugin, "plugin_uses");
    int (*faults)(long) = dlsym(plugin, "plugin_faults");
    uses(host_adds, &total);
    int *at = total == 106 ? 0 : (int *)&total;
    int result = argc > 2 ? host_enters(faults, -total) : at == 0;
    dlclose(plugin);
    if (result != 1) result = *at; // FAILING
    return result;
}
"#;
const LINKED: &str = r#"
void host_adds(long n);
__attribute__((constructor)) static void before(void) { host_adds(1); }
__attribute__((destructor)) static void after(void) { host_adds(1000); }
"#;
const PLUGIN: &str = r#"
void host_adds(long n);
void plugin_uses(void (*adds)(long), long *total) {
    adds(2);
    host_adds(3);
    *total += 100;
}
int plugin_faults(long at) { return *(volatile int *)at; }
"#;

struct Shop(TempDir);

impl Shop {
    fn path(&self, name: &str) -> PathBuf {
        // The kernel shows real paths; so do records.
        fs::canonicalize(self.0.path()).unwrap().join(name)
    }

    /// What a command says; it must succeed.
    fn does(&self, name: &str, arguments: &[&str]) -> String {
        let tool = match name {
            "failsketch" => command(name),
            _ => PathBuf::from(name),
        };
        let done = Command::new(tool)
            .current_dir(self.path(""))
            .args(arguments)
            .output()
            .unwrap();
        let complained = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {complained}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Under the agent, tracked or not: what came of it and its record.
    fn records(&self, options: &[&str], arguments: &[&str]) -> (Output, Value) {
        let file = self.path("record");
        let output = Command::new(command("failsketch-agent"))
            .args(["run", "--max-overhead", "0", "--cache"])
            .arg(self.path("cache"))
            .arg("--store-record")
            .arg(&file)
            .args(options)
            .arg("--")
            .arg(self.path("host.deployed"))
            .args(arguments)
            .output()
            .unwrap();
        let record = fs::read(&file).unwrap();
        (output, serde_json::from_slice(&record).unwrap())
    }
}

fn said(output: &Output) -> Vec<u64> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The values that were written at the hooked line.
fn written(record: &Value, hooks: &Value) -> Vec<u64> {
    let line = 1 + HOST.lines().position(|l| l.contains("HOOKED")).unwrap();
    let sites: Vec<&Value> = hooks["hooks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|hook| hook["line"] == line)
        .map(|hook| &hook["site"])
        .collect();
    let threads = record["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 1);
    let events = threads[0]["head"].as_array().unwrap().iter();
    events
        .filter(|event| event["kind"] == "write" && sites.contains(&&event["site"]))
        .map(|event| event["value"].as_u64().unwrap())
        .collect()
}

/// The files of the failing stack, innermost first, and the functions by their symbols.
fn stack(shop: &Shop, record: &Value) -> (Vec<String>, Vec<String>) {
    let threads = record["outcome"]["failure"]["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 1, "{record}");
    assert_eq!(threads[0]["truncated"], Value::Null);
    let frames = threads[0]["frames"].as_array().unwrap().iter();
    let both = frames.map(|frame| {
        let module = Path::new(frame["module"].as_str().unwrap());
        let name = module.file_name().unwrap().to_str().unwrap().to_string();
        let at = format!("{:#x}", frame["lookup"].as_u64().unwrap());
        // The deployed file has no debug info, and the same addresses.
        let file = match name.as_str() {
            "host.deployed" => shop.path("host"),
            _ => module.to_path_buf(),
        };
        let asked = ["-e", file.to_str().unwrap(), "--no-inlines", &at];
        let told = shop.does("llvm-symbolizer-19", &asked);
        (name, told.lines().next().unwrap_or_default().to_string())
    });
    both.unzip()
}

#[test]
fn clones_are_right_for_callers_from_shared_objects() {
    let shop = Shop(tempfile::tempdir().unwrap());
    for (name, text) in [("host.c", HOST), ("linked.c", LINKED), ("plugin.c", PLUGIN)] {
        fs::write(shop.path(name), text).unwrap();
    }
    shop.does(
        "clang-19",
        &["-O1", "-shared", "-fPIC", "linked.c", "-o", "linked.so"],
    );
    let shared = [
        "cc",
        "-O1",
        "-shared",
        "-fPIC",
        "plugin.c",
        "-o",
        "plugin.so",
    ];
    shop.does("failsketch", &shared);
    let linked = shop.path("linked.so");
    let export = "-Wl,--export-dynamic-symbol=host_adds";
    let linked = linked.to_str().unwrap();
    shop.does(
        "failsketch",
        &["cc", "-O1", "host.c", linked, export, "-o", "host"],
    );
    let register = [
        "register",
        "host",
        "--store",
        "store",
        "--deploy",
        "host.deployed",
    ];
    shop.does("failsketch", &register);
    let failing = 1 + HOST.lines().position(|l| l.contains("FAILING")).unwrap();
    let at = format!("host.c:{failing}");
    let patch = [
        "patch",
        "--json",
        "--build",
        "",
        "--at",
        &at,
        "--whole",
        "--data",
        "data",
        "--store",
        "store",
        "--out",
        "host.patch",
        "--tracked",
        "host.tracked",
    ];
    let hooks: Value = serde_json::from_str(&shop.does("failsketch", &patch)).unwrap();
    let way = hooks["way"].as_str().unwrap();
    assert!(way.starts_with("clones"), "{way}");

    let (patch, key) = (shop.path("host.patch"), shop.path("data/signing.pub"));
    let tracked = [
        "--patch",
        patch.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ];
    let plugin = shop.path("plugin.so");
    let plugin = plugin.to_str().unwrap();
    let values = [1, 3, 6, 1106];
    let mut stacks = Vec::new();
    for options in [&[][..], &tracked[..]] {
        let (output, record) = shop.records(options, &[plugin]);
        assert_eq!(
            (output.status.code(), said(&output)),
            (Some(1), values.to_vec())
        );
        assert_eq!(record["gaps"], serde_json::json!([]));
        if !options.is_empty() {
            assert_eq!(written(&record, &hooks), values);
        }

        let (output, record) = shop.records(options, &[plugin, "crash"]);
        assert_eq!(output.status.signal(), Some(11));
        assert_eq!(said(&output), values[..3]);
        let (files, functions) = stack(&shop, &record);
        let own = ["plugin.so", "host.deployed", "host.deployed"];
        assert_eq!(files[..3], own, "{files:?}");
        assert_eq!(functions[0], "plugin_faults");
        if options.is_empty() {
            assert_eq!(functions[1..3], ["host_enters", "main"]);
        }
        stacks.push(files);
    }
    assert_eq!(stacks[0], stacks[1]);
}
