//! Decoding in several threads and in bounded memory.
//!
//! The trace is read in chunks (`chunks.rs`); each thread takes the next one,
//! reduces it by the caller's function, and the results come out in the order of
//! the trace. Only so many chunks are under way at a time, so memory does not
//! grow with the trace; what the caller makes of a chunk is the caller's.
//!
//! The same path is used for one thread: fewer things to be wrong.

use crate::{
    blocks::{Blocks, ExecutionItem, TraceSetup},
    chunks::{Chunk, Chunks, LARGEST},
    image::CodeImage,
    ipt::PreparedImage,
};
use std::{
    collections::BTreeMap,
    io::{self, Read},
    num::NonZero,
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

/// Chunks under way for each thread.
const AHEAD: usize = 2;

/// One chunk's items. Offsets are those of the whole trace.
pub struct Part<'t> {
    blocks: Blocks<'t>,
    offset: u64,
    own: u64,
    last: bool,
}

impl<'t> Part<'t> {
    fn new(chunk: &'t Chunk, image: &PreparedImage<'t>, setup: TraceSetup) -> Self {
        let image = std::slice::from_ref(image);
        Self {
            blocks: Blocks::through(&chunk.bytes, image, None, setup),
            offset: chunk.offset,
            own: chunk.own as u64,
            last: chunk.last,
        }
    }
}

impl Iterator for Part<'_> {
    type Item = ExecutionItem;

    #[inline]
    fn next(&mut self) -> Option<ExecutionItem> {
        loop {
            match self.blocks.next()? {
                ExecutionItem::Gap(gap) => {
                    let next = (!self.last).then_some(self.offset + self.own);
                    if let Some(gap) = gap.of_piece(self.offset, next) {
                        return Some(ExecutionItem::Gap(gap));
                    }
                }
                item => return Some(item),
            }
        }
    }
}

/// Decodes a trace in `threads` threads. `reduce` is called with the items of
/// each chunk, `take` with what it made of them, in the order of the trace.
pub fn decode_stream<T: Send>(
    trace: impl Read,
    image: &CodeImage,
    setup: impl Into<TraceSetup>,
    threads: NonZero<usize>,
    reduce: impl Fn(&mut Part<'_>) -> T + Sync,
    take: impl FnMut(T),
) -> io::Result<()> {
    let chunks = Chunks::new(trace);
    decode_chunks(chunks, image, setup.into(), threads, reduce, take)
}

/// For tests: chunks as small as the PSBs allow.
#[doc(hidden)]
pub fn decode_stream_in_small_chunks<T: Send>(
    trace: impl Read,
    image: &CodeImage,
    setup: TraceSetup,
    threads: NonZero<usize>,
    reduce: impl Fn(&mut Part<'_>) -> T + Sync,
    take: impl FnMut(T),
) -> io::Result<()> {
    let chunks = Chunks::of_size(trace, 1);
    decode_chunks(chunks, image, setup, threads, reduce, take)
}

/// The most bytes of trace that are held at a time.
pub fn window(threads: NonZero<usize>) -> usize {
    (AHEAD * threads.get() + 2) * LARGEST
}

fn decode_chunks<R: Read, T: Send>(
    mut chunks: Chunks<R>,
    image: &CodeImage,
    setup: TraceSetup,
    threads: NonZero<usize>,
    reduce: impl Fn(&mut Part<'_>) -> T + Sync,
    mut take: impl FnMut(T),
) -> io::Result<()> {
    if threads.get() == 1 {
        let prepared = PreparedImage::new(image);
        while let Some(chunk) = chunks.next()? {
            take(reduce(&mut Part::new(&chunk, &prepared, setup)));
        }
        return Ok(());
    }
    let most = AHEAD * threads.get();
    let (give, jobs) = mpsc::sync_channel::<(u64, Chunk)>(most);
    let (done, results) = mpsc::channel::<(u64, T)>();
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        for _ in 0..threads.get() {
            let (jobs, reduce, done) = (&jobs, &reduce, done.clone());
            scope.spawn(move || {
                let prepared = PreparedImage::new(image);
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, chunk)) = job else { return };
                    let made = reduce(&mut Part::new(&chunk, &prepared, setup));
                    drop(chunk);
                    if done.send((number, made)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let (mut given, mut taken) = (0, 0);
        let mut early = BTreeMap::new();
        let mut ended = false;
        let read = loop {
            if !ended && given - taken < most as u64 {
                match chunks.next() {
                    Ok(Some(chunk)) => {
                        if give.send((given, chunk)).is_err() {
                            break Ok(());
                        }
                        given += 1;
                        continue;
                    }
                    Ok(None) => ended = true,
                    Err(error) => break Err(error),
                }
            }
            if taken == given {
                break Ok(());
            }
            // Fails only if a thread panicked, which the scope passes on.
            let Ok((number, made)) = results.recv() else {
                break Ok(());
            };
            early.insert(number, made);
            while let Some(made) = early.remove(&taken) {
                take(made);
                taken += 1;
            }
        };
        drop(give);
        read
    })
}
