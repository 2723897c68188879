//! The compiler wrapper: exactly clang-19, plus debug info and embedded bitcode.
//!
//! A call that compiles gets `-g` and `-Xclang -fembed-bitcode=all`; afterwards
//! the sections that clang wrote are renamed in place, because GNU `ar` and
//! `nm` with an LLVM plugin take `.llvmbc` for link-time optimisation and lose
//! the symbol index. A linked file also gets its link line, in a section
//! appended after the link. Every other call *becomes* clang by `exec`.
//!
//! The code is that of `clang-19 -g` with the same flags. That is nearly always,
//! but not always, the code without `-g`: clang gives every loop its location
//! as metadata then, and simplifies a few loops otherwise.
//!
//! Exit status, standard output and standard error are clang's own; build
//! systems probe them.

mod call;
mod response_file;
mod spawn;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use build_store::link::record::{Driver, LINK_SECTION, LinkRecord};

use self::call::{PlannedCall, plan_call};
use formats::elf_edit::{EditError, ElfEditor, is_regular_file};

/// The names a section gets, by the names clang gives it.
const RENAMED: [(&str, &str); 2] = [
    (".llvmbc", ".failsketch.bc"),
    (".llvmcmd", ".failsketch.cmd"),
];

/// Is this process called as a compiler? Then: which one, and with what arguments.
pub fn compiler_call(words: Vec<OsString>) -> Option<(Driver, Vec<OsString>)> {
    let mut words = words.into_iter();
    let program = words.next()?;
    let name = Path::new(&program).file_name()?.to_str()?;
    match name {
        "failsketch-cc" => return Some((Driver::C, words.collect())),
        "failsketch-c++" | "failsketch-cxx" => return Some((Driver::Cxx, words.collect())),
        _ => {}
    }
    match words.next()?.to_str()? {
        "cc" => Some((Driver::C, words.collect())),
        "c++" => Some((Driver::Cxx, words.collect())),
        _ => None,
    }
}

/// Runs the compiler. Returns its exit status, dies of its signal, or is replaced by it.
pub fn run(driver: Driver, arguments: Vec<OsString>) -> ExitCode {
    let Some((call, expanded)) = plan(&arguments) else {
        return spawn::become_compiler(driver, &arguments);
    };
    let mut with_additions = arguments;
    with_additions.splice(
        call.insert_at..call.insert_at,
        call.additions.iter().map(OsString::from),
    );
    if let Err(status) = spawn::run_compiler(driver, &with_additions) {
        return status;
    }
    let record = call.links.then(|| LinkRecord {
        driver,
        directory: std::env::current_dir()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        arguments: expanded,
    });
    for output in &call.outputs {
        if let Err(error) = finish_output(output, record.as_ref()) {
            eprintln!(
                "failsketch: {} could not be completed: {error}",
                output.display()
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// What to do with a call, and its arguments with response files expanded;
/// `None` if it goes to clang as it is.
fn plan(arguments: &[OsString]) -> Option<(PlannedCall, Vec<String>)> {
    // A name that is not UTF-8 could not be recorded faithfully.
    let words: Vec<String> = arguments
        .iter()
        .map(|word| word.to_str().map(str::to_string))
        .collect::<Option<_>>()?;
    let expanded = response_file::expand(&words);
    Some((plan_call(&words, &expanded)?, expanded))
}

/// Renames the sections of an output, and adds its link line if it was linked.
fn finish_output(path: &Path, record: Option<&LinkRecord>) -> Result<(), EditError> {
    if !is_regular_file(path) {
        return Ok(());
    }
    let Some(mut elf) = ElfEditor::open(path)? else {
        return Ok(());
    };
    elf.rename_sections(&RENAMED)?;
    if let Some(record) = record
        && elf.is_linked()
        && elf.has_section(RENAMED[0].1)
        && !elf.has_section(LINK_SECTION)
    {
        elf.append_section(LINK_SECTION, &record.to_bytes())?;
    }
    Ok(())
}
