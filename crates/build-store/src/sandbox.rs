//! The box in which every tool runs that reads bytes of a registered file.
//!
//! Compilers and linkers are not written for hostile input: LLVM's bitcode reader
//! crashes on some damaged modules, and a crash may be more than that. So they run
//! - with no files but the toolchain, the system's libraries, the inputs that they
//!   are given and one folder for what they write (Landlock);
//! - without network, other processes or privileges (`syscall_filter.rs`);
//! - with limits on memory, CPU time and the size of files, and for as long as
//!   `supervise.rs` waits for them;
//! - with an environment of a search path and nothing else.
//!
//! Where the kernel has no Landlock nothing runs, unless whoever registers the file
//! says that it is to be trusted (`--without-sandbox`), and the manifest says so.
//! User namespaces are deliberately not used instead: many distributions refuse
//! them to ordinary users.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::landlock::{self, Access, Ruleset};
use crate::syscall_filter::SyscallFilter;

/// Whether tools run in the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    Required,
    /// Somebody said that the file is to be trusted. Limits hold all the same.
    Without,
}

impl Sandbox {
    /// Can tools run so on this machine?
    pub fn check(self) -> Result<(), SandboxError> {
        match self {
            Sandbox::Required => landlock::version()
                .map(|_| ())
                .map_err(SandboxError::NoLandlock),
            Sandbox::Without => Ok(()),
        }
    }
}

/// What a tool may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of address space.
    pub memory: u64,
    pub cpu_seconds: u64,
    /// From start to end, on a clock: a tool that waits uses no CPU time.
    pub seconds: u64,
    /// Bytes of a file that it writes.
    pub output: u64,
}

impl Limits {
    /// Enough for the largest module that we know, ten times over.
    pub const TOOL: Limits = Limits {
        memory: 8 << 30,
        cpu_seconds: 1800,
        seconds: 3600,
        output: 1 << 30,
    };
    /// For what makes whole programs of whole programs.
    pub const WHOLE_PROGRAM: Limits = Limits {
        output: 4 << 30,
        ..Limits::TOOL
    };
}

/// What a tool may reach besides the toolchain.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Files that it reads.
    pub inputs: Vec<PathBuf>,
    /// The folder that it writes into, and where it is run.
    pub folder: PathBuf,
    /// Whether it starts other tools, as the driver starts the linker.
    pub starts_linker: bool,
    pub limits: Limits,
}

impl Reach {
    pub fn new(folder: &Path, inputs: &[&Path]) -> Self {
        Reach {
            inputs: inputs.iter().map(|path| path.to_path_buf()).collect(),
            folder: folder.to_path_buf(),
            starts_linker: false,
            limits: Limits::TOOL,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "this kernel has no Landlock ({0}), so the compiler cannot be kept from files and network while it reads what the file carries; boot with `lsm=landlock,…`, or register with --without-sandbox if you trust the file"
    )]
    NoLandlock(io::Error),
    #[error("the sandbox for {program} could not be made: {path}: {source}")]
    Rule {
        program: String,
        path: String,
        source: io::Error,
    },
}

/// Folders of the toolchain and of system libraries.
const SYSTEM_FOLDERS: &[&str] = &[
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/lib",
];

/// Does `path` lead to a file of the system, which every tool may read?
pub(crate) fn is_system_file(path: &Path) -> bool {
    let real = std::fs::canonicalize(path);
    real.is_ok_and(|real| SYSTEM_FOLDERS.iter().any(|it| real.starts_with(it)))
}

/// Files that programs and clang's driver read at their start: the loader's cache, and
/// by which clang knows the distribution and so the linker's defaults. No devices: what has
/// no end is no input.
const SYSTEM_FILES: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/etc/redhat-release",
];

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

const LINKERS: &[&str] = &[
    "ld",
    "ld.bfd",
    "ld.gold",
    "ld.lld",
    "ld.lld-19",
    "ld.mold",
    "mold",
];

/// The folders in which a tool looks for others. Others than absolute ones would mean
/// the folder that the tool writes into.
fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    folders.filter(|folder| folder.is_absolute()).collect()
}

