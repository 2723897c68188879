//! `./dev bench decoder`: our decoding, with everything mapped to statements,
//! against libipt's plain block decoder over the same trace and code.
//!
//! The trace is a random walk through this benchmark's own code, at least 256 MB
//! long. Each measurement runs in a process of its own, so that its peak memory
//! is its own, and the ways are measured in turn, so that a busy machine slows
//! all of them. Figures are medians.

#[path = "../tests/support/mod.rs"]
mod support;
#[path = "../tests/tracer/mod.rs"]
mod tracer;

use libipt::{
    block::BlockDecoder,
    enc_dec_builder::PtEncoderDecoder,
    image::{Image, SectionCache},
};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use pt_decoder::{
    BlockStatements, CodeImage, ExecutionItem, StatementMap, TraceSetup, decode_stream, window,
};
use serde::{Deserialize, Serialize};
use sketch_model::{MappedCode, RuntimeAddress, StatementId};
use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{self, File},
    io::Write,
    num::NonZero,
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    time::Instant,
};
use tracer::{
    walk::Walk,
    writer::{PtWriter, USUAL},
};

const BASE: u64 = 0x7f00_0000_0000;
const DISTINCT: usize = 32 << 20;
const WHOLE: usize = 256 << 20;
const ROUNDS: usize = 3;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Measured {
    seconds: f64,
    blocks: u64,
    instructions: u64,
    /// Statements entered.
    statements: u64,
    gaps: u64,
    peak_mb: f64,
}

/// This program's code, as if it had been loaded at `BASE`.
struct OwnCode {
    bytes: Vec<u8>,
    mapped: MappedCode,
    image: CodeImage,
    functions: Vec<u64>,
}

impl OwnCode {
    fn read(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let entry = elf.entry();
        let segment = elf
            .segments()
            .find(|it| (it.address()..it.address() + it.size()).contains(&entry))
            .unwrap();
        let (offset, length) = segment.file_range();
        let address = segment.address();
        let code = &bytes[offset as usize..(offset + length) as usize];
        let mut image = CodeImage::new();
        image.add(RuntimeAddress(BASE), code).unwrap();
        let functions = elf
            .symbols()
            .filter(|it| it.kind() == SymbolKind::Text && it.size() > 0)
            .filter(|it| (address..address + length).contains(&it.address()))
            .map(|it| it.address() - address + BASE)
            .collect();
        let mapped = MappedCode {
            start: RuntimeAddress(BASE),
            length,
            file_offset: offset,
            path: "bench".to_owned(),
            build_id: None,
        };
        Self {
            mapped,
            image,
            functions,
            bytes,
        }
    }

    fn map(&self) -> StatementMap {
        let ids = RefCell::new(HashMap::new());
        StatementMap::new(&self.bytes, |function, file, line| {
            let mut ids = ids.borrow_mut();
            let next = StatementId(ids.len() as u32);
            let key = (function.map(str::to_owned), file.to_owned(), line);
            Some(*ids.entry(key).or_insert(next))
        })
        .unwrap()
    }
}

fn generate(code: &OwnCode, to: &Path) -> u64 {
    let mut writer = PtWriter::new(USUAL);
    let mut walk = Walk::new(code.image.clone(), &code.functions, 42);
    walk.write(&mut writer, DISTINCT);
    let trace = writer.finish();
    let mut file = File::create(to).unwrap();
    let mut written = 0;
    while written < WHOLE {
        file.write_all(&trace).unwrap();
        written += trace.len();
    }
    written as u64
}

fn ours(code: &OwnCode, trace: &Path, threads: usize) -> Measured {
    let map = code.map();
    let threads = NonZero::new(threads).unwrap();
    let mut total = Measured::default();
    let since = Instant::now();
    thread_local! {
        static STATEMENTS: RefCell<Option<BlockStatements<'static>>> = const { RefCell::new(None) };
    }
    let map: &'static StatementMap = Box::leak(Box::new(map));
    decode_stream(
        File::open(trace).unwrap(),
        &code.image,
        TraceSetup::default(),
        threads,
        |part| {
            STATEMENTS.with_borrow_mut(|kept| {
                let of_block = kept
                    .get_or_insert_with(|| BlockStatements::new(map, vec![code.mapped.clone()]));
                let mut part_total = Measured::default();
                for item in part {
                    match item {
                        ExecutionItem::Block(block) => {
                            part_total.blocks += 1;
                            part_total.instructions += u64::from(block.instructions);
                            part_total.statements += of_block.of(block).len() as u64;
                        }
                        ExecutionItem::Paused => {}
                        ExecutionItem::Gap(_) => part_total.gaps += 1,
                    }
                }
                part_total
            })
        },
        |part| {
            total.blocks += part.blocks;
            total.instructions += part.instructions;
            total.statements += part.statements;
            total.gaps += part.gaps;
        },
    )
    .unwrap();
    total.seconds = since.elapsed().as_secs_f64();
    total
}

