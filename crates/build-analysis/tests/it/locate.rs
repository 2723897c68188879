//! Real binaries: from addresses, through debug info, to the slicer's statements.
//!
//! A small program is compiled twice by clang-19, the second time with another
//! object before it, so that all its addresses differ, as they do in a tracked
//! build. Where the failing instruction and the call lie is found by decoding.

use build_analysis::{Unlocated, locate};
use diagnosis::campaign::LocatedFailure;
use formats::address_map::{AddressMap, CodeFrame, LineRow};
use formats::elf::build_id;
use formats::statement_map::LoadedSegments;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use sketch_model::{
    BuildId, FailureKind, FailureReport, Mapping, RuntimeAddress, Statement, StatementId,
    StaticAddress, ThreadStack,
};
use slicer::{ModuleInput, Program};
use std::path::Path;
use std::process::Command;
use test_support::records;

const SOURCE: &str = r#"
static inline __attribute__((always_inline)) int peek(volatile int *p) {
    return *p; // FAILING
}

__attribute__((noinline)) int consume(volatile int *p) {
    return peek(p) + 1; // INLINED-AT
}

int main(int argc, char **argv) {
    int here = argc;
    int got = consume(argc > 1 ? &here : 0); // CALLER
    return got + argv[0][0];
}
"#;

const PADDING: &str = "int padding(int n) { for (int i = 0; i < n; i++) n ^= i * n; return n; }";

fn line_of(mark: &str) -> u32 {
    let found = SOURCE.lines().position(|l| l.ends_with(mark));
    found.unwrap() as u32 + 1
}

fn clang(folder: &Path, arguments: &[&str]) {
    let done = Command::new("clang-19")
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
}

/// A binary's addresses, as a loaded build makes them.
fn address_map(binary: &[u8], build: &BuildId, program: &Program) -> AddressMap {
    AddressMap::read(binary, build, |function, file, line| {
        program.statement_at(function, file, line)
    })
    .unwrap()
}

fn located(
    report: &FailureReport,
    code: &AddressMap,
    program: &Program,
) -> Result<LocatedFailure, Unlocated> {
    let described = |id: StatementId| {
        let info = program.statements().get(id.0 as usize)?;
        Some(Statement {
            id,
            function: info.function.clone(),
            location: info.location.clone(),
            text: String::new(),
        })
    };
    locate(report, code, described, |_, _| 0)
}

/// The loop's loads are hoisted to the entry of `worker`, and lose their lines.
const HOISTED: &str = r#"
struct queue { int *items; };
struct queue *q;

long worker(void)
{
    long sum = 0;
    for (int i = 0; i < 1000000; i++)
        sum += q->items[i % 100];
    return sum;
}

int main(void) { return (int)worker(); }
"#;

/// P, and another build of the same statements at other addresses.
struct Binaries {
    p: Vec<u8>,
    moved: Vec<u8>,
    program: Program,
}

fn compile() -> Binaries {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir(at.join("src")).unwrap();
    std::fs::write(at.join("src/prog.c"), SOURCE).unwrap();
    std::fs::write(at.join("padding.c"), PADDING).unwrap();
    let optimise = ["-O2", "-g", "-c"];
    clang(
        at,
        &[&optimise[..], &["src/prog.c", "-o", "prog.o"]].concat(),
    );
    clang(
        at,
        &[&optimise[..], &["padding.c", "-o", "padding.o"]].concat(),
    );
    let bitcode = ["-emit-llvm", "-Xclang", "-disable-llvm-passes"];
    let output = ["src/prog.c", "-o", "prog.bc"];
    clang(at, &[&optimise[..], &bitcode, &output].concat());
    clang(at, &["-Wl,--build-id", "prog.o", "-o", "p"]);
    clang(
        at,
        &["-Wl,--build-id", "padding.o", "prog.o", "-o", "moved"],
    );
    let read = |name| std::fs::read(at.join(name)).unwrap();
    let bitcode = read("prog.bc");
    let modules = [ModuleInput {
        name: "src/prog.c",
        bitcode: &bitcode,
    }];
    let program = Program::load(BuildId("p".into()), &modules).unwrap();
    Binaries {
        p: read("p"),
        moved: read("moved"),
        program,
    }
}

