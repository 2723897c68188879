//! `./dev bench decoder`: our decoding, with everything mapped to statements,
//! against libipt's plain block decoder over the same trace and code. We decode
//! through libipt, too: the difference is what our part of it costs.
//!
//! The trace is a random walk through this benchmark's own code, repeated up to
//! the length that is asked for. Each measurement runs in a process of its own, so
//! that its peak memory is its own, and the two are measured in turn, so that a
//! busy machine slows both; ratios are those of one round, and the median of them
//! is shown. The whole takes at most four minutes: a round that would not fit any
//! more is left out, and the table says how many there were.
//!
//! The recordings of others come without code, so of them packets are read: by
//! libipt's packet decoder, and by the independent one that the tests use.

use formats::address_map::AddressMap;
use formats::statement_map::StatementMap;
use libipt::{
    block::BlockDecoder,
    enc_dec_builder::PtEncoderDecoder,
    image::{Image, SectionCache},
};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use pt_decoder::{BlockStatements, Blocks, CodeImage, ExecutionItem, Packets, psb_offsets};
use serde::{Deserialize, Serialize};
use sketch_model::{BuildId, MappedCode, RuntimeAddress, StatementId};
use std::{
    cell::RefCell,
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    time::{Duration, Instant},
};
use test_support::intel_pt::tracer::{
    walk::Walk,
    writer::{PtWriter, USUAL},
};

const BASE: u64 = 0x7f00_0000_0000;
/// So much is walked; the rest repeats it.
const DISTINCT: usize = 32 << 20;
/// Lengths in MB: a short one first, so that there is a table whatever the
/// machine does, then the one for speed.
const SHORT: usize = 32;
const LENGTH: usize = 256;
const ROUNDS: usize = 3;
/// No round begins that would end after this.
const LONGEST: Duration = Duration::from_secs(230);
const WAYS: [&str; 2] = ["libipt", "ours"];

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Measured {
    seconds: f64,
    /// Of processor time, of all threads: what a busy machine cannot spoil.
    cpu: f64,
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
        let map = AddressMap::read(
            &self.bytes,
            &BuildId(String::new()),
            |function, file, line| {
                let mut ids = ids.borrow_mut();
                let next = StatementId(ids.len() as u32);
                let key = (function.map(str::to_owned), file.to_owned(), line);
                Some(*ids.entry(key).or_insert(next))
            },
        );
        map.unwrap().statements().clone()
    }
}

fn generate(code: &OwnCode, to: &Path) {
    let mut writer = PtWriter::new(USUAL);
    let mut walk = Walk::new(code.image.clone(), &code.functions, 42);
    walk.write(&mut writer, DISTINCT);
    let mut trace = writer.finish();
    trace.truncate(DISTINCT);
    // A piece that can be repeated begins and ends with a PSB.
    let last = *psb_offsets(&trace).last().unwrap();
    trace.truncate(last as usize);
    fs::write(to, trace).unwrap();
}

/// A file over and over, up to a length.
fn repeated(trace: &Path, megabytes: usize) -> Vec<u8> {
    let piece = fs::read(trace).unwrap();
    let mut bytes = Vec::with_capacity(megabytes << 20);
    while bytes.len() < megabytes << 20 {
        let left = (megabytes << 20) - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(left)]);
    }
    bytes
}

fn ours(code: &OwnCode, trace: &[u8]) -> Measured {
    let map = code.map();
    let mut statements = BlockStatements::new(&map, vec![code.mapped.clone()]);
    let mut total = Measured::default();
    let since = Clock::now();
    for item in Blocks::new(trace, &code.image, None) {
        match item {
            ExecutionItem::Block(block) => {
                total.blocks += 1;
                total.instructions += u64::from(block.instructions);
                total.statements += statements.of(block).len() as u64;
            }
            ExecutionItem::Paused => {}
            ExecutionItem::Gap(_) => total.gaps += 1,
        }
    }
    (total.seconds, total.cpu) = since.passed();
    total
}

/// libipt alone: sections from a file, its section cache, its block decoder.
fn plain(code: &OwnCode, mut trace: Vec<u8>, file: &Path) -> Measured {
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
    let since = Clock::now();
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
    (total.seconds, total.cpu) = since.passed();
    total
}

/// A moment on the wall and in the process's use of processors.
struct Clock {
    wall: Instant,
    cpu: f64,
}

impl Clock {
    fn now() -> Self {
        let mut used = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes the one timespec that it is given.
        let told = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
        assert_eq!(told, 0);
        Self {
            wall: Instant::now(),
            cpu: used.tv_sec as f64 + used.tv_nsec as f64 / 1e9,
        }
    }

    fn passed(&self) -> (f64, f64) {
        (
            self.wall.elapsed().as_secs_f64(),
            Self::now().cpu - self.cpu,
        )
    }
}

