//! Addresses to statements and back, with binutils' `addr2line` as the second
//! opinion about every instruction that ran, inlined and tail-called code too.

use formats::address_map::AddressMap;
use formats::elf::build_id;
use pt_decoder::{BlockStatements, executed_statements};
use sketch_model::{
    BuildId, MappedCode, PtBuffer, PtRecord, RuntimeAddress, SidebandKind, StatementId,
    StaticAddress,
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::Path,
    process::{Command, Stdio},
};
use test_support::intel_pt::{
    InMemory, Step,
    tracer::{
        children::compile,
        programs::PROGRAMS,
        ptrace::{CLOCK, Plan, record},
        writer::USUAL,
    },
};

type Place = (String, u32);

/// Innermost function and line of each address, by binutils.
fn second_opinion(program: &Path, addresses: &[u64]) -> Vec<Option<Place>> {
    let mut child = Command::new("addr2line")
        .args(["-f", "-a", "-i", "-e"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: String = addresses.iter().map(|it| format!("{it:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let mut lines = output.lines().peekable();
    let mut places = Vec::new();
    while let Some(address) = lines.next() {
        assert!(address.starts_with("0x"), "{address}");
        let function = lines.next().unwrap().to_owned();
        let place = lines.next().unwrap();
        // "file:line (discriminator 3)", the line "?" if there is none.
        let line = place.rsplit_once(':').unwrap().1;
        let line = line.split(' ').next().unwrap().parse().unwrap_or(0);
        places.push((line > 0).then_some((function, line)));
        // The functions that it was inlined into.
        while lines.peek().is_some_and(|it| !it.starts_with("0x")) {
            lines.next();
        }
    }
    assert_eq!(places.len(), addresses.len());
    places
}

#[test]
fn every_executed_instruction_has_the_statement_that_binutils_names() {
    for name in [
        "inlined",
        "tail-calls",
        "sorting-with-callbacks",
        "recursion",
        "state-machine",
        "jump-table",
    ] {
        let program = PROGRAMS.iter().find(|it| it.name == name).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = compile(folder.path(), name, program.source, program.compiler);
        let run = record(&file, program.from, &Plan::new(&[USUAL]));
        let bytes = std::fs::read(&file).unwrap();

        let table: RefCell<BTreeMap<Place, StatementId>> = RefCell::default();
        let build = build_id(&bytes).unwrap_or(BuildId("no id".to_owned()));
        let map = AddressMap::read(&bytes, &build, |function, _, line| {
            let mut table = table.borrow_mut();
            let next = StatementId(table.len() as u32);
            let place = (function.unwrap_or("?").to_owned(), line);
            Some(*table.entry(place).or_insert(next))
        })
        .unwrap();
        let map = map.statements();
        let table = table.into_inner();

        // The programs are static: addresses are the file's.
        let ran: BTreeSet<u64> = run
            .only_truth()
            .iter()
            .filter_map(|step| match step {
                Step::At(at) => Some(*at),
                _ => None,
            })
            .collect();
        let ran: Vec<u64> = ran.into_iter().collect();
        let mut true_statements = BTreeSet::new();
        for (at, place) in ran.iter().zip(second_opinion(&file, &ran)) {
            let ours = map.statement_at(StaticAddress(*at));
            let theirs = place.as_ref().map(|it| table[it]);
            assert_eq!(ours, theirs, "{name} at {at:#x}: {place:?}");
            let Some(ours) = ours else { continue };
            true_statements.insert(ours);
            let places = map.places(ours);
            let within = places.iter().filter(|it| it.contains(&StaticAddress(*at)));
            assert_eq!(within.count(), 1, "{name} at {at:#x}");
        }
        assert!(true_statements.len() >= 3, "{name}: {true_statements:?}");

        // The whole way: trace to statements of the build, by build-id.
        let mut sideband = run.sideband.clone();
        for event in &mut sideband {
            if let SidebandKind::Mapped(mapped) = &mut event.kind
                && Path::new(&mapped.path) == file
            {
                mapped.build_id = Some(build.clone());
            }
        }
        let pt = PtRecord {
            clock: Some(CLOCK),
            buffers: vec![PtBuffer {
                cpu: Some(0),
                tid: None,
                bytes: run.traces[0][0].clone(),
            }],
            sideband,
            ..PtRecord::default()
        };
        let threads = executed_statements(&pt, &InMemory(&run.image), &build, map, None).threads;
        assert_eq!(threads.len(), 1, "{name}");
        let executed: BTreeSet<_> = threads[0].executed.iter().map(|it| it.statement).collect();
        assert_eq!(executed, true_statements, "{name}");
        assert!(threads[0].complete, "{name}: {:?}", threads[0].gaps);
        assert_eq!(threads[0].instructions, count(run.only_truth()), "{name}");
    }
}

fn count(path: &[Step]) -> u64 {
    let executed = path.iter().filter(|step| matches!(step, Step::At(_)));
    executed.count() as u64
}

#[test]
fn a_block_of_another_file_has_no_statements() {
    let folder = tempfile::tempdir().unwrap();
    let program = PROGRAMS.iter().find(|it| it.name == "loops").unwrap();
    let file = compile(folder.path(), "loops", program.source, program.compiler);
    let bytes = std::fs::read(&file).unwrap();
    let line = |_: Option<&str>, _: &str, line| Some(StatementId(line));
    let map = AddressMap::read(&bytes, &BuildId(String::new()), line).unwrap();
    let mapped = MappedCode {
        start: RuntimeAddress(0x7000_0000),
        length: 4096,
        file_offset: 0x1000,
        path: "loops".to_owned(),
        build_id: None,
    };
    let mut blocks = BlockStatements::new(map.statements(), vec![mapped]);
    let block = pt_decoder::ExecutedBlock {
        start: RuntimeAddress(0x1000),
        last: RuntimeAddress(0x1004),
        instructions: 2,
    };
    assert_eq!(blocks.of(block), []);
    assert!(!blocks.owns(block.start) && blocks.owns(RuntimeAddress(0x7000_0fff)));
}
