//! Reading what a peer sent, without believing it.

use felix_core::limits::REQUEST_ELEMENTS_MAX;
use std::fmt;
use std::ops::Range;

/// Why bytes are not the request they claim to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Position in the frame at which reading stopped.
    pub at: usize,
    /// What was wrong there.
    pub fault: Fault,
}

/// What was wrong with a peer's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The frame ends inside a field.
    Truncated {
        /// Bytes the field has.
        needed: usize,
        /// Bytes that were left.
        left: usize,
    },
    /// A length or count below -1, or -1 (null) where the field cannot be null.
    NegativeLength(i32),
    /// An array declares more elements than bytes remain, and no element is empty.
    Count {
        /// Elements declared.
        count: usize,
        /// Bytes that were left.
        left: usize,
    },
    /// The arrays of one request declare more than [`REQUEST_ELEMENTS_MAX`] elements in all.
    Elements,
    /// A string is not UTF-8.
    Utf8,
    /// A variable-length integer does not fit 32 bits.
    Varint,
    /// The request is complete and bytes are left over.
    Trailing(usize),
    /// The API has no layout for this version.
    Version(i16),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, left } => {
                write!(
                    f,
                    "truncated: a field of {needed} bytes where {left} are left"
                )
            }
            Self::NegativeLength(-1) => write!(f, "null where the field cannot be null"),
            Self::NegativeLength(length) => write!(f, "negative length {length}"),
            Self::Count { count, left } => {
                write!(
                    f,
                    "an array of {count} elements where {left} bytes are left"
                )
            }
            Self::Elements => {
                write!(
                    f,
                    "more than {REQUEST_ELEMENTS_MAX} array elements in one request"
                )
            }
            Self::Utf8 => write!(f, "a string that is not UTF-8"),
            Self::Varint => write!(f, "a variable-length integer of more than 32 bits"),
            Self::Trailing(left) => write!(f, "{left} bytes left over after the request"),
            Self::Version(version) => write!(f, "no layout for version {version}"),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed request at byte {}: {}", self.at, self.fault)
    }
}

impl std::error::Error for DecodeError {}

