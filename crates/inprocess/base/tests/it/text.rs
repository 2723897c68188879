//! The program's memory is read without trust.

use inprocess_base::text::{copy_text, half_word, is_text, word};

#[test]
fn an_address_that_is_not_there_is_no_word() {
    assert_eq!(word(8), None);
    assert_eq!(half_word(u64::MAX - 1), None);
    let there = 0x0123_4567_89ab_cdef_u64;
    assert_eq!(word(&raw const there as u64), Some(there));
    assert_eq!(half_word(&raw const there as u64), Some(0x89ab_cdef));
}

#[test]
fn a_text_ends_with_its_terminator_or_with_the_room_for_it() {
    let text = c"a text that is longer than the room for it";
    let at = text.as_ptr() as u64;
    let mut into = [0xff_u8; 64];
    // SAFETY: the array has as many bytes as said.
    let whole = unsafe { copy_text(into.as_mut_ptr(), 64, at) };
    assert_eq!(&into[..whole as usize], text.to_bytes());
    // SAFETY: as above.
    let cut = unsafe { copy_text(into.as_mut_ptr(), 6, at) };
    assert_eq!(&into[..cut as usize], b"a text");
    assert!(is_text(
        c"St11logic_error".as_ptr() as u64,
        b"St11logic_error"
    ));
    assert!(!is_text(
        c"St11logic_errors".as_ptr() as u64,
        b"St11logic_error"
    ));
    assert!(!is_text(16, b"x"));
}
