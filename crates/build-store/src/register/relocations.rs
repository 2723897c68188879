//! Which bytes of a function a linker may have changed. Pure.
//!
//! A linker writes the relocated fields, and *relaxes* some instructions
//! around them (x86-64 psABI, "Optimize GOTPCRELX Relocations" and the TLS
//! code-sequence transitions of "ELF Handling for Thread-Local Storage"). All
//! bytes of such a sequence are masked, which is generous: a difference that
//! hides entirely in relocated fields is not seen. In particular the *target*
//! of a call is not compared.

use object::elf::*;
use std::ops::Range;

/// The bytes around a relocation at `offset` that may differ after linking.
pub fn masked_bytes(relocation_type: RelocationType, offset: u64) -> Range<u64> {
    let before = |count: u64| offset.saturating_sub(count);
    match relocation_type {
        R_X86_64_NONE => offset..offset,
        R_X86_64_8 | R_X86_64_PC8 => offset..offset + 1,
        R_X86_64_16 | R_X86_64_PC16 => offset..offset + 2,
        R_X86_64_64 | R_X86_64_PC64 | R_X86_64_GOT64 | R_X86_64_GOTOFF64 | R_X86_64_GOTPC64
        | R_X86_64_GOTPCREL64 | R_X86_64_GOTPLT64 | R_X86_64_PLTOFF64 | R_X86_64_SIZE64
        | R_X86_64_DTPOFF64 | R_X86_64_TPOFF64 => offset..offset + 8,
        // Opcode, ModRM and a REX prefix before the field may be rewritten.
        R_X86_64_GOTPCRELX
        | R_X86_64_REX_GOTPCRELX
        | R_X86_64_GOTPCREL
        | R_X86_64_GOTTPOFF
        | R_X86_64_GOTPC32_TLSDESC => before(3)..offset + 4,
        R_X86_64_TLSDESC_CALL => offset..offset + 2,
        // `data16 lea x@tlsgd(%rip),%rdi; data16 data16 rex64 call`: 16 bytes.
        R_X86_64_TLSGD => before(4)..offset + 12,
        // `lea x@tlsld(%rip),%rdi; call`: 12 bytes, 13 when called through the GOT.
        R_X86_64_TLSLD => before(3)..offset + 10,
        // Everything else has a field of four bytes.
        _ => offset..offset + 4,
    }
}

/// Compares a function's bytes before and after linking, outside of `masks`.
///
/// `masks` are ranges relative to the function's start; they may reach out of it.
pub fn equal_outside(before: &[u8], after: &[u8], masks: &[Range<i64>]) -> bool {
    before.len() == after.len()
        && before
            .iter()
            .zip(after)
            .enumerate()
            .all(|(at, (left, right))| {
                left == right || masks.iter().any(|mask| mask.contains(&(at as i64)))
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masked_bytes_may_differ() {
        let masks = [2..4, -3..1];
        assert!(equal_outside(&[1, 2, 3, 4, 5], &[9, 2, 8, 8, 5], &masks));
        assert!(!equal_outside(&[1, 2, 3, 4, 5], &[1, 9, 3, 4, 5], &masks));
        assert!(!equal_outside(&[1, 2], &[1, 2, 3], &masks));
    }

    #[test]
    fn relaxable_loads_mask_their_opcode() {
        assert_eq!(masked_bytes(R_X86_64_REX_GOTPCRELX, 10), 7..14);
        assert_eq!(masked_bytes(R_X86_64_PLT32, 10), 10..14);
        assert_eq!(masked_bytes(R_X86_64_64, 0), 0..8);
        assert_eq!(masked_bytes(R_X86_64_GOTPCRELX, 1), 0..5);
    }
}
