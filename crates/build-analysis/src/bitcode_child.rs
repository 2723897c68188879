//! The graph of a build, made from its bitcode in a process of its own.
//!
//! LLVM's bitcode reader trusts its input: some damaged modules make it abort,
//! crash or run on without end. So it reads in a child, `failsketch` with a
//! hidden subcommand, which gets the modules through a pipe and gives the graph
//! back through another. The child announces each module before it reads it; if
//! it dies, the last one announced is the culprit, unless a limit stopped it. It runs in
//! the same box as the compiler (`build_store::sandbox`), with [`LIMITS`].
//!
//! What goes through the pipes are lengths and bytes; both ends are this file.

use build_store::sandbox::{Limits, Reach};
use build_store::tools::{Tools, limit_that_stopped};
use build_store::{NewGraph, NewModule, RegisteredBuild, StoreError};
use sketch_model::BuildId;
use sketch_model::printable;
use slicer::{Loader, ModuleInput, Program};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// The child's name among the subcommands.
pub const CHILD: &str = "read-bitcode";
/// More than clang needs to compile the same program.
const LIMITS: Limits = Limits {
    memory: 16 << 30,
    cpu_seconds: 3600,
    seconds: 7200,
    output: 64 << 20,
};
/// Bytes of a graph.
const MOST_BYTES: u64 = 4 << 30;

/// What the child says: it goes on to the next module, it has the graph, or it
/// cannot make it because of what follows.
const NEXT: u8 = b'n';
const GRAPH: u8 = b'g';
const REFUSED: u8 = b'r';

/// A program that could not be made of its bitcode.
#[derive(Debug, thiserror::Error)]
pub enum BitcodeError {
    #[error(
        "its graph is not in the build store, and this process has no command to read its \
         bitcode with; run `failsketch serve`, or register the build again"
    )]
    NoReader,
    #[error("{doing}: {source}")]
    Io {
        doing: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the reader says, or what became of it.
    #[error("{0}")]
    Refused(String),
}

fn io(doing: &'static str) -> impl FnOnce(io::Error) -> BitcodeError {
    move |source| BitcodeError::Io { doing, source }
}

/// The command that reads bitcode when run with [`CHILD`], if there is one.
#[derive(Clone, Debug, Default)]
pub struct BitcodeReader {
    pub command: Option<PathBuf>,
}

impl BitcodeReader {
    /// This very command.
    pub fn this() -> BitcodeReader {
        BitcodeReader {
            command: std::env::current_exe().ok(),
        }
    }

    /// The program of a registered build from its bitcode; its graph is kept.
    pub fn program(&self, build: &RegisteredBuild) -> Result<Program, BitcodeError> {
        let id = &build.manifest().build_id;
        let modules = &build.manifest().modules;
        let bitcode = (0..modules.len())
            .map(|module| build.module_bitcode(module))
            .collect::<Result<Vec<_>, _>>()?;
        let pairs = modules.iter().zip(&bitcode);
        let modules: Vec<NewModule<'_>> = pairs
            .map(|(module, bitcode)| NewModule {
                source: &module.source,
                bitcode,
            })
            .collect();
        let graph = self.graph(id, &modules, &build.tools())?;
        let program = Program::from_bytes(id, &graph.bytes);
        let program = program.map_err(|error| BitcodeError::Refused(error.to_string()))?;
        // A store that cannot be written is no reason to refuse a slice.
        if let Err(error) = build.keep_graph(&graph) {
            tracing::warn!("the graph of build {id} is not kept: {error}");
        }
        Ok(program)
    }

