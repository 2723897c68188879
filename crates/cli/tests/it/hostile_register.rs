//! Registering a file never does what the file wants: it runs no code that the file
//! names, and neither reads nor keeps files that are not the program's own.
//!
//! Each program here is an honest one whose recorded command line, link line or debug
//! info was changed afterwards, as whoever hands a file over can do.

use crate::support::{FAILSKETCH, Place};
use build_store::link::record::{Driver, LinkRecord};
use build_store::{BuildManifest, BuildStore, ModuleStatus};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const MAIN: (&str, &str) = (
    "main.c",
    "int twice(int);\nint main(int argc, char **argv) {\n  (void)argv;\n  return twice(argc) - 2;\n}\n",
);
const TWICE: (&str, &str) = ("twice.c", "int twice(int x) { return 2 * x; }\n");

/// A shared object that leaves a file behind as soon as it is loaded.
struct Evil {
    library: PathBuf,
    marker: PathBuf,
}

impl Evil {
    fn build(place: &Place) -> Evil {
        let (library, marker) = (place.path("evil.so"), place.path("evil-was-here"));
        let text = format!(
            "#include <fcntl.h>\n__attribute__((constructor)) static void here(void) {{ open(\"{}\", O_CREAT | O_WRONLY, 0600); }}\n\
             int onload(void *it) {{ (void)it; return 0; }}\n",
            marker.display()
        );
        std::fs::write(place.path("evil.c"), text).unwrap();
        place.run_ok("clang-19 -shared -fPIC evil.c -o evil.so");
        Evil { library, marker }
    }

    fn ran(&self) -> bool {
        self.marker.exists()
    }
}

fn section(bytes: &[u8], name: &str) -> Vec<u8> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes).unwrap();
    let section = file.section_by_name(name).unwrap();
    section.data().unwrap().to_vec()
}

fn replace_section(place: &Place, program: &str, name: &str, bytes: &[u8]) {
    std::fs::write(place.path("section"), bytes).unwrap();
    place.run_ok(&format!(
        "objcopy --update-section {name}=section {program} {program}"
    ));
}

/// Adds flags to the recorded command line of every module.
fn add_flags(place: &Place, program: &str, flags: &[&str]) {
    let old = section(&place.read(program), ".failsketch.cmd");
    let added: String = flags.iter().map(|flag| format!("{flag}\0")).collect();
    let mut new = Vec::new();
    for word in old.split_inclusive(|byte| *byte == 0) {
        new.extend(word);
        if word == b"-cc1\0" {
            new.extend(added.as_bytes());
        }
    }
    replace_section(place, program, ".failsketch.cmd", &new);
}

fn registered(place: &Place) -> BuildManifest {
    let output = place.register("prog");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    BuildStore::open(place.store()).list().unwrap().remove(0)
}

#[test]
fn flags_that_load_code_make_a_module_untrackable_and_load_nothing() {
    let place = Place::new(&[MAIN, TWICE]);
    let evil = Evil::build(&place);
    let library = evil.library.display().to_string();
    // That it would leave its mark.
    place.run_ok("failsketch-cc -O2 -c twice.c -Xclang -load -Xclang ./evil.so");
    assert!(evil.ran());
    std::fs::remove_file(&evil.marker).unwrap();

    std::fs::write(place.path("flags"), format!("-load {library}")).unwrap();
    let response = format!("@{}", place.path("flags").display());
    let joined = |flag: &str| format!("{flag}{library}");
    let lines: &[&[&str]] = &[
        &["-load", &library],
        &[&joined("-fplugin=")],
        &[&joined("-fpass-plugin=")],
        &["-mllvm", &joined("-load=")],
        &[&response],
        &["-target-cpu", &response],
    ];
    for flags in lines {
        place.run_ok("failsketch-cc -O2 main.c twice.c -o prog");
        add_flags(&place, "prog", flags);
        let manifest = registered(&place);
        assert!(!evil.ran(), "{flags:?}");
        for module in &manifest.modules {
            let ModuleStatus::Untrackable { reason } = &module.status else {
                panic!("{flags:?}: {} is trackable", module.source);
            };
            assert!(reason.contains(flags[0]), "{reason}");
            assert!(reason.contains("compiler flags"), "{reason}");
        }
    }
}

