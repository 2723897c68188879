//! Plain data to bytes and back: the small language of the stored graph.
//!
//! Numbers are LEB128, because almost all of them are small; a text is written
//! once and referred to afterwards, because a program says its few hundred file
//! and function names in every row. Nothing in it describes itself: the format
//! number of `stored` says which types are written in which order.
//!
//! Reading never trusts a length: every element takes at least one byte, so a
//! count beyond the bytes that are left is refused before anything is reserved.

use rustc_hash::FxHashMap;
use std::hash::Hash;

#[derive(Default)]
pub(crate) struct Writer {
    pub bytes: Vec<u8>,
    texts: FxHashMap<String, u32>,
}

/// What is left to read, and the texts met so far.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    texts: Vec<&'a str>,
}

/// A value that can be written and read; `None` if the bytes are not one.
pub(crate) trait Stored: Sized {
    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

impl Writer {
    pub fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// A text: 0 and the text itself, or the number of an earlier one.
    pub fn text(&mut self, text: &str) {
        if let Some(known) = self.texts.get(text) {
            self.number(u64::from(*known));
            return;
        }
        self.number(0);
        self.number(text.len() as u64);
        self.bytes.extend(text.as_bytes());
        let next = self.texts.len() as u32 + 1;
        self.texts.insert(text.to_owned(), next);
    }
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            rest: bytes,
            texts: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        match self.rest {
            [first, rest @ ..] if *first < 0x80 => {
                self.rest = rest;
                Some(u64::from(*first))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut value = 0;
        for (length, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * length);
            if *byte < 0x80 {
                self.rest = &self.rest[length + 1..];
                return Some(value);
            }
        }
        None
    }

    /// How many elements follow.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.rest.len()).then_some(count)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let known = self.number()?;
        if known > 0 {
            return self.texts.get(known as usize - 1).copied();
        }
        let length = self.count()?;
        let (text, rest) = self.rest.split_at(length);
        let text = std::str::from_utf8(text).ok()?;
        self.rest = rest;
        self.texts.push(text);
        Some(text)
    }
}

macro_rules! stored_number {
    ($($ty:ty),*) => {$(
        impl Stored for $ty {
            fn write(&self, to: &mut Writer) {
                to.number(u64::from(*self));
            }
            fn read(from: &mut Reader<'_>) -> Option<$ty> {
                <$ty>::try_from(from.number()?).ok()
            }
        }
    )*};
}
stored_number!(u32, u64);

impl Stored for u8 {
    fn write(&self, to: &mut Writer) {
        to.byte(*self);
    }
    fn read(from: &mut Reader<'_>) -> Option<u8> {
        from.byte()
    }
}

impl Stored for bool {
    fn write(&self, to: &mut Writer) {
        to.byte(u8::from(*self));
    }
    fn read(from: &mut Reader<'_>) -> Option<bool> {
        match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Stored for String {
    fn write(&self, to: &mut Writer) {
        to.text(self);
    }
    fn read(from: &mut Reader<'_>) -> Option<String> {
        from.text().map(str::to_owned)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn write(&self, to: &mut Writer) {
        to.byte(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(to);
        }
    }
    fn read(from: &mut Reader<'_>) -> Option<Option<T>> {
        match bool::read(from)? {
            true => T::read(from).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn write(&self, to: &mut Writer) {
        to.number(self.len() as u64);
        self.iter().for_each(|value| value.write(to));
    }
    fn read(from: &mut Reader<'_>) -> Option<Vec<T>> {
        let count = from.count()?;
        let mut result = Vec::with_capacity(count);
        for _ in 0..count {
            result.push(T::read(from)?);
        }
        Some(result)
    }
}

/// Written in the order of the keys, so that equal maps give equal bytes.
impl<K: Stored + Ord + Hash, V: Stored> Stored for FxHashMap<K, V> {
    fn write(&self, to: &mut Writer) {
        let mut sorted: Vec<(&K, &V)> = self.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        to.number(sorted.len() as u64);
        for (key, value) in sorted {
            key.write(to);
            value.write(to);
        }
    }
    fn read(from: &mut Reader<'_>) -> Option<FxHashMap<K, V>> {
        let count = from.count()?;
        let mut result = FxHashMap::with_capacity_and_hasher(count, Default::default());
        for _ in 0..count {
            result.insert(K::read(from)?, V::read(from)?);
        }
        Some(result)
    }
}

impl<K: Stored + Ord + Hash> Stored for rustc_hash::FxHashSet<K> {
    fn write(&self, to: &mut Writer) {
        let mut sorted: Vec<&K> = self.iter().collect();
        sorted.sort_unstable();
        to.number(sorted.len() as u64);
        sorted.into_iter().for_each(|key| key.write(to));
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Vec::<K>::read(from)?.into_iter().collect())
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
        self.1.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Option<(A, B)> {
        Some((A::read(from)?, B::read(from)?))
    }
}

/// A struct as its fields, in the order given; leaving one out does not compile.
macro_rules! stored_struct {
    ($ty:ident { $($field:ident),* $(,)? }) => {
        impl Stored for $ty {
            fn write(&self, to: &mut Writer) {
                let $ty { $($field),* } = self;
                $($field.write(to);)*
            }
            fn read(from: &mut Reader<'_>) -> Option<$ty> {
                $(let $field = Stored::read(from)?;)*
                Some($ty { $($field),* })
            }
        }
    };
}

/// An enum as the number of its variant and then the variant's fields.
macro_rules! stored_enum {
    ($ty:ident { $($tag:literal => $variant:ident $(($($item:ident),*))? $({$($field:ident),*})?),* $(,)? }) => {
        impl Stored for $ty {
            fn write(&self, to: &mut Writer) {
                match self {
                    $($ty::$variant $(($($item),*))? $({$($field),*})? => {
                        to.byte($tag);
                        $($($item.write(to);)*)?
                        $($($field.write(to);)*)?
                    })*
                }
            }
            fn read(from: &mut Reader<'_>) -> Option<$ty> {
                match from.byte()? {
                    $($tag => {
                        $($(let $item = Stored::read(from)?;)*)?
                        $($(let $field = Stored::read(from)?;)*)?
                        Some($ty::$variant $(($($item),*))? $({$($field),*})?)
                    })*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use {stored_enum, stored_struct};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back(
            numbers in prop::collection::vec(any::<u64>(), 0..20),
            texts in prop::collection::vec(".{0,6}", 0..20),
            map in prop::collection::hash_map(any::<u32>(), any::<Option<bool>>(), 0..20),
        ) {
            let map: FxHashMap<u32, Option<bool>> = map.into_iter().collect();
            let mut writer = Writer::default();
            numbers.write(&mut writer);
            texts.write(&mut writer);
            map.write(&mut writer);
            texts.write(&mut writer);
            let mut reader = Reader::new(&writer.bytes);
            prop_assert_eq!(Stored::read(&mut reader), Some(numbers));
            prop_assert_eq!(Stored::read(&mut reader), Some(texts.clone()));
            prop_assert_eq!(Stored::read(&mut reader), Some(map));
            prop_assert_eq!(Stored::read(&mut reader), Some(texts));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Vec::<(String, Option<u64>)>::read(&mut Reader::new(&bytes));
        }
    }

    #[test]
    fn a_count_beyond_the_bytes_reserves_nothing() {
        let mut writer = Writer::default();
        writer.number(u64::MAX / 2);
        assert_eq!(Vec::<u64>::read(&mut Reader::new(&writer.bytes)), None);
    }
}