/// libipt alone: sections from a file, its section cache, its block decoder.
fn plain(code: &OwnCode, trace: &Path, file: &Path) -> Measured {
    let mut trace = fs::read(trace).unwrap();
    let mut cache = SectionCache::new(None).unwrap();
    cache.set_limit(512 << 20).unwrap();
    let mapped = &code.mapped;
    let id = cache
        .add_file(
            file.to_str().unwrap(),
            mapped.file_offset,
            mapped.length,
            BASE,
        )
        .unwrap();
    let mut image = Image::new(None).unwrap();
    image.add_cached(Rc::new(cache), id, None).unwrap();
    let builder = BlockDecoder::builder();
    // SAFETY: the buffer outlives the decoder and is not touched meanwhile.
    let builder = unsafe { builder.buffer_from_raw(trace.as_mut_ptr(), trace.len()) };
    let mut decoder: BlockDecoder<'_> = builder.build().unwrap();
    decoder.set_image(Some(&mut image)).unwrap();
    let mut total = Measured::default();
    let since = Instant::now();
    let mut status = decoder.sync_forward().ok();
    while let Some(known) = status {
        let next = if known.event_pending() {
            decoder.event().map(|(_, status)| status)
        } else {
            decoder.decode_next().map(|(block, status)| {
                total.blocks += 1;
                total.instructions += u64::from(block.ninsn());
                status
            })
        };
        status = match next {
            Ok(status) => Some(status),
            Err(_) => {
                total.gaps += 1;
                decoder.sync_forward().ok()
            }
        };
    }
    total.seconds = since.elapsed().as_secs_f64();
    total
}

fn peak_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|it| it.starts_with("VmHWM")).unwrap();
    let kb: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kb / 1024.0
}

fn measure(own: &Path, way: &str, trace: &Path) -> Measured {
    let out = Command::new(own)
        .args(["--way", way])
        .arg(trace)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).unwrap()
}

fn median(of: &[Measured]) -> Measured {
    let mut sorted = of.to_vec();
    sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    sorted[sorted.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let own = std::env::current_exe().unwrap();
    if let Some(at) = arguments.iter().position(|it| it == "--way") {
        let trace = PathBuf::from(&arguments[at + 2]);
        let code = OwnCode::read(&own);
        let mut measured = match arguments[at + 1].as_str() {
            "libipt" => plain(&code, &trace, &own),
            "ours-1" => ours(&code, &trace, 1),
            _ => ours(&code, &trace, 2),
        };
        measured.peak_mb = peak_mb();
        println!("{}", serde_json::to_string(&measured).unwrap());
        return;
    }
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let folder = folder.join("bench");
    fs::create_dir_all(&folder).unwrap();
    let trace = folder.join("decoder.trace");
    let code = OwnCode::read(&own);
    let bytes = generate(&code, &trace);
    let ways = ["libipt", "ours-1", "ours-2"];
    let mut all: HashMap<&str, Vec<Measured>> = HashMap::new();
    for _ in 0..ROUNDS {
        for way in ways {
            all.entry(way).or_default().push(measure(&own, way, &trace));
        }
    }
    fs::remove_file(&trace).unwrap();
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    println!(
        "{} MB of generated trace, {} KB of code, median of {ROUNDS}; load {}",
        bytes >> 20,
        code.image.size() >> 10,
        load.split_whitespace().next().unwrap_or("?")
    );
    println!(
        "| way | s | MB/s | M instructions/s | blocks | statements | gaps | against libipt | peak MB |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let base = median(&all["libipt"]).seconds;
    let mut rows = Vec::new();
    for way in ways {
        let it = median(&all[way]);
        println!(
            "| {way} | {:.2} | {:.1} | {:.0} | {} | {} | {} | {:.2}× | {:.0} |",
            it.seconds,
            bytes as f64 / it.seconds / 1e6,
            it.instructions as f64 / it.seconds / 1e6,
            it.blocks,
            it.statements,
            it.gaps,
            base / it.seconds,
            it.peak_mb
        );
        rows.push(serde_json::json!({
            "way": way, "median": it, "all": all[way], "against_libipt": base / it.seconds,
        }));
    }
    let window = window(const { NonZero::new(2).unwrap() }) >> 20;
    println!("window: at most {window} MB of trace at a time, however long it is");
    let report = serde_json::json!({ "trace_bytes": bytes, "rows": rows });
    fs::write(folder.join("decoder.json"), report.to_string()).unwrap();
}
