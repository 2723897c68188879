//! Addresses of our own symbols, without a table.
//!
//! The compiler takes a symbol that assembly defines for another object's and loads its
//! address from the global offset table, in each hook. A hidden symbol is always at a
//! fixed distance from the code.

/// The address of a hidden symbol of ours.
#[macro_export]
macro_rules! own_address {
    ($symbol:literal) => {{
        let address: usize;
        // SAFETY: computes an address; the symbol is defined in the same object.
        unsafe {
            core::arch::asm!(
                concat!("lea {0}, [rip + ", $symbol, "]"),
                out(reg) address,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        address
    }};
}