#[test]
fn a_link_line_that_loads_code_is_not_run_again() {
    let place = Place::new(&[MAIN, TWICE]);
    let evil = Evil::build(&place);
    let library = evil.library.display().to_string();
    place.run_ok("failsketch-cc -O2 main.c twice.c -o plain");
    for (words, named) in [
        (vec![format!("-Wl,-plugin,{library}")], "-plugin"),
        (vec![format!("-Wl,-plugin={library}")], "-plugin"),
        (vec![format!("-fplugin={library}")], "-fplugin"),
        (vec![format!("-B{}", place.path("").display())], "-B"),
        (vec![format!("-fuse-ld={library}")], "-fuse-ld"),
        (vec!["-T".to_string(), "main.c".to_string()], "-T"),
    ] {
        std::fs::copy(place.path("plain"), place.path("prog")).unwrap();
        let given = ["main.c", "twice.c", "-o", "prog"].map(str::to_string);
        let record = LinkRecord {
            driver: Driver::C,
            directory: place.path("").display().to_string(),
            arguments: [given.to_vec(), words].concat(),
        };
        replace_section(&place, "prog", ".failsketch.link", &record.to_bytes());
        let manifest = registered(&place);
        let reason = manifest.link_refused.as_deref().unwrap_or_default();
        assert!(reason.contains(named), "{named}: {reason}");
        assert_eq!(manifest.link, None);
        // Modules are proven all the same: clones need no link line.
        assert_eq!(manifest.trackable_modules(), 2);
        let build = BuildStore::open(place.store()).load(&manifest.build_id);
        let objects = [place.path("a.o"), place.path("b.o")];
        let error = build_store::relink(&build.unwrap(), &objects, &[], &place.path("again"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
        assert!(!evil.ran(), "{named}");
    }
}

/// `#line` is the simplest way to put a name into debug info.
#[test]
fn only_the_programs_own_sources_are_kept() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "the key\n").unwrap();
    let text = format!(
        "#include \"own.h\"\n#include <vendor.h>\nint main(void) {{ return own() + vendor() + twice(0); }}\n\
         #line 1 \"{0}\"\nint one(void) {{ return 1; }}\n#line 1 \"/etc/passwd\"\nint two(void) {{ return 2; }}\n\
         #line 1 \"link.h\"\nint three(void) {{ return 3; }}\n#line 1 \"fifo.h\"\nint four(void) {{ return 4; }}\n",
        secret.display()
    );
    let place = Place::new(&[
        ("main.c", &text),
        TWICE,
        (
            "own.h",
            "int twice(int);\nstatic inline int own(void) { return 1; }\n",
        ),
        (
            "vendor/vendor.h",
            "static inline int vendor(void) { return 1; }\n",
        ),
    ]);
    std::os::unix::fs::symlink(&secret, place.path("link.h")).unwrap();
    place.run_ok("mkfifo fifo.h");
    place.run_ok("failsketch-cc -O0 -isystem vendor main.c twice.c -o prog");
    let output = place.register("prog");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    let manifest = BuildStore::open(place.store()).list().unwrap().remove(0);
    let path = |name: &str| place.path(name).display().to_string();
    let kept: Vec<&String> = manifest.sources.keys().collect();
    assert_eq!(kept, [&path("main.c"), &path("own.h"), &path("twice.c")]);
    let stored = std::fs::read_dir(place.store().join("blobs")).unwrap();
    for blob in stored {
        let bytes = std::fs::read(blob.unwrap().path()).unwrap();
        assert!(!bytes.starts_with(b"the key") && !bytes.starts_with(b"root:"));
    }
    let own = |name: &str| manifest.is_own(name);
    assert_eq!(own(&path("own.h")), Some(true));
    assert_eq!(own(&path("vendor/vendor.h")), Some(false));
    assert_eq!(own("/etc/passwd"), Some(false));
    assert_eq!(own(&secret.display().to_string()), Some(false));
    assert_eq!(own("elsewhere.c"), None);
    for name in ["/etc/passwd", &*path("link.h"), &*path("fifo.h")] {
        assert!(said.contains(&format!("left out: {name} (")), "{said}");
        assert!(manifest.left_out().any(|(file, _)| file == name), "{name}");
    }
    assert!(!said.contains("vendor.h"), "{said}");

    // Whoever registers it can say what else is the program's own.
    let named = place
        .command(&format!("{FAILSKETCH} register prog --store"))
        .arg(place.store())
        .arg("--also")
        .arg(outside.path())
        .output()
        .unwrap();
    assert!(named.status.success());
    let manifest = BuildStore::open(place.store()).list().unwrap().remove(0);
    assert!(manifest.sources.contains_key(&secret.display().to_string()));
}