    /// Makes a graph in a child process.
    pub fn graph(
        &self,
        build: &BuildId,
        modules: &[NewModule<'_>],
        tools: &Tools,
    ) -> Result<NewGraph, BitcodeError> {
        let command = self.command.as_deref().ok_or(BitcodeError::NoReader)?;
        make(command, build, modules, tools)
    }
}

fn make(
    command: &Path,
    build: &BuildId,
    modules: &[NewModule<'_>],
    tools: &Tools,
) -> Result<NewGraph, BitcodeError> {
    let folder = tempfile::tempdir().map_err(io("making a folder for the bitcode reader"))?;
    let mut reach = Reach::new(folder.path(), &[]);
    reach.limits = LIMITS;
    let complaints = folder.path().join("complaints");
    let stderr = std::fs::File::create(&complaints);
    let stderr = stderr.map_err(io("making a file for what the bitcode reader complains of"))?;
    let mut command = Command::new(command);
    command
        .arg(CHILD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut said = Vec::new();
    let talk = |child: &mut Child| {
        let (to, from) = (child.stdin.take(), child.stdout.take());
        std::thread::scope(|scope| {
            // Its end is the child's: what it no longer reads is not written.
            scope.spawn(|| to.map(|to| send(to, build, modules)));
            from.map(|from| from.take(MOST_BYTES).read_to_end(&mut said))
        })
    };
    let (ended, heard) = tools
        .supervise(&mut command, &reach, talk, || ())
        .map_err(|error| BitcodeError::Refused(error.to_string()))?;
    heard
        .transpose()
        .map_err(io("reading from the bitcode reader"))?;
    let begun = said.iter().take_while(|byte| **byte == NEXT).count();
    match said.get(begun) {
        Some(&GRAPH) if ended.status.success() => Ok(NewGraph {
            version: Program::graph_version(),
            bytes: said.split_off(begun + 1),
        }),
        Some(&REFUSED) => Err(BitcodeError::Refused(printable(&String::from_utf8_lossy(
            &said[begun + 1..],
        )))),
        _ => {
            let module = begun.checked_sub(1).and_then(|last| modules.get(last));
            let module = module.map(|module| printable(module.source));
            let complaints = std::fs::read(&complaints).unwrap_or_default();
            if let Some(limit) = limit_that_stopped(&ended, &complaints, LIMITS) {
                return Err(BitcodeError::Refused(stopped(&limit, module.as_deref())));
            }
            Err(BitcodeError::Refused(death(
                ended.status,
                module.as_deref(),
            )))
        }
    }
}

fn death(status: ExitStatus, module: Option<&str>) -> String {
    let how = match status.signal() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("ended with {status}"),
    };
    let Some(module) = module else {
        return format!("the process that reads bitcode {how} before it read any; try again");
    };
    format!(
        "the bitcode of {module} is damaged: LLVM's reader {how} on it; rebuild that module \
         with failsketch-cc, link the program again and register it"
    )
}

fn stopped(limit: &str, module: Option<&str>) -> String {
    let place = module.map_or(String::new(), |module| format!(" while it read {module}"));
    format!("the process that reads bitcode was stopped by {limit}{place}")
}

fn send(mut to: impl Write, build: &BuildId, modules: &[NewModule<'_>]) -> io::Result<()> {
    let mut part = |bytes: &[u8]| {
        to.write_all(&(bytes.len() as u64).to_le_bytes())?;
        to.write_all(bytes)
    };
    part(build.0.as_bytes())?;
    for module in modules {
        part(module.source.as_bytes())?;
        part(module.bitcode)?;
    }
    Ok(())
}

/// The child: modules on standard input, the graph on standard output.
pub fn read_bitcode() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout());
    let made = read_modules(&mut input, &mut output)?;
    match made {
        Ok(graph) => {
            output.write_all(&[GRAPH])?;
            output.write_all(&graph)?;
        }
        Err(problem) => {
            output.write_all(&[REFUSED])?;
            output.write_all(problem.as_bytes())?;
        }
    }
    output.flush()
}

type Made = Result<Vec<u8>, String>;

fn read_modules(input: &mut impl Read, output: &mut impl Write) -> io::Result<Made> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let build = receive(input)?.ok_or_else(cut_off)?;
    let mut loader = Loader::new(BuildId(text(build)));
    while let Some(name) = receive(input)? {
        let bitcode = receive(input)?.ok_or_else(cut_off)?;
        output.write_all(&[NEXT])?;
        output.flush()?;
        let added = loader.add(ModuleInput {
            name: &text(name),
            bitcode: &bitcode,
        });
        if let Err(error) = added {
            return Ok(Err(error.to_string()));
        }
    }
    let program = loader.finish();
    Ok(program.map(|p| p.to_bytes()).map_err(|e| e.to_string()))
}

/// The next part, or nothing at the end of the input.
fn receive(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(cut_off());
    }
    Ok(Some(bytes))
}

fn cut_off() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the input ends in the middle of a part",
    )
}
