//! The clones' unwind entries once more, in the form that debuggers look for.
//!
//! gdb reads one section `.eh_frame`, which is P's, and besides it
//! `.debug_frame` (DWARF 5, 6.4). The two forms differ in how entries point to
//! what they have in common and to code; the rules are the same. Goes into the
//! server's full file only.

use formats::cursor::{i32_at, u32_at};
use std::collections::HashMap;

/// What functions have in common.
struct Common {
    /// Where it stands in the output.
    at: u64,
    has_augmentation: bool,
}

/// Converts relocated `.eh_frame` bytes that stand at `address`; the output goes
/// behind `base` bytes of P's own. Entries of another form than clang's are left out.
pub fn convert(unwind: &[u8], address: u64, base: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut commons: HashMap<usize, Common> = HashMap::new();
    let mut at = 0;
    while let (Some(length), Some(id)) = (u32_at(unwind, at), u32_at(unwind, at + 4)) {
        let end = at + 4 + length as usize;
        let Some(body) = unwind.get(at + 8..end).filter(|_| length > 4) else {
            break;
        };
        if id == 0 {
            if let Some((entry, has_augmentation)) = common(body) {
                let place = base + out.len() as u64;
                commons.insert(
                    at,
                    Common {
                        at: place,
                        has_augmentation,
                    },
                );
                push(&mut out, u32::MAX, &entry);
            }
        } else if let Some(common) = (at + 4)
            .checked_sub(id as usize)
            .and_then(|common| commons.get(&common))
        {
            let start = address + at as u64 + 8;
            if let Some(entry) = function(body, start, common.has_augmentation) {
                push(&mut out, common.at as u32, &entry);
            }
        }
        at = end;
    }
    out
}

fn push(out: &mut Vec<u8>, id: u32, body: &[u8]) {
    // Padding is the rule that does nothing.
    let length = (8 + body.len()).next_multiple_of(8) - 4;
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(body);
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Version, no augmentation, factors and column as they were, rules.
fn common(body: &[u8]) -> Option<(Vec<u8>, bool)> {
    let (version, rest) = body.split_first()?;
    let end = rest.iter().position(|b| *b == 0)?;
    let (augmentation, mut rest) = rest.split_at(end);
    rest = &rest[1..];
    // clang's factors and column are one byte each.
    let numbers = rest.get(..3).filter(|n| n.iter().all(|b| b & 0x80 == 0))?;
    let has_augmentation = augmentation.first() == Some(&b'z');
    let rules = match has_augmentation {
        true => rest.get(4 + usize::from(*rest.get(3)?)..)?,
        false => rest.get(3..)?,
    };
    let mut entry = vec![*version, 0];
    entry.extend_from_slice(numbers);
    entry.extend_from_slice(rules);
    Some((entry, has_augmentation))
}

fn function(body: &[u8], start: u64, has_augmentation: bool) -> Option<Vec<u8>> {
    let code = start.wrapping_add_signed(i32_at(body, 0)?.into());
    let size = u64::from(u32_at(body, 4)?);
    let rules = match has_augmentation {
        true => body.get(9 + usize::from(*body.get(8)?)..)?,
        false => body.get(8..)?,
    };
    let mut entry = code.to_le_bytes().to_vec();
    entry.extend_from_slice(&size.to_le_bytes());
    entry.extend_from_slice(rules);
    Some(entry)
}
