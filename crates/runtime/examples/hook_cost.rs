//! Nanoseconds per hook, with recording on and off, as one JSON document:
//! `cargo run -p runtime --example hook_cost`.
//!
//! Compiles `hook_cost.c` against the linkable runtime and runs it twice: alone,
//! where every hook finds recording off, and activated as an agent would, with an
//! account that is not kept. The difference to an empty call is the hook; two
//! rows of that same call are the A/A control.
//!
//! Deliberately absent: what hooks do to a real program (`./dev bench overhead`),
//! and watchpoint hits, whose cost `failsketch-agent doctor` measures.

use runtime::layout::{Header, MAGIC, REGION_SIZE, Region, VERSION};
use std::{
    error::Error,
    fs::{self, File},
    mem::offset_of,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::fs::FileExt,
    },
    path::Path,
    process::Command,
};

const NONCE: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("failsketch-hook-cost-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let result = measure(&folder);
    fs::remove_dir_all(&folder)?;
    println!("{}", result?);
    Ok(())
}

fn measure(folder: &Path) -> Result<String, Box<dyn Error>> {
    let object = folder.join(runtime::LINKABLE_FILE_NAME);
    fs::write(&object, runtime::LINKABLE)?;
    let program = folder.join("hook_cost");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hook_cost.c");
    let compiled = Command::new("clang-19")
        .args(["-O2", "-mno-red-zone", "-o"])
        .arg(&program)
        .arg(source)
        .arg(&object)
        .status()?;
    if !compiled.success() {
        return Err("clang-19 could not compile hook_cost.c".into());
    }
    let off = output(Command::new(&program))?;
    let region = region()?;
    let mut activated = Command::new(&program);
    activated.env(
        "FAILSKETCH_FD",
        format!("{}:{NONCE:016x}", region.as_raw_fd()),
    );
    let on = output(activated)?;
    Ok(format!("{{\"off\": {off}, \"on\": {on}}}"))
}

fn output(mut command: Command) -> Result<String, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("hook_cost ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_string())
}

/// A region as an agent makes it, inherited by the program.
fn region() -> Result<File, Box<dyn Error>> {
    // SAFETY: the name is zero-terminated.
    let fd = unsafe { libc::memfd_create(c"hook-cost".as_ptr(), libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(REGION_SIZE as u64)?;
    let put = |field: usize, bytes: &[u8]| {
        file.write_all_at(bytes, (offset_of!(Region, header) + field) as u64)
    };
    put(offset_of!(Header, magic), &MAGIC.to_le_bytes())?;
    put(offset_of!(Header, version), &VERSION.to_le_bytes())?;
    put(offset_of!(Header, nonce), &NONCE.to_le_bytes())?;
    put(
        offset_of!(Header, region_size),
        &(REGION_SIZE as u64).to_le_bytes(),
    )?;
    put(offset_of!(Header, socket), &(-1i32).to_le_bytes())?;
    // SAFETY: takes no pointers.
    let sealed = unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
    if sealed < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(file)
}
