//! Reads bytes that a peer wrote: nothing is taken that is not there.

/// What is left to read.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes left.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(u8::from_be_bytes)
    }

    pub(super) fn i8(&mut self) -> Option<i8> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A zigzag varint of 32 bits. Needless leading groups are accepted, as Kafka does; bits
    /// beyond the type, which Kafka drops in silence, are not.
    pub(super) fn varint(&mut self) -> Option<i32> {
        let raw = u32::try_from(self.unsigned(5)?).ok()?;
        Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// A zigzag varint of 64 bits.
    pub(super) fn varlong(&mut self) -> Option<i64> {
        let raw = self.unsigned(10)?;
        Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// Groups of seven bits, lowest first, at most `groups_max` of them.
    fn unsigned(&mut self, groups_max: u32) -> Option<u64> {
        let mut value = 0;
        for group in 0..groups_max {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shift = group * 7;
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Appends a zigzag varint of 32 bits.
pub(super) fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_varlong(out, i64::from(value));
}

/// Appends a zigzag varint of 64 bits.
pub(super) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    loop {
        let [low, ..] = raw.to_le_bytes();
        raw >>= 7;
        if raw == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_come_back(small: i32, large: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, small);
            put_varlong(&mut out, large);
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.varint(), Some(small));
            prop_assert_eq!(cursor.varlong(), Some(large));
            prop_assert!(cursor.is_empty());
        }
    }

    #[test]
    fn varints_stay_within_their_type() {
        let longest = [0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(Cursor::new(&longest).varint(), Some(i32::MIN));
        let too_large = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert_eq!(Cursor::new(&too_large).varint(), None);
        let too_long = [0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(Cursor::new(&too_long).varint(), None);
        let needless_group = [0x82, 0x00];
        assert_eq!(Cursor::new(&needless_group).varint(), Some(1));
        let mut longest = [0xff; 10];
        longest[9] = 0x01;
        assert_eq!(Cursor::new(&longest).varlong(), Some(i64::MIN));
        longest[9] = 0x03;
        assert_eq!(Cursor::new(&longest).varlong(), None);
        assert_eq!(Cursor::new(&[0x80]).varint(), None);
    }
}
