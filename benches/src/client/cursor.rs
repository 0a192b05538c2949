//! Reads an answer: nothing is taken that is not there.

use super::{Api, Problem};

/// What is left of an answer to read.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    /// What was asked, for the sentence where the answer does not hold.
    api: Api,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(rest: &'a [u8], api: Api) -> Self {
        Self { rest, api }
    }

    /// The next `count` bytes.
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| self.wrong("ends too soon"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| self.wrong("ends too soon"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn i8(&mut self) -> Result<i8, Problem> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, Problem> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Problem> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Problem> {
        self.array().map(i64::from_be_bytes)
    }

    /// Elements that follow. Only a number: nobody reserves room for as many.
    pub(super) fn count(&mut self) -> Result<u32, Problem> {
        let count = self.i32()?;
        u32::try_from(count).map_err(|_| self.wrong("has an array of negative length"))
    }

    /// Elements that follow, where an array may be null: none then.
    pub(super) fn nullable_count(&mut self) -> Result<u32, Problem> {
        let count = self.i32()?;
        if count == -1 {
            return Ok(0);
        }
        u32::try_from(count).map_err(|_| self.wrong("has an array of negative length"))
    }

    /// A text with a length of two bytes. Null is none.
    pub(super) fn nullable_text(&mut self) -> Result<Option<&'a str>, Problem> {
        let length = self.i16()?;
        if length == -1 {
            return Ok(None);
        }
        let length =
            usize::try_from(length).map_err(|_| self.wrong("has a text of negative length"))?;
        let bytes = self.bytes(length)?;
        let text = std::str::from_utf8(bytes);
        text.map(Some)
            .map_err(|_| self.wrong("has a text that is not UTF-8"))
    }

    /// A text with a length of two bytes.
    pub(super) fn text(&mut self) -> Result<&'a str, Problem> {
        self.nullable_text()?
            .ok_or_else(|| self.wrong("has no text where one belongs"))
    }

    /// Bytes with a length of four bytes. Null is nothing.
    pub(super) fn blob(&mut self) -> Result<&'a [u8], Problem> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(&[]);
        }
        let length =
            usize::try_from(length).map_err(|_| self.wrong("has bytes of negative length"))?;
        self.bytes(length)
    }

    /// Fails unless everything has been read.
    pub(super) fn end(&self) -> Result<(), Problem> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.wrong("goes on after its end"))
        }
    }

    /// The problem that the answer has this fault.
    #[cold]
    pub(super) fn wrong(&self, fault: &str) -> Problem {
        Problem::new(format!(
            "the broker's answer to {} version {} {fault}; is it a Kafka broker?",
            self.api,
            self.api.version()
        ))
    }
}
