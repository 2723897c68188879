//! The code that leads into the appended segment.
//!
//! A hooked function of P begins with a jump to its *gate*, which looks at the
//! runtime's switch and runs on into the *plain* clone, in front of whose first
//! instruction it stands: with recording off a call costs a jump, a comparison
//! and a branch that is not taken, on one more line of the instruction cache than P.
//! With recording on the gate goes to its *annex*, which asks what else must be
//! true and jumps to the tracked clone.
//!
//! The plain clone is P's code of the function at another place: so nothing of the
//! overwritten instructions has to be rewritten, a crash in them has its unwind
//! entries and debug info, and jumps within the function cannot lead into the
//! overwritten bytes. What is left of the function in P is never executed.
//!
//! The runtime is activated by the first of the program's initialisers (psABI
//! and gABI, `.init_array`): the slot's function is replaced by a few
//! instructions that call the runtime with the same arguments and then go on to
//! the function that was there. By then the C library works, also in a static
//! program, and no constructor of the program has run.

use super::Image;
use crate::clones::code::bind::Entered;
use crate::clones::refusal::Refusal;

/// The room that clones have in front of them.
pub const GATE_SIZE: u64 = QUESTION_SIZE;
pub const ANNEX_SIZE: u64 = 32;
pub const INITIALISER_SIZE: u64 = 32;
const JUMP_SIZE: u64 = 5;
/// `endbr64`, where indirect calls must land on processors that check it.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Writes the gate in front of the `plain` clone and its annex, which go on to the
/// tracked clone if both flags are set; answers where to enter. Processor flags are
/// free at a function's entry, and no register is touched: arguments, the count of
/// vector registers in `al` and a static chain arrive unchanged.
pub fn write_gate(
    image: &mut Image,
    annex: u64,
    [switch, mark]: [u64; 2],
    tracked: u64,
    plain: u64,
) -> Result<u64, Refusal> {
    let gate = plain - GATE_SIZE;
    let has_room = has_room(image, plain);
    let mut at = annex;
    if has_room {
        write_question(image, gate, switch, IS_SET, annex)?;
    } else {
        write_question(image, at, switch, IS_CLEAR, plain)?;
        at += QUESTION_SIZE;
    }
    write_question(image, at, mark, IS_CLEAR, plain)?;
    at += QUESTION_SIZE;
    image.write(at, &[0xe9])?; // jmp tracked
    image.write_distance(at + 1, at + 5, tracked)?;
    at += 5;
    let rest = (annex + ANNEX_SIZE).saturating_sub(at) as usize;
    image.write(at, &vec![0xcc; rest])?;
    Ok(if has_room { gate } else { annex })
}

/// Whether there is room for a gate in front of a clone. Functions that share a
/// section, such as initialisers of C++, have none.
pub fn has_room(image: &Image, clone: u64) -> bool {
    let room = image.read(clone - GATE_SIZE, GATE_SIZE as usize);
    room.is_some_and(|room| room.iter().all(|byte| *byte == 0))
}

const QUESTION_SIZE: u64 = 13;
const IS_CLEAR: u8 = 0x84;
const IS_SET: u8 = 0x85;

/// `cmp dword ptr [flag], 0` and a jump to `target` if that is as said.
fn write_question(
    image: &mut Image,
    at: u64,
    flag: u64,
    answer: u8,
    target: u64,
) -> Result<(), Refusal> {
    image.write(at, &[0x83, 0x3d, 0, 0, 0, 0, 0, 0x0f, answer])?;
    image.write_distance(at + 2, at + 7, flag)?;
    image.write_distance(at + 9, at + 13, target)
}

/// How the stack grows in the initialiser, for unwinding: `DW_CFA_advance_loc`
/// and `DW_CFA_def_cfa_offset` in turn.
pub const INITIALISER_FRAME: [u8; 18] = [
    0x41, 0x0e, 16, 0x41, 0x0e, 24, 0x41, 0x0e, 32, 0x46, 0x0e, 24, 0x41, 0x0e, 16, 0x41, 0x0e, 8,
];

pub fn write_initialiser(
    image: &mut Image,
    at: u64,
    constructor: u64,
    replaced: u64,
) -> Result<(), Refusal> {
    const CODE: [u8; 16] = [
        0x57, 0x56, 0x52, // push rdi, rsi, rdx
        0xe8, 0, 0, 0, 0, // call constructor
        0x5a, 0x5e, 0x5f, // pop rdx, rsi, rdi
        0xe9, 0, 0, 0, 0, // jmp replaced
    ];
    image.write(at, &CODE)?;
    image.write_distance(at + 4, at + 8, constructor)?;
    image.write_distance(at + 12, at + 16, replaced)?;
    image.write(at + 16, &[0xcc; INITIALISER_SIZE as usize - 16])
}

/// The jump that goes into P: its address and bytes. `code` is the function and
/// the padding behind it.
pub fn jump_from(
    function: &Entered,
    code: &[u8],
    target: u64,
) -> Result<(u64, [u8; JUMP_SIZE as usize]), Refusal> {
    let skipped = if code.starts_with(&LANDING) { 4 } else { 0 };
    if (code.len() as u64) < skipped + JUMP_SIZE {
        return Err(Refusal::TooShort {
            function: function.name.clone(),
            size: function.size,
        });
    }
    let at = function.address + skipped;
    let distance = target.wrapping_sub(at + JUMP_SIZE) as i64;
    let distance = i32::try_from(distance).map_err(|_| Refusal::OutOfReach {
        what: function.name.clone(),
    })?;
    let [a, b, c, d] = distance.to_le_bytes();
    Ok((at, [0xe9, a, b, c, d]))
}
