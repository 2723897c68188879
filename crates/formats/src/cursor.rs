//! Little-endian numbers and text at places that may not exist.

/// `None` wherever the bytes end too early.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

pub fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array_at(bytes, at).map(i32::from_le_bytes)
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// What an entry of a table delimits in a file: an offset and a size, eight bytes each.
pub fn section_at<'b>(file: &'b [u8], table: &[u8], at: usize) -> Option<&'b [u8]> {
    let offset = usize::try_from(u64_at(table, at)?).ok()?;
    let size = usize::try_from(u64_at(table, at.checked_add(8)?)?).ok()?;
    file.get(offset..offset.checked_add(size)?)
}

/// Text up to the first null, or to the end.
pub fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Reads fields from the front, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'b>(pub &'b [u8]);

impl<'b> Cursor<'b> {
    pub fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u32(&mut self) -> Option<u32> {
        u32_at(self.bytes(4)?, 0)
    }

    pub fn u64(&mut self) -> Option<u64> {
        u64_at(self.bytes(8)?, 0)
    }
}
