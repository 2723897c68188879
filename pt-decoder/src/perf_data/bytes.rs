//! Little-endian numbers and strings at places that may not exist.

/// `None` wherever the bytes end too early.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let slice = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(slice.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let slice = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(slice.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let slice = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(slice.try_into().ok()?))
}

/// An offset and a size, eight bytes each, and what they delimit.
pub(super) fn section_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let offset = usize::try_from(u64_at(bytes, at)?).ok()?;
    let size = usize::try_from(u64_at(bytes, at.checked_add(8)?)?).ok()?;
    bytes.get(offset..offset.checked_add(size)?)
}

/// A string of perf's headers: a length, then text filled up with nulls; and
/// how many bytes it takes.
pub(super) fn string_at(bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let length = u32_at(bytes, at)? as usize;
    let from = at.checked_add(4)?;
    let text = bytes.get(from..from.checked_add(length)?)?;
    Some((text_of(text), length.checked_add(4)?))
}

/// Text up to the first null.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
