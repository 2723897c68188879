//! Bounds-checked reading of little-endian numbers out of bytes that a crashed
//! process left. What lies outside reads as zero, as a fresh region does.

/// Bytes of unknown content.
#[derive(Clone, Copy)]
pub struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        self.0
            .get(at..)
            .and_then(|rest| rest.first_chunk::<N>())
            .copied()
            .unwrap_or([0; N])
    }

    pub fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub fn i32(self, at: usize) -> i32 {
        i32::from_le_bytes(self.array(at))
    }

    pub fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    /// `length` bytes from `at`, at most `capacity`, fewer at the end.
    pub fn bytes(self, at: usize, length: u32, capacity: usize) -> &'a [u8] {
        let length = (length as usize).min(capacity);
        let rest = self.0.get(at..).unwrap_or(&[]);
        &rest[..length.min(rest.len())]
    }
}
