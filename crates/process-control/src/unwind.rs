//! A captured crash → the stack of the thread that crashed. Pure.
//!
//! Unwinding uses the `.eh_frame` tables of the mapped files; code in a file that
//! has none for it is followed by frame pointers. Memory without a readable file
//! behind it (the vdso, generated code) ends the stack, with the reason.

use crate::modules::Module;
use crate::region::{CrashCapture, FreedRemains};
use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, Unwinder,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use sketch_model::{StackFrame, StaticAddress, ThreadStack};
use std::{collections::BTreeSet, sync::Arc};

/// Deeper stacks are cut; runaway recursion has nothing to say below.
const MOST_FRAMES: usize = 256;

/// The crashing thread's stack, innermost frame first.
pub fn unwind(crash: &CrashCapture, modules: &[Module]) -> ThreadStack {
    let mut stack = ThreadStack {
        tid: crash.tid.0,
        frames: Vec::new(),
        truncated: None,
        waits_for: None,
    };
    let mut registers = UnwindRegsX86_64::new(crash.rip, crash.rsp(), crash.rbp());
    let mut frame = FrameAddress::from_instruction_pointer(crash.rip);

    // A call through a wild pointer: nothing is mapped there, but the call has
    // pushed where it came from.
    if !modules.iter().any(|m| m.range.contains(crash.rip)) {
        stack.frames.push(StackFrame {
            lookup: StaticAddress(crash.rip),
            module: String::new(),
        });
        let caller = crash
            .stack_word(crash.rsp())
            .filter(|address| {
                modules
                    .iter()
                    .any(|m| m.range.contains(address.wrapping_sub(1)))
            })
            .and_then(FrameAddress::from_return_address);
        let Some(caller) = caller else {
            stack.truncated = Some(format!(
                "no code is mapped at {:#x}, and the stack does not show its caller",
                crash.rip
            ));
            return stack;
        };
        registers =
            UnwindRegsX86_64::new(caller.address(), crash.rsp().wrapping_add(8), crash.rbp());
        frame = caller;
    }
    let read_stack = |address: u64| crash.stack_word(address);
    walk(&mut stack, frame, registers, &read_stack, modules);
    stack
}

/// Who called the function that freed a block, innermost frame first, as far as the kept
/// piece of the stack tells.
pub fn unwind_free(freed: &FreedRemains, modules: &[Module]) -> Vec<StackFrame> {
    let mut stack = ThreadStack {
        tid: freed.tid,
        frames: Vec::new(),
        truncated: None,
        waits_for: None,
    };
    let (at, frame) = (freed.stack_pointer, freed.frame_pointer);
    let caller = freed.stack_word(at);
    if let Some(caller) = caller.and_then(FrameAddress::from_return_address) {
        let registers = UnwindRegsX86_64::new(caller.address(), at.wrapping_add(8), frame);
        let read_stack = |address: u64| freed.stack_word(address);
        walk(&mut stack, caller, registers, &read_stack, modules);
    }
    stack.frames
}

/// Follows a stack from a frame on.
fn walk(
    stack: &mut ThreadStack,
    mut frame: FrameAddress,
    mut registers: UnwindRegsX86_64,
    read_stack: &dyn Fn(u64) -> Option<u64>,
    modules: &[Module],
) {
    let mut unwinder = UnwinderX86_64::new();
    // Which modules it has: only those that the stack leads to, so that no more are
    // read than there are frames, whatever the list of mappings says.
    let mut added = BTreeSet::new();
    let mut cache = CacheX86_64::new();
    let mut read_stack = |address: u64| read_stack(address).ok_or(());
    loop {
        let lookup = frame.address_for_lookup();
        let found = modules.iter().position(|m| m.range.contains(lookup));
        let Some((number, module)) = found.map(|number| (number, &modules[number])) else {
            stack.truncated = Some(format!("no file is mapped at {lookup:#x}"));
            return;
        };
        let Some(bias) = module.bias else {
            stack.frames.push(StackFrame {
                lookup: StaticAddress(lookup),
                module: module.range.path.clone(),
            });
            stack.truncated = Some(format!(
                "the file of {:#x} in \"{}\" could not be read",
                lookup, module.range.path
            ));
            return;
        };
        stack.frames.push(StackFrame {
            lookup: StaticAddress(lookup.wrapping_sub(bias)),
            module: module.range.path.clone(),
        });
        if stack.frames.len() == MOST_FRAMES {
            stack.truncated = Some(format!("only {MOST_FRAMES} frames are kept"));
            return;
        }
        if added.insert(number)
            && let Some(described) = described(module)
        {
            unwinder.add_module(described);
        }
        match unwinder.unwind_frame(frame, &mut registers, &mut cache, &mut read_stack) {
            Ok(Some(return_address)) => match FrameAddress::from_return_address(return_address) {
                Some(next) => frame = next,
                None => return,
            },
            Ok(None) => return,
            Err(framehop::Error::CouldNotReadStack(address)) => {
                stack.truncated = Some(format!("the captured stack does not reach {address:#x}"));
                return;
            }
            Err(error) => {
                stack.truncated = Some(error.to_string());
                return;
            }
        }
    }
}

/// What the unwinder needs of a module; `None` if its file was not read.
fn described(module: &Module) -> Option<framehop::Module<Arc<[u8]>>> {
    let (facts, bias) = (module.facts.as_ref()?, module.bias?);
    // A tracked build has code and tables of its own behind the program's.
    let appended = facts.appended.text.as_ref();
    let is_appended = appended.is_some_and(|text| {
        let start = text.start.wrapping_add(bias);
        (module.range.start..module.range.end).contains(&start)
    });
    let tables = match is_appended {
        true => &facts.appended,
        false => &facts.unwindable,
    };
    let eh_frame = tables.eh_frame.as_ref();
    // Its index serves both sets of tables, and names only one as its base: the
    // unwinder would look in the wrong one. Without it, it makes its own.
    let eh_frame_hdr = tables.eh_frame_hdr.as_ref().filter(|_| !is_appended);
    Some(framehop::Module::new(
        module.range.path.clone(),
        module.range.start..module.range.end,
        bias,
        ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: tables.text.clone(),
            eh_frame_svma: eh_frame.map(|s| s.addresses.clone()),
            eh_frame: eh_frame.map(|s| s.bytes.clone()),
            eh_frame_hdr_svma: eh_frame_hdr.map(|s| s.addresses.clone()),
            eh_frame_hdr: eh_frame_hdr.map(|s| s.bytes.clone()),
            ..Default::default()
        },
    ))
}
