//! Writes a request: a length, a header, a body.

use super::Api;

/// What brokers know us by.
pub(super) const CLIENT_ID: &str = "felix-bench";

const LENGTH_BYTES: usize = 4;

/// A request that is being appended to a buffer.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Frame<'a> {
    /// Begins a request. Its length is set by [`Frame::finish`].
    pub(super) fn begin(out: &'a mut Vec<u8>, api: Api, correlation: i32) -> Self {
        let start = out.len();
        let mut frame = Self { out, start };
        frame.i32(0);
        frame.i16(api.key());
        frame.i16(api.version());
        frame.i32(correlation);
        frame.text(CLIENT_ID);
        frame
    }

    pub(super) fn i8(&mut self, value: i8) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.i8(value.into());
    }

    pub(super) fn i16(&mut self, value: i16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// A text with a length of two bytes.
    pub(super) fn text(&mut self, text: &str) {
        let length = i16::try_from(text.len()).expect("names have less than 32 KiB");
        self.i16(length);
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(super) fn null_text(&mut self) {
        self.i16(-1);
    }

    /// Bytes with a length of four bytes.
    pub(super) fn blob(&mut self, bytes: &[u8]) {
        let length = i32::try_from(bytes.len()).expect("what is sent has less than 2 GiB");
        self.i32(length);
        self.out.extend_from_slice(bytes);
    }

    /// A number that [`Frame::set_i32`] sets later; its place.
    pub(super) fn later_i32(&mut self) -> usize {
        let place = self.out.len();
        self.i32(0);
        place
    }

    pub(super) fn set_i32(&mut self, place: usize, value: i32) {
        self.out
            .get_mut(place..place + 4)
            .expect("the place was written before")
            .copy_from_slice(&value.to_be_bytes());
    }

    /// Sets the length in front.
    pub(super) fn finish(mut self) {
        let length = self.out.len() - self.start - LENGTH_BYTES;
        let length = i32::try_from(length).expect("a request has less than 2 GiB");
        self.set_i32(self.start, length);
    }
}
