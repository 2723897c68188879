//! The graph of a build, made from its bitcode in a process of its own.
//!
//! LLVM's bitcode reader trusts its input: some damaged modules make it abort,
//! crash or run on without end. So it reads in a child, this very command with a
//! hidden subcommand, which gets the modules through a pipe and gives the graph
//! back through another. The child announces each module before it reads it; if
//! it dies, the last one announced is the culprit, unless a limit stopped it. It runs in
//! the same box as the compiler (`build_store::sandbox`), with [`LIMITS`].
//!
//! What goes through the pipes are lengths and bytes; both ends are this file.

use anyhow::{Context, Result, bail};
use build_store::sandbox::{self, Limits, Reach, Sandbox};
use build_store::tools::limit_that_stopped;
use build_store::{NewGraph, NewModule, RegisteredBuild};
use sketch_model::BuildId;
use slicer::{Loader, ModuleInput, Program};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

/// The child's name among the subcommands.
pub const CHILD: &str = "read-bitcode";
/// More than clang needs to compile the same program.
const LIMITS: Limits = Limits {
    memory: 16 << 30,
    cpu_seconds: 3600,
    output: 64 << 20,
};
/// Bytes of a graph.
const MOST_BYTES: u64 = 4 << 30;

/// What the child says: it goes on to the next module, it has the graph, or it
/// cannot make it because of what follows.
const NEXT: u8 = b'n';
const GRAPH: u8 = b'g';
const REFUSED: u8 = b'r';

/// The program of a registered build: from its stored graph if that is there and
/// of this version, otherwise from its bitcode, and then the graph is kept.
pub fn program(build: &RegisteredBuild) -> Result<Program> {
    let id = &build.manifest().build_id;
    let stored = build.graph(&Program::graph_version());
    if let Some(program) = stored.and_then(|bytes| Program::from_bytes(id, &bytes).ok()) {
        return Ok(with_own_files(program, build));
    }
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
    let graph = make(id, &modules, build.manifest().sandbox())?;
    let program = Program::from_bytes(id, &graph.bytes)?;
    // A store that cannot be written is no reason to refuse a slice.
    if let Err(error) = build.keep_graph(&graph) {
        eprintln!("failsketch: the graph is not kept: {error}");
    }
    Ok(with_own_files(program, build))
}

/// The program with whose its source files are, as registration found it.
pub fn with_own_files(program: Program, build: &RegisteredBuild) -> Program {
    program.with_own_files(&|file| build.manifest().is_own(file))
}

/// Makes a graph in a child process.
pub fn make(build: &BuildId, modules: &[NewModule<'_>], sandbox: Sandbox) -> Result<NewGraph> {
    let command = std::env::current_exe().context("finding this command")?;
    let folder = tempfile::tempdir().context("making a folder for the bitcode reader")?;
    let mut reach = Reach::new(folder.path(), &[]);
    reach.limits = LIMITS;
    let complaints = folder.path().join("complaints");
    let mut command = Command::new(command);
    command
        .arg(CHILD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&complaints)?);
    sandbox::confine(&mut command, &reach, sandbox)?;
    let mut child = command
        .spawn()
        .context("starting a process to read bitcode in")?;
    let (to, from) = (child.stdin.take(), child.stdout.take());
    let mut said = Vec::new();
    let heard = std::thread::scope(|scope| {
        // Its end is the child's: what it no longer reads is not written.
        scope.spawn(|| to.map(|to| send(to, build, modules)));
        from.map(|from| from.take(MOST_BYTES).read_to_end(&mut said))
    });
    let status = child.wait().context("waiting for the bitcode reader")?;
    heard
        .transpose()
        .context("reading from the bitcode reader")?;
    let begun = said.iter().take_while(|byte| **byte == NEXT).count();
    match said.get(begun) {
        Some(&GRAPH) if status.success() => Ok(NewGraph {
            version: Program::graph_version(),
            bytes: said.split_off(begun + 1),
        }),
        Some(&REFUSED) => bail!("{}", String::from_utf8_lossy(&said[begun + 1..])),
        _ => {
            let module = begun.checked_sub(1).and_then(|last| modules.get(last));
            let module = module.map(|module| module.source);
            let complaints = std::fs::read(&complaints).unwrap_or_default();
            if let Some(limit) = limit_that_stopped(status, &complaints, LIMITS) {
                bail!("{}", stopped(&limit, module));
            }
            bail!("{}", death(status, module))
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

fn send(mut to: impl Write, build: &BuildId, modules: &[NewModule<'_>]) -> std::io::Result<()> {
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
pub fn read_bitcode() -> Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout());
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
    Ok(output.flush()?)
}

type Made = Result<Vec<u8>, String>;

fn read_modules(input: &mut impl Read, output: &mut impl Write) -> Result<Made> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let build = receive(input)?.context("no build came in")?;
    let mut loader = Loader::new(BuildId(text(build)));
    while let Some(name) = receive(input)? {
        let bitcode = receive(input)?.context("a module's bitcode is missing")?;
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
fn receive(input: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        bail!("the input ends in the middle of a part");
    }
    Ok(Some(bytes))
}
