//! All tests of the decoder, in one binary: it is linked once. None needs a process
//! of its own, since traced programs are waited for by their number.

mod any_bytes;
mod known_path;
mod mutations;
mod perf_data;
mod recordings;
mod statements;
mod threads;
mod traced;
