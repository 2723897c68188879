//! Real binaries: from addresses, through debug info, to the slicer's statements.
//!
//! A small program is compiled twice by clang-19, the second time with another
//! object before it, so that all its addresses differ, as they do in a tracked
//! build. Where the failing instruction and the call lie is found by decoding.

use build_analysis::workshop::BuildCode;
use build_analysis::{
    code_map::{BinaryCode, StatementTable},
    symbols::Symbols,
};
use diagnosis::campaign::iteration::ProgramCode;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use sketch_model::{
    BuildId, FailureReport, Mapping, RuntimeAddress, Statement, StatementId, StaticAddress,
};
use slicer::{ModuleInput, Program};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
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

/// The slicer's statement table, as the real workshop uses it.
struct Table(Program);

impl StatementTable for Table {
    fn statement(&self, function: Option<&str>, file: &str, line: u32) -> Option<StatementId> {
        self.0.statement_at(function, file, line)
    }

    fn described(&self, id: StatementId) -> Option<Statement> {
        let info = self.0.statements().get(id.0 as usize)?;
        Some(Statement {
            id,
            function: info.function.clone(),
            location: info.location.clone(),
            text: String::new(),
        })
    }
}

/// P, and another build of the same statements at other addresses.
struct Binaries {
    p: Vec<u8>,
    moved: Vec<u8>,
    table: Arc<Table>,
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
        table: Arc::new(Table(program)),
    }
}

fn start_of(binary: &[u8], function: &str) -> StaticAddress {
    use object::{Object, ObjectSymbol};
    let file = object::File::parse(binary).unwrap();
    let symbol = file.symbols().find(|s| s.name() == Ok(function)).unwrap();
    StaticAddress(symbol.address())
}

fn instructions(symbols: &Symbols, start: StaticAddress) -> Vec<Instruction> {
    let code = symbols.function_at(start).unwrap();
    Decoder::with_ip(64, &code.bytes, start.0, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

/// The load in `consume`, and one byte before the return address in `main`.
fn failing_and_caller(binary: &[u8], symbols: &Symbols) -> (StaticAddress, StaticAddress) {
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
    let build = BuildId(
        Symbols::read(&binaries.p)
            .unwrap()
            .build_id()
            .unwrap()
            .into(),
    );
    let mut located = Vec::new();
    let mut addresses = Vec::new();
    for binary in [&binaries.p, &binaries.moved] {
        let symbols = Symbols::read(binary).unwrap();
        let own = symbols.build_id().unwrap().to_owned();
        let found = failing_and_caller(binary, &symbols);
        let mappings = vec![
            mapping("/lib/libc.so.6", 0x1000, Some("c0ffee")),
            mapping("/opt/p", 0x7000_0000, Some(&own)),
        ];
        let table = Arc::clone(&binaries.table) as Arc<dyn StatementTable>;
        let code = BinaryCode::new(build.clone(), symbols, table);
        located.push(BuildCode::locate(&code, &report(found, mappings)).unwrap());
        addresses.push(found);
    }
    assert_ne!(addresses[0], addresses[1], "the second build must differ");
    assert_eq!(located[0].signature(&build), located[1].signature(&build));
    let described = |s: &Statement| (s.function.clone(), s.location.line);
    let stack: Vec<_> = located[0].callers.iter().map(described).collect();
    // Before optimisation, where statements come from, `peek` is a function.
    assert_eq!(
        described(&located[0].failing),
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
    let symbols = Symbols::read(&binaries.p).unwrap();
    let found = failing_and_caller(&binaries.p, &symbols);
    let table = Arc::clone(&binaries.table) as Arc<dyn StatementTable>;
    let code = BinaryCode::new(BuildId("other".into()), symbols, table);
    let program_first = vec![
        mapping("/lib/libc.so.6", 0x7f00_0000_0000, None),
        mapping("/opt/p", 0x5500_0000_0000, None),
    ];
    assert!(BuildCode::locate(&code, &report(found, program_first)).is_some());
    let foreign = vec![mapping("/bin/sh", 0x5500_0000_0000, None)];
    assert_eq!(BuildCode::locate(&code, &report(found, foreign)), None);
    let mut no_threads = report(found, Vec::new());
    no_threads.threads.clear();
    assert_eq!(BuildCode::locate(&code, &no_threads), None);
}

#[test]
fn what_cannot_be_located_says_why() {
    let binaries = compile();
    let symbols = Symbols::read(&binaries.p).unwrap();
    let found = failing_and_caller(&binaries.p, &symbols);
    let start = start_of(&binaries.p, "_start");
    let table = Arc::clone(&binaries.table) as Arc<dyn StatementTable>;
    let code = BinaryCode::new(BuildId("other".into()), symbols, table);
    let own = || vec![mapping("/opt/p", 0x5500_0000_0000, None)];
    let why = |report: &FailureReport| {
        assert_eq!(BuildCode::locate(&code, report), None);
        code.why_unlocated(report)
    };

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
fn a_runtime_address_finds_its_code_and_statement() {
    use object::{Object, ObjectSegment, ObjectSymbol};
    let binaries = compile();
    let symbols = Symbols::read(&binaries.p).unwrap();
    let (failing, _) = failing_and_caller(&binaries.p, &symbols);
    let own = symbols.build_id().unwrap().to_owned();
    let table = Arc::clone(&binaries.table) as Arc<dyn StatementTable>;
    let code = BinaryCode::new(BuildId("p".into()), symbols, table);
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
    let map = code.code_map();
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
    let statement = binaries
        .table
        .statement(Some("peek"), "prog.c", line_of("// FAILING"));
    assert_eq!(map.statements_at(failing), [statement.unwrap()]);
    assert!(map.function_at(StaticAddress(0)).is_none());
    assert!(map.statements_at(StaticAddress(u64::MAX)).is_empty());
}

#[test]
fn bytes_that_are_no_binary_are_refused() {
    let binaries = compile();
    assert!(Symbols::read(b"").is_err());
    assert!(Symbols::read(b"\x7fELF, but not really").is_err());
    // Truncated or damaged files may be refused or known less; they never panic.
    for cut in (0..binaries.p.len()).step_by(97) {
        if let Ok(symbols) = Symbols::read(&binaries.p[..cut]) {
            symbols.frames(StaticAddress(0x1140));
        }
    }
}