#[test]
fn a_link_line_brings_no_file_into_the_store_that_is_no_object() {
    let place = Place::new(&[MAIN, TWICE, ("secret", "the key\n")]);
    place.run_ok("failsketch-cc -O2 main.c twice.c -o prog");
    let secret = place.path("secret").display().to_string();
    for words in [
        vec![secret.clone()],
        vec!["-Wl,--version-script=/etc/passwd".to_string()],
        vec![format!("-Wl,{secret}")],
    ] {
        let given = ["main.c", "twice.c", "-o", "prog"].map(str::to_string);
        let record = LinkRecord {
            driver: Driver::C,
            directory: place.path("").display().to_string(),
            arguments: [given.to_vec(), words.clone()].concat(),
        };
        replace_section(&place, "prog", ".failsketch.link", &record.to_bytes());
        let manifest = registered(&place);
        let reason = manifest.link_refused.unwrap_or_default();
        assert!(
            reason.contains("secret") || reason.contains("passwd"),
            "{reason}"
        );
        for blob in std::fs::read_dir(place.store().join("blobs")).unwrap() {
            let bytes = std::fs::read(blob.unwrap().path()).unwrap();
            assert!(!bytes.starts_with(b"the key") && !bytes.starts_with(b"root:"));
        }
    }
}