fn start_of(binary: &[u8], function: &str) -> StaticAddress {
    use object::{Object, ObjectSymbol};
    let file = object::File::parse(binary).unwrap();
    let symbol = file.symbols().find(|s| s.name() == Ok(function)).unwrap();
    StaticAddress(symbol.address())
}

fn instructions(symbols: &AddressMap, start: StaticAddress) -> Vec<Instruction> {
    let code = symbols.function_at(start).unwrap();
    Decoder::with_ip(64, &code.bytes, start.0, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

/// The load in `consume`, and one byte before the return address in `main`.
fn failing_and_caller(binary: &[u8], symbols: &AddressMap) -> (StaticAddress, StaticAddress) {
    let consume = start_of(binary, "consume");
    let load = instructions(symbols, consume)
        .into_iter()
        .find(|i| i.mnemonic() == Mnemonic::Mov && i.op1_kind() == OpKind::Memory)
        .unwrap();
    let call = instructions(symbols, start_of(binary, "main"))
        .into_iter()
        .find(|i| i.near_branch_target() == consume.0)
        .unwrap();
    (StaticAddress(load.ip()), StaticAddress(call.next_ip() - 1))
}

fn report(
    (failing, caller): (StaticAddress, StaticAddress),
    mappings: Vec<Mapping>,
) -> FailureReport {
    let frames = [
        // In libc, at an address that would mean something in the program.
        (caller.0, "/lib/libc.so.6"),
        (failing.0, "/opt/p"),
        (caller.0, "/opt/p"),
        (u64::MAX, "/opt/p"),
    ];
    FailureReport {
        mappings,
        ..records::crash(records::stack(1, &frames))
    }
}

fn mapping(path: &str, start: u64, build_id: Option<&str>) -> Mapping {
    Mapping {
        build_id: build_id.map(|id| BuildId(id.into())),
        ..records::mapping(path, start, 0x10_0000)
    }
}

#[test]
fn a_failure_has_the_same_signature_in_every_build_of_its_statements() {
    let binaries = compile();
    let build = build_id(&binaries.p).unwrap();
    let mut places = Vec::new();
    let mut addresses = Vec::new();
    for binary in [&binaries.p, &binaries.moved] {
        let code = address_map(binary, &build, &binaries.program);
        let own = build_id(binary).unwrap().0;
        let found = failing_and_caller(binary, &code);
        let mappings = vec![
            mapping("/lib/libc.so.6", 0x1000, Some("c0ffee")),
            mapping("/opt/p", 0x7000_0000, Some(&own)),
        ];
        let place = located(&report(found, mappings), &code, &binaries.program);
        places.push(place.unwrap());
        addresses.push(found);
    }
    assert_ne!(addresses[0], addresses[1], "the second build must differ");
    assert_eq!(places[0].signature(&build), places[1].signature(&build));
    let described = |s: &Statement| (s.function.clone(), s.location.line);
    let stack: Vec<_> = places[0].callers.iter().map(described).collect();
    // Before optimisation, where statements come from, `peek` is a function.
    assert_eq!(
        described(&places[0].failing),
        ("peek".into(), line_of("// FAILING"))
    );
    assert_eq!(
        stack,
        [
            ("consume".into(), line_of("// INLINED-AT")),
            ("main".into(), line_of("// CALLER"))
        ]
    );
}

#[test]
fn without_build_ids_the_first_mapping_is_the_program() {
    let binaries = compile();
    let code = address_map(&binaries.p, &BuildId("other".into()), &binaries.program);
    let found = failing_and_caller(&binaries.p, &code);
    let located = |report: &FailureReport| located(report, &code, &binaries.program);
    let program_first = vec![
        mapping("/lib/libc.so.6", 0x7f00_0000_0000, None),
        mapping("/opt/p", 0x5500_0000_0000, None),
    ];
    assert!(located(&report(found, program_first)).is_ok());
    let foreign = vec![mapping("/bin/sh", 0x5500_0000_0000, None)];
    assert!(located(&report(found, foreign)).is_err());
    let mut no_threads = report(found, Vec::new());
    no_threads.threads.clear();
    assert!(located(&no_threads).is_err());
}

#[test]
fn what_cannot_be_located_says_why() {
    let binaries = compile();
    let code = address_map(&binaries.p, &BuildId("other".into()), &binaries.program);
    let found = failing_and_caller(&binaries.p, &code);
    let start = start_of(&binaries.p, "_start");
    let located = |report: &FailureReport| located(report, &code, &binaries.program);
    let own = || vec![mapping("/opt/p", 0x5500_0000_0000, None)];
    let why = |report: &FailureReport| located(report).unwrap_err().to_string();

    let mut no_stack = report(found, own());
    no_stack.threads.clear();
    let said = why(&no_stack);
    assert!(said.contains("no stack of the failing thread"), "{said}");

    let foreign = vec![mapping("/bin/sh", 0x5500_0000_0000, None)];
    let said = why(&report(found, foreign));
    assert!(said.contains("only in /lib/libc.so.6, /opt/p"), "{said}");

    let mut wild = report(found, own());
    wild.threads[0].frames.retain(|f| f.lookup.0 == u64::MAX);
    let said = why(&wild);
    assert!(said.contains("of /opt/p lies in no function"), "{said}");

    // The C library's start code has a symbol and no debug info.
    let mut no_debug_info = report(found, own());
    no_debug_info.threads[0]
        .frames
        .retain(|f| f.lookup == found.0);
    no_debug_info.threads[0].frames[0].lookup = start;
    let said = why(&no_debug_info);
    assert!(
        said.contains("function _start of /opt/p has no line"),
        "{said}"
    );
}

#[test]
fn an_instruction_that_was_hoisted_without_its_line_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("jobs.c"), HOISTED).unwrap();
    clang(at, &["-O2", "-g", "-Wl,--build-id", "jobs.c", "-o", "jobs"]);
    let bitcode = ["-emit-llvm", "-Xclang", "-disable-llvm-passes", "-c"];
    let output = ["-O2", "-g", "jobs.c", "-o", "jobs.bc"];
    clang(at, &[&bitcode[..], &output].concat());
    let bitcode = std::fs::read(at.join("jobs.bc")).unwrap();
    let modules = [ModuleInput {
        name: "jobs.c",
        bitcode: &bitcode,
    }];
    let build = BuildId("jobs".into());
    let program = Program::load(build.clone(), &modules).unwrap();
    let binary = std::fs::read(at.join("jobs")).unwrap();
    let code = address_map(&binary, &build, &program);
    let start = start_of(&binary, "worker");
    // The load through `q`, before the loop.
    let hoisted = instructions(&code, start).into_iter().find(|it| {
        it.mnemonic() == Mnemonic::Mov
            && it.op1_kind() == OpKind::Memory
            && !it.is_ip_rel_memory_operand()
    });
    let hoisted = StaticAddress(hoisted.unwrap().ip());
    let mut failure = report((hoisted, hoisted), vec![mapping("/opt/p", 0x1000, None)]);
    failure.threads[0]
        .frames
        .retain(|frame| frame.lookup == hoisted);
    failure.threads[0].frames.remove(0);
    let said = located(&failure, &code, &program).unwrap_err().to_string();
    assert!(said.contains("has lost its line"), "{said}");
    assert!(said.contains("where function worker begins"), "{said}");
    assert!(!said.contains("no bitcode"), "{said}");
}