fn peak_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|it| it.starts_with("VmHWM")).unwrap();
    let kb: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kb / 1024.0
}

fn measure(own: &Path, way: &str, trace: &Path, megabytes: usize) -> Measured {
    let out = Command::new(own)
        .args(["--way", way, &megabytes.to_string()])
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

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    load.split_whitespace().next().unwrap_or("?").to_owned()
}

fn outside() {
    println!("\nRecordings of others (no code with them: packets only)");
    println!(
        "| recording | bytes | packets | libipt's packets, MB/s | independent decoder, MB/s |"
    );
    println!("| --- | --- | --- | --- | --- |");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for name in ["single-thread.ptraw", "core45.ptraw", "core51.ptraw"] {
        let trace = fs::read(data.join(name)).unwrap();
        // Small files: so often that the clock can tell.
        let times = ((8 << 20) / trace.len()).max(1);
        let since = Instant::now();
        let mut packets = 0;
        for _ in 0..times {
            packets = Packets::new(&trace).count();
        }
        let ours = since.elapsed().as_secs_f64();
        let since = Instant::now();
        for _ in 0..times {
            test_support::intel_pt::second_decoder::read_by_second(&trace, true);
        }
        let second = since.elapsed().as_secs_f64();
        let speed = |seconds: f64| (trace.len() * times) as f64 / seconds / 1e6;
        println!(
            "| {name} | {} | {packets} | {:.0} | {:.0} |",
            trace.len(),
            speed(ours),
            speed(second)
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let own = std::env::current_exe().unwrap();
    if let Some(at) = arguments.iter().position(|it| it == "--way") {
        let megabytes = arguments[at + 2].parse().unwrap();
        let trace = repeated(Path::new(&arguments[at + 3]), megabytes);
        let code = OwnCode::read(&own);
        let mut measured = match arguments[at + 1].as_str() {
            "libipt" => plain(&code, trace, &own),
            _ => ours(&code, &trace),
        };
        measured.peak_mb = peak_mb();
        println!("{}", serde_json::to_string(&measured).unwrap());
        return;
    }
    let until = Instant::now() + LONGEST;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let folder = folder.join("bench");
    fs::create_dir_all(&folder).unwrap();
    let trace = folder.join("decoder.trace");
    let code = OwnCode::read(&own);
    generate(&code, &trace);
    println!(
        "generated trace of {} MB, repeated; {} KB of code; load {} at the start",
        DISTINCT >> 20,
        code.image.size() >> 10,
        load()
    );
    let (mut length, mut rounds, mut seconds_a_mb) = (SHORT, Vec::new(), 0.0);
    for megabytes in [SHORT, LENGTH, LENGTH, LENGTH] {
        let wanted = Duration::from_secs_f64(seconds_a_mb * megabytes as f64);
        if Instant::now() + wanted > until {
            break;
        }
        let since = Instant::now();
        let round = WAYS.map(|way| measure(&own, way, &trace, megabytes));
        seconds_a_mb = since.elapsed().as_secs_f64() / megabytes as f64;
        if megabytes != length {
            (length, rounds) = (megabytes, Vec::new());
        }
        rounds.push(round);
    }
    println!(
        "\nSpeed at {length} MB: medians of {} rounds of {ROUNDS}",
        rounds.len()
    );
    println!(
        "| way | s | CPU s | MB/s | M instructions/s | blocks | statements | gaps | against libipt | by CPU time | peak MB |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut rows = Vec::new();
    for (number, way) in WAYS.iter().enumerate() {
        let of = |field: fn(&Measured) -> f64| {
            median(rounds.iter().map(|it| field(&it[number])).collect())
        };
        let against = |field: fn(&Measured) -> f64| {
            let ratios = rounds.iter().map(|it| field(&it[0]) / field(&it[number]));
            median(ratios.collect())
        };
        let (seconds, it) = (of(|it| it.seconds), rounds[0][number]);
        println!(
            "| {way} | {seconds:.2} | {:.2} | {:.1} | {:.0} | {} | {} | {} | {:.2}× | {:.2}× | {:.0} |",
            of(|it| it.cpu),
            (length << 20) as f64 / seconds / 1e6,
            it.instructions as f64 / seconds / 1e6,
            it.blocks,
            it.statements,
            it.gaps,
            against(|it| it.seconds),
            against(|it| it.cpu),
            of(|it| it.peak_mb)
        );
        rows.push(serde_json::json!({
            "way": way, "seconds": seconds, "against_libipt": against(|it| it.seconds),
            "rounds": rounds.iter().map(|it| it[number]).collect::<Vec<_>>(),
        }));
    }
    outside();
    println!("\nload {} at the end", load());
    fs::remove_file(&trace).unwrap();
    let report = serde_json::json!({ "length_mb": length, "rows": rows });
    fs::write(folder.join("decoder.json"), report.to_string()).unwrap();
}
