//! What code inside the program under diagnosis stands on: system calls, the
//! environment, the loader's list of objects, memory read through the kernel.
//!
//! The crates of this folder are the part of Failsketch that runs in a stranger's
//! process, and obey one rule: the program never fails because of us. So they use no
//! library, not even the C library: raw system calls, no allocation, no lock, no
//! thread-local storage, nothing that is unsafe in a signal handler, and no panic: what
//! is linked into a program may not refer to any symbol but its own, and the functions
//! that panic with a message would be some. That is why they count in `while` loops and
//! write through pointers where other code would index.
//!
//! They are ordinary crates, so that clippy reads every `unsafe` block, but no other
//! crate links them: `crates/runtime/build.rs` compiles their modules into two files
//! with flags of their own. For that, a `lib.rs` here has nothing but modules, and no
//! two modules of the crates have one name.
#![no_std]

pub mod environment;
pub mod interpose;
pub mod maps;
pub mod next_symbol;
pub mod own_address;
pub mod sys;
pub mod text;