#[test]
fn code_of_a_module_without_bitcode_is_called_so() {
    let binaries = compile();
    let build = BuildId("other".into());
    let found = |code: &AddressMap| failing_and_caller(&binaries.p, code);
    // None of its lines is a statement.
    let code = AddressMap::read(&binaries.p, &build, |_, _, _| None).unwrap();
    let own = vec![mapping("/opt/p", 0x5500_0000_0000, None)];
    let why = located(&report(found(&code), own), &code, &binaries.program);
    let said = why.unwrap_err().to_string();
    assert!(said.contains("its module has no bitcode"), "{said}");
}

#[test]
fn a_runtime_address_finds_its_code_and_statement() {
    use object::{Object, ObjectSegment, ObjectSymbol};
    let binaries = compile();
    let map = address_map(&binaries.p, &BuildId("p".into()), &binaries.program);
    let (failing, _) = failing_and_caller(&binaries.p, &map);
    let own = build_id(&binaries.p).unwrap().0;
    // Map the segment that holds the code where a loader might.
    let file = object::File::parse(&*binaries.p).unwrap();
    let segment = file
        .segments()
        .find(|s| (s.address()..s.address() + s.size()).contains(&failing.0))
        .unwrap();
    let base = 0x5555_0000_0000_u64 + segment.address();
    let mapped = |build_id: Option<&str>| Mapping {
        start: RuntimeAddress(base),
        end: RuntimeAddress(base + segment.file_range().1),
        file_offset: segment.file_range().0,
        path: "/memfd:tracked".into(),
        build_id: build_id.map(|id| BuildId(id.into())),
    };
    let at = RuntimeAddress(0x5555_0000_0000 + failing.0);
    assert_eq!(map.locate(&mapped(Some(&own)), at), Some(failing));
    assert_eq!(map.locate(&mapped(Some("p")), at), Some(failing));
    assert_eq!(map.locate(&mapped(Some("c0ffee")), at), None);
    assert_eq!(map.locate(&mapped(None), at), None);
    let end = mapped(Some("p")).end;
    assert!(map.locate(&mapped(Some("p")), end).is_some());
    let beyond = RuntimeAddress(end.0 + 1);
    assert_eq!(map.locate(&mapped(Some("p")), beyond), None);

    let function = map.function_at(failing).unwrap();
    assert_eq!(function.start, start_of(&binaries.p, "consume"));
    let consume = file.symbols().find(|s| s.name() == Ok("consume")).unwrap();
    assert_eq!(function.bytes.len() as u64, consume.size());
    let line = line_of("// FAILING");
    let statement = binaries.program.statement_at(Some("peek"), "prog.c", line);
    assert!(statement.is_some());
    assert_eq!(map.statement_at(failing), statement);
    assert!(map.function_at(StaticAddress(0)).is_none());
    assert_eq!(map.statement_at(StaticAddress(u64::MAX)), None);
    assert_eq!(map.frames(StaticAddress(u64::MAX)).count(), 0);
}

