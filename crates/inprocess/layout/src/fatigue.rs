//! Which threads have had enough of which sites: the first thing that a hook looks at.
//!
//! A site has several *doors* into the recorder: one for the time of an access, and one
//! for each thing that it may have to say. A thread that has gone through a door often
//! enough tires of it. Then the code that the instrumenter puts into the program compares
//! the thread's id with a word and goes on: nothing else of the hook is executed. Doors
//! apart, because what is rare must be recorded however hot the site is: the one null
//! pointer after a million others, a loop's last test.
//!
//! Each thread tires for itself. The words have room for [`OWNERS`] threads a door; for
//! more of them the runtime looks into [`crate::ThreadSlot::tired`], which costs a few
//! nanoseconds.
//!
//! The agent wakes everybody now and then: it clears the words and counts
//! [`crate::Control::wakings`] up.

/// Sites that threads can tire of: those with lower numbers. Hooks of others do not look
/// here.
pub const TIRING_SITES: usize = 1024;
/// Of an access: its clock readings. Of a call: that it is reached, and its values.
pub const DOOR_CLOCK: usize = 0;
/// The access saw a value above zero, by its size.
pub const DOOR_POSITIVE: usize = 1;
/// It saw zero.
pub const DOOR_ZERO: usize = 2;
/// It saw a value below zero.
pub const DOOR_NEGATIVE: usize = 3;
/// Outcome 0 of a branch; outcome 1 has the next door.
pub const DOOR_OUTCOME: usize = 1;
/// A power of two.
pub const DOORS: usize = 4;
/// Threads of which the words tell that they are tired.
pub const OWNERS: usize = 2;

/// By site, door and owner: the id of a thread that is tired; zero for none.
#[repr(C, align(4096))]
pub struct Fatigue {
    pub tired: [[[u32; OWNERS]; DOORS]; TIRING_SITES],
}

/// What [`crate::ThreadSlot::tired`] holds of a door while this is [`crate::Control::wakings`].
pub const fn mark_of(wakings: u32) -> u8 {
    wakings as u8
}

/// The next number of wakings: one whose mark is not that of a fresh slot.
pub const fn next_waking(wakings: u32) -> u32 {
    let next = wakings.wrapping_add(1);
    if mark_of(next) == 0 {
        next.wrapping_add(1)
    } else {
        next
    }
}