/// A checked reader over one request frame.
///
/// Strings, bytes and arrays have two encodings on the wire: classic, and compact in the flexible
/// versions (KIP-482). Which one is meant is a property of the whole body, so the cursor remembers
/// it from [`RequestHeader::decode`](super::RequestHeader::decode) on.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
    flexible: bool,
    elements_left: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of a frame, the length prefix not included.
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Self {
        Self {
            rest: frame,
            at: 0,
            flexible: false,
            elements_left: REQUEST_ELEMENTS_MAX,
        }
    }

    /// Bytes of the frame read so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes of the frame not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// From here on read compact encodings and tagged fields (`flexible`), or classic ones.
    pub(super) fn begin_body(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    /// An error at this place.
    pub(super) fn error(&self, fault: Fault) -> DecodeError {
        DecodeError { at: self.at, fault }
    }

    /// As [`finish`](Self::finish), but forgives up to `surplus_max` bytes left over.
    ///
    /// # Errors
    /// More are left over.
    pub fn finish_forgiving(&self, surplus_max: usize) -> Result<(), DecodeError> {
        if self.rest.len() <= surplus_max {
            Ok(())
        } else {
            self.finish()
        }
    }

    /// Ends the request: every byte must have been read.
    ///
    /// # Errors
    /// Bytes are left over.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.error(Fault::Trailing(self.rest.len())))
        }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.error(Fault::Truncated {
                needed: count,
                left: self.rest.len(),
            }));
        };
        self.rest = rest;
        self.at += count;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(self.error(Fault::Truncated {
                needed: N,
                left: self.rest.len(),
            }));
        };
        self.rest = rest;
        self.at += N;
        Ok(*taken)
    }

    /// A byte, non-zero for true.
    ///
    /// # Errors
    /// The frame ends.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.i8()? != 0)
    }

    /// A signed 8-bit integer.
    ///
    /// # Errors
    /// The frame ends.
    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        self.fixed().map(i8::from_be_bytes)
    }

    /// A signed 16-bit integer.
    ///
    /// # Errors
    /// The frame ends.
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.fixed().map(i16::from_be_bytes)
    }

    /// A signed 32-bit integer.
    ///
    /// # Errors
    /// The frame ends.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.fixed().map(i32::from_be_bytes)
    }

    /// A signed 64-bit integer.
    ///
    /// # Errors
    /// The frame ends.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.fixed().map(i64::from_be_bytes)
    }

    /// A UUID.
    ///
    /// # Errors
    /// The frame ends.
    pub fn uuid(&mut self) -> Result<u128, DecodeError> {
        self.fixed().map(u128::from_be_bytes)
    }

    /// An unsigned integer of one to five bytes, seven bits each, the lowest first.
    ///
    /// # Errors
    /// The frame ends, or the number does not fit 32 bits.
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0_u32;
        for shift in [0_u32, 7, 14, 21, 28] {
            let [byte] = self.fixed::<1>()?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error(Fault::Varint))
    }

    /// A string that may be null, in the classic encoding whatever the version: the client id.
    ///
    /// # Errors
    /// The frame ends, the length is negative, or the bytes are not UTF-8.
    pub fn classic_nullable_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        match i32::from(self.i16()?) {
            -1 => Ok(None),
            length => {
                let length = self.length(length)?;
                self.utf8(length).map(Some)
            }
        }
    }

    /// A string that may be null.
    ///
    /// # Errors
    /// The frame ends, the length is negative, or the bytes are not UTF-8.
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        if !self.flexible {
            return self.classic_nullable_string();
        }
        match self.compact_length()? {
            None => Ok(None),
            Some(length) => self.utf8(length).map(Some),
        }
    }

    /// A string.
    ///
    /// # Errors
    /// The frame ends, the string is null or its length negative, or the bytes are not UTF-8.
    pub fn string(&mut self) -> Result<&'a str, DecodeError> {
        self.nullable_string()?
            .ok_or_else(|| self.error(Fault::NegativeLength(-1)))
    }

    /// The place in the frame of bytes that may be null.
    ///
    /// # Errors
    /// The frame ends, or the length is negative.
    pub fn nullable_bytes(&mut self) -> Result<Option<Range<usize>>, DecodeError> {
        let Some(length) = self.declared()? else {
            return Ok(None);
        };
        let start = self.at;
        self.take(length)?;
        Ok(Some(start..self.at))
    }

    /// An array that may be null. `read` reads one element, which has at least one byte.
    ///
    /// # Errors
    /// As for [`Cursor::array`], null excepted.
    pub fn nullable_array<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.declared()? else {
            return Ok(None);
        };
        let left = self.rest.len();
        if count > left {
            return Err(self.error(Fault::Count { count, left }));
        }
        let Some(elements_left) = self.elements_left.checked_sub(count) else {
            return Err(self.error(Fault::Elements));
        };
        self.elements_left = elements_left;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Ok(Some(elements))
    }

    /// An array. `read` reads one element, which has at least one byte.
    ///
    /// # Errors
    /// The frame ends, the array is null or its count negative or greater than the bytes left, the
    /// request has too many elements, or `read` fails.
    pub fn array<T>(
        &mut self,
        read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        self.nullable_array(read)?
            .ok_or_else(|| self.error(Fault::NegativeLength(-1)))
    }

    /// Skips tagged fields, which end every structure of a flexible version. None of those that the
    /// served versions define changes what we answer.
    ///
    /// # Errors
    /// The frame ends.
    pub fn tagged_fields(&mut self) -> Result<(), DecodeError> {
        if !self.flexible {
            return Ok(());
        }
        // No bound beside the bytes is needed: each field has two bytes or more, and none is kept.
        for _ in 0..self.uvarint()? {
            self.uvarint()?;
            let length = self.uvarint()?;
            self.take(self.size(length)?)?;
        }
        Ok(())
    }

    /// The length of bytes or count of an array, `None` for null.
    fn declared(&mut self) -> Result<Option<usize>, DecodeError> {
        if self.flexible {
            return self.compact_length();
        }
        match self.i32()? {
            -1 => Ok(None),
            length => self.length(length).map(Some),
        }
    }

    /// A compact length: one more than the value, so that 0 is null.
    fn compact_length(&mut self) -> Result<Option<usize>, DecodeError> {
        match self.uvarint()?.checked_sub(1) {
            None => Ok(None),
            Some(length) => self.size(length).map(Some),
        }
    }

    fn length(&self, declared: i32) -> Result<usize, DecodeError> {
        usize::try_from(declared).map_err(|_| self.error(Fault::NegativeLength(declared)))
    }

    fn size(&self, declared: u32) -> Result<usize, DecodeError> {
        // Never fails where a pointer has 32 bits or more.
        usize::try_from(declared).map_err(|_| self.error(Fault::Varint))
    }

    fn utf8(&mut self, length: usize) -> Result<&'a str, DecodeError> {
        let at = self.at;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| DecodeError {
            at,
            fault: Fault::Utf8,
        })
    }
}