#[test]
fn bytes_that_are_no_binary_are_refused() {
    let binaries = compile();
    let build = BuildId("p".into());
    let read = |bytes: &[u8]| {
        AddressMap::read(bytes, &build, |function, file, line| {
            binaries.program.statement_at(function, file, line)
        })
    };
    assert!(read(b"").is_err());
    assert!(read(b"\x7fELF, but not really").is_err());
    // Truncated or damaged files may be refused or known less; they never panic.
    for cut in (0..binaries.p.len()).step_by(97) {
        if let Ok(map) = read(&binaries.p[..cut]) {
            assert!(map.frames(StaticAddress(0x1140)).count() < 10);
        }
    }
}

#[test]
fn a_hang_is_known_by_its_threads_whatever_their_order() {
    const FUNCTIONS: [(&str, u32); 3] = [("take_left", 8), ("take_right", 5), ("main", 1)];
    let build = BuildId("ab12".into());
    let row = |(function, line): (&str, u32)| LineRow {
        from: u64::from(line),
        to: u64::from(line) + 1,
        column: 0,
        frames: vec![CodeFrame {
            function: Some(function.into()),
            file: Some("/src/pbzip2.c".into()),
            line: Some(line),
        }],
    };
    let code = AddressMap::new(
        vec![build.clone()],
        LoadedSegments::default(),
        Vec::new(),
        FUNCTIONS.map(row).to_vec(),
        |_, _, line| Some(StatementId(line)),
    );
    let described = |id: StatementId| {
        let (function, line) = FUNCTIONS.iter().find(|(_, line)| *line == id.0)?;
        Some(records::statement(*line, function, "/src/pbzip2.c", *line))
    };
    let held = "the mutex at 0x10, which thread 2 holds";
    let waiting = "another thread to wake it at 0x20";
    let found = |threads: [(u64, &str); 3]| {
        let threads = threads
            .into_iter()
            .zip(1..)
            .map(|((line, waits), tid)| ThreadStack {
                waits_for: Some(waits.into()),
                ..records::stack(tid, &[(line, "/opt/p")])
            });
        let report = FailureReport {
            threads: threads.collect(),
            mappings: vec![mapping("/opt/p", 0x1000, None)],
            ..records::report(FailureKind::Hang)
        };
        locate(&report, &code, described, |_, _| 0).unwrap()
    };
    let one = found([(1, waiting), (8, held), (5, held)]);
    let other = found([(5, held), (8, held), (1, waiting)]);
    assert_eq!(one, other);
    assert_eq!(
        one.signature(&build).0,
        "ab12 hang take_right (pbzip2.c:5) & main (pbzip2.c:1) & take_left (pbzip2.c:8)"
    );
}