/// `failsketch register prog` with a limit that holds from its start.
fn register_limited(place: &Place, resource: libc::__rlimit_resource_t, most: u64) -> Command {
    let mut command = place.command(&format!("{FAILSKETCH} register prog --store"));
    command.arg(place.store());
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    let set = move || {
        // SAFETY: the kernel reads one structure, which outlives the call.
        match unsafe { libc::setrlimit(resource, &limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(set) };
    command
}

fn sentence(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn debug_info_that_claims_gigabytes_is_refused_before_it_is_inflated() {
    let place = Place::new(&[MAIN, TWICE]);
    for claimed in [4 << 30, u64::MAX, 200 << 20] {
        place.run_ok("failsketch-cc -O2 -gz main.c twice.c -o prog");
        let mut bytes = place.read("prog");
        let offset = {
            let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).unwrap();
            let section = file.section_by_name(".debug_info").unwrap();
            let range = section.compressed_file_range().unwrap();
            assert_ne!(range.format, object::CompressionFormat::None);
            section.file_range().unwrap().0 as usize
        };
        // `ch_size` of Elf64_Chdr.
        bytes[offset + 8..offset + 16].copy_from_slice(&u64::to_le_bytes(claimed));
        std::fs::write(place.path("prog"), bytes).unwrap();
        let output = register_limited(&place, libc::RLIMIT_AS, 1 << 30).output();
        let said = sentence(&output.unwrap());
        assert!(said.contains("compressed debug info of"), "{said}");
        assert!(!place.store().exists());
    }
}

/// A compiler that never ends, so that a limit surely stops it.
#[test]
fn a_compiler_that_a_limit_stops_is_said_to_be_stopped_by_it() {
    let place = Place::new(&[
        MAIN,
        TWICE,
        (
            "spin.c",
            "int main(void) { for (volatile int i = 0;; i++); }\n",
        ),
    ]);
    place.run_ok("clang-19 -O2 spin.c -o spin");
    place.run_ok("failsketch-cc -O2 main.c twice.c -o prog");
    let output = register_limited(&place, libc::RLIMIT_CPU, 3)
        .env("FAILSKETCH_CLANG", place.path("spin"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        said.contains("spin was stopped by the limit of 2 s on CPU time, which was set from outside (ulimit -t)"),
        "{said}"
    );
}

#[test]
fn what_registration_writes_can_be_read_by_its_owner_alone() {
    let place = Place::new(&[MAIN, TWICE]);
    place.run_ok("failsketch-cc -O2 main.c twice.c -o prog");
    let mut command = place.command(&format!("{FAILSKETCH} register prog --store"));
    command.arg(place.store());
    // SAFETY: the closure makes one system call and allocates nothing.
    let open_to_all = unsafe {
        command.pre_exec(|| {
            libc::umask(0);
            Ok(())
        })
    };
    assert!(open_to_all.status().unwrap().success());
    let mut seen = 0;
    let mut folders = vec![place.store()];
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "{seen} files");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Makes a kernel without Landlock: its first call is answered as there.
fn without_landlock(command: &mut Command) {
    let step = |code: u32, value: u32, if_false: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: if_false,
        k: value,
    };
    let number = libc::SYS_landlock_create_ruleset as u32;
    let error = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 1),
        step(libc::BPF_RET | libc::BPF_K, error, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let install = move || {
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel copies the four instructions, which outlive the calls.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                + libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const filter,
                    0,
                    0,
                )
        };
        match installed {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(install) };
}

#[test]
fn without_landlock_registration_refuses_unless_told() {
    let place = Place::new(&[MAIN, TWICE]);
    place.run_ok("failsketch-cc -O2 main.c twice.c -o prog");
    let run = |flag: &[&str]| {
        let mut command = place.command(&format!("{FAILSKETCH} register prog --store"));
        command.arg(place.store()).args(flag);
        without_landlock(&mut command);
        command.output().unwrap()
    };
    let said = sentence(&run(&[]));
    assert!(
        said.contains("Landlock") && said.contains("--without-sandbox"),
        "{said}"
    );
    assert!(!place.store().exists());

    let output = run(&["--without-sandbox"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("2 proven") && said.contains("--without-sandbox"),
        "{said}"
    );
    let manifest = BuildStore::open(place.store()).list().unwrap().remove(0);
    assert!(manifest.without_sandbox);
    let list = place
        .command(&format!("{FAILSKETCH} builds --store"))
        .arg(place.store())
        .output()
        .unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("2/2 proven, without sandbox"), "{list}");
}

/// Assembly can bring any file into an object that can be opened: without end, or such
/// that the compiler waits for itself.
#[test]
fn assembly_that_waits_or_reads_without_end_does_not_keep_registration() {
    for file in ["/proc/self/fd/2", "/dev/zero", "/dev/urandom"] {
        let place = Place::new(&[MAIN, TWICE]);
        place.run_ok("failsketch-cc -O2 main.c twice.c -o prog");
        place.run_ok("failsketch-cc -O2 -c main.c -o main.o");
        place.run_ok("clang-19 -O2 -S -emit-llvm -Xclang -disable-llvm-passes twice.c -o twice.ll");
        let assembly = format!("module asm \".incbin \\22{file}\\22\"\n");
        let text = [place.read("twice.ll"), assembly.into_bytes()].concat();
        std::fs::write(place.path("twice.ll"), text).unwrap();
        // It does not look into assembly, as the compiler would.
        place.run_ok("llvm-as-19 twice.ll -o twice.bc");
        let main = section(&place.read("main.o"), ".failsketch.bc");
        let both = [main, place.read("twice.bc")].concat();
        replace_section(&place, "prog", ".failsketch.bc", &both);

        let start = Instant::now();
        let manifest = registered(&place);
        assert!(start.elapsed() < Duration::from_secs(60), "{file}");
        let ModuleStatus::Untrackable { reason } = &manifest.modules[1].status else {
            panic!("{file}: is trackable");
        };
        assert!(reason.contains(file), "{reason}");
        assert_eq!(manifest.modules[0].status, ModuleStatus::Trackable);
    }
}

/// A compiler that waits for ever, and a registration that has little time for all of it.
#[test]
fn a_registration_whose_tools_take_too_long_altogether_is_refused() {
    let wait = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n";
    let place = Place::new(&[MAIN, TWICE, ("wait.c", wait)]);
    place.run_ok("clang-19 -O2 wait.c -o wait");
    place.run_ok("failsketch-cc -O2 main.c twice.c -o prog");
    let start = Instant::now();
    let output = place
        .command(&format!(
            "{FAILSKETCH} register prog --hours 0.0005 --store"
        ))
        .arg(place.store())
        .env("FAILSKETCH_CLANG", place.path("wait"))
        .output()
        .unwrap();
    assert!(start.elapsed() < Duration::from_secs(60));
    let said = sentence(&output);
    assert!(said.contains("have run for 0.0005 h altogether"), "{said}");
    assert!(said.contains("--hours"), "{said}");
    assert!(!place.store().exists());
}