/// Prepares `command`, whose program is an absolute path, to run in the box.
pub fn confine(command: &mut Command, reach: &Reach, sandbox: Sandbox) -> Result<(), SandboxError> {
    command.env_clear().current_dir(&reach.folder);
    command.env("LC_ALL", "C").env("TMPDIR", &reach.folder);
    if let Ok(path) = std::env::join_paths(search_path()) {
        command.env("PATH", path);
    }
    let limits = EffectiveLimits::new(reach.limits);
    let walls = match sandbox {
        Sandbox::Required => Some((
            rules(command.get_program(), reach)?,
            SyscallFilter::new(reach.starts_linker),
        )),
        Sandbox::Without => None,
    };
    let starter = std::process::id();
    let mut walls = walls;
    let enter = move || -> io::Result<()> {
        limits.enter()?;
        die_with(starter)?;
        if let Some((rules, filter)) = &mut walls {
            close_what_is_not_its_own();
            drop_privileges()?;
            rules.enter()?;
            filter.enter()?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls; all it
    // needs was allocated before.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

fn rules(program: &OsStr, reach: &Reach) -> Result<Ruleset, SandboxError> {
    let rules = Ruleset::new().map_err(SandboxError::NoLandlock)?;
    let allow = |path: &Path, access: Access| {
        rules
            .allow(path, access)
            .map_err(|source| SandboxError::Rule {
                program: program.to_string_lossy().into_owned(),
                path: path.display().to_string(),
                source,
            })
    };
    for folder in SYSTEM_FOLDERS {
        allow(Path::new(folder), Access::Read)?;
    }
    for file in SYSTEM_FILES {
        allow(Path::new(file), Access::Read)?;
    }
    allow(Path::new("/dev/null"), Access::ReadWrite)?;
    allow(Path::new(LOADER), Access::Start)?;
    let program = Path::new(program);
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
    allow(&program, Access::Start)?;
    // A toolchain of its own brings its libraries beside its programs.
    if let Some(folder) = program.parent().filter(|it| it.ends_with("bin")) {
        allow(&folder.with_file_name("lib"), Access::Read)?;
    }
    if reach.starts_linker {
        let beside = program.parent().map(Path::to_path_buf);
        let folders = search_path().into_iter().chain(beside);
        let places = folders.flat_map(|folder| LINKERS.iter().map(move |it| folder.join(it)));
        // A folder that cannot be searched has nothing for the driver either.
        for linker in places.filter(|place| place.is_file()) {
            allow(&linker, Access::Start)?;
        }
    }
    for input in &reach.inputs {
        allow(input, Access::Read)?;
    }
    allow(&reach.folder, Access::Change)?;
    Ok(rules)
}

/// A tool whose starter was ended would go on alone, in a group that no Ctrl-C reaches.
fn die_with(starter: u32) -> io::Result<()> {
    // SAFETY: these calls take numbers only.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Err(io::Error::last_os_error());
        }
        // It was ended before it could be asked for.
        if libc::getppid() as u32 != starter {
            return Err(io::ErrorKind::NotConnected.into());
        }
    }
    Ok(())
}

/// Descriptors that whoever started this command left open: a build tool's pipes, a file.
fn close_what_is_not_its_own() {
    const FIRST_OF_OTHERS: libc::c_uint = 3;
    let last = libc::c_uint::MAX;
    // SAFETY: the call takes numbers. Nothing is closed before the program starts, so that
    // what tells of a failed start stays open; kernels with Landlock have this call.
    unsafe { libc::close_range(FIRST_OF_OTHERS, last, libc::CLOSE_RANGE_CLOEXEC as i32) };
}

/// No privileges that a program file could bring, and none of the superuser's.
fn drop_privileges() -> io::Result<()> {
    // SAFETY: these calls take numbers only.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Refused to ordinary users, who have none to drop, and past the last one.
        for capability in 0..64 {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        );
    }
    Ok(())
}

/// Limits as they will hold: never above those that this process has itself, and such that
/// they cannot be raised again.
#[derive(Clone, Copy)]
pub(crate) struct EffectiveLimits {
    set: [(libc::__rlimit_resource_t, libc::rlimit); 4],
}

impl EffectiveLimits {
    pub(crate) fn new(limits: Limits) -> Self {
        let of = |resource, wanted: u64| {
            let own = current(resource);
            let most = wanted.min(own.rlim_cur).min(own.rlim_max);
            let limit = libc::rlimit {
                rlim_cur: most,
                rlim_max: most,
            };
            (resource, limit)
        };
        let (cpu, mut seconds) = of(libc::RLIMIT_CPU, limits.cpu_seconds);
        // At the hard limit a process is killed without a word; at the soft one it is told.
        let own = current(libc::RLIMIT_CPU).rlim_max;
        seconds.rlim_cur = seconds.rlim_cur.min(own.saturating_sub(1)).max(1);
        seconds.rlim_max = own.min(seconds.rlim_cur.saturating_add(5));
        EffectiveLimits {
            set: [
                of(libc::RLIMIT_AS, limits.memory),
                (cpu, seconds),
                of(libc::RLIMIT_FSIZE, limits.output),
                of(libc::RLIMIT_CORE, 0),
            ],
        }
    }

    fn enter(&self) -> io::Result<()> {
        for (resource, limit) in &self.set {
            // SAFETY: the kernel reads one structure, which outlives the call.
            if unsafe { libc::setrlimit(*resource, limit) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Bytes of memory, seconds, bytes of a file.
    pub(crate) fn amounts(&self) -> [u64; 3] {
        [0, 1, 2].map(|index: usize| self.set[index].1.rlim_cur)
    }
}

fn current(resource: libc::__rlimit_resource_t) -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the kernel writes one structure, which is ours. If it does not, there is
    // no such limit.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit
}
