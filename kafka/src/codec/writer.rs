//! Writing an answer: framing we make, records we only pass on.

use super::{ApiKey, ErrorCode, Errors};
use bytes::{BufMut, Bytes, BytesMut};

/// Framing of most answers fits this, so that they are written without growing the buffer.
const FRAMING_BYTES: usize = 512;

/// Bytes of a sentence for people. A sentence may quote what a peer sent; this keeps it readable
/// and within the 32767 bytes of a classic string.
const SENTENCE_BYTES_MAX: usize = 1024;

/// Builds one answer as pieces to be sent one after the other.
///
/// All framing is written to one buffer; record sets are noted with their place in it and stay
/// where they are. [`Writer::finish`] cuts the buffer at those places.
#[derive(Debug)]
pub struct Writer {
    framing: BytesMut,
    /// Records and the length of the framing before them, in order.
    records: Vec<(usize, Bytes)>,
    records_bytes: usize,
    errors: Errors,
    flexible: bool,
}

impl Writer {
    /// Begins the answer to a request of this API and version: length prefix and response header.
    #[must_use]
    pub fn response(api: ApiKey, version: i16, correlation_id: i32) -> Self {
        let mut writer = Self {
            framing: BytesMut::with_capacity(FRAMING_BYTES),
            records: Vec::new(),
            records_bytes: 0,
            errors: Errors::default(),
            flexible: api.has_flexible_response_header(version),
        };
        // The length, known when the answer is complete.
        writer.i32(0);
        writer.i32(correlation_id);
        writer.tagged_fields();
        writer
    }

    /// From here on write compact encodings and tagged fields (`flexible`), or classic ones.
    pub(super) fn begin_body(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    /// The errors that the answer tells.
    #[must_use]
    pub fn errors(&self) -> Errors {
        self.errors.clone()
    }

    /// The whole answer, length prefix first. No piece is empty.
    #[must_use]
    pub fn finish(mut self) -> Vec<Bytes> {
        let length = self.framing.len() - size_of::<i32>() + self.records_bytes;
        let length = i32::try_from(length).expect("answers are bounded far below 2 GiB");
        for (to, from) in self.framing.iter_mut().zip(length.to_be_bytes()) {
            *to = from;
        }
        let mut framing = self.framing.freeze();
        let mut pieces = Vec::with_capacity(2 * self.records.len() + 1);
        let mut cut = 0;
        for (before, records) in self.records {
            if before > cut {
                pieces.push(framing.split_to(before - cut));
                cut = before;
            }
            pieces.push(records);
        }
        if !framing.is_empty() {
            pieces.push(framing);
        }
        pieces
    }

    /// A byte, 1 for true.
    pub fn bool(&mut self, value: bool) {
        self.framing.put_u8(u8::from(value));
    }

    /// A signed 8-bit integer.
    pub fn i8(&mut self, value: i8) {
        self.framing.put_i8(value);
    }

    /// A signed 16-bit integer.
    pub fn i16(&mut self, value: i16) {
        self.framing.put_i16(value);
    }

    /// A signed 32-bit integer.
    pub fn i32(&mut self, value: i32) {
        self.framing.put_i32(value);
    }

    /// A signed 64-bit integer.
    pub fn i64(&mut self, value: i64) {
        self.framing.put_i64(value);
    }

    /// A UUID.
    pub fn uuid(&mut self, value: u128) {
        self.framing.put_u128(value);
    }

    /// An error code.
    pub fn error_code(&mut self, code: ErrorCode) {
        self.errors.note(code);
        self.i16(code.wire());
    }

    /// An unsigned integer of one to five bytes, seven bits each, the lowest first.
    pub fn uvarint(&mut self, value: u32) {
        let mut left = value;
        while left > 0x7f {
            let [low, ..] = left.to_le_bytes();
            self.framing.put_u8(low | 0x80);
            left >>= 7;
        }
        let [low, ..] = left.to_le_bytes();
        self.framing.put_u8(low);
    }

    /// A name: one that a client sent, in an answer of the version it was sent in, or ours.
    pub fn string(&mut self, value: &str) {
        if self.flexible {
            self.compact_length(value.len());
        } else {
            let length = i16::try_from(value.len());
            self.i16(length.expect("a classic name came in a classic string or is ours"));
        }
        self.framing.put_slice(value.as_bytes());
    }

    /// A name that may be null.
    pub fn nullable_string(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.string(value),
            None if self.flexible => self.uvarint(0),
            None => self.i16(-1),
        }
    }

    /// A sentence for people, or null; cut where it grows too long.
    pub fn sentence(&mut self, value: Option<&str>) {
        self.nullable_string(value.map(|sentence| cut(sentence, SENTENCE_BYTES_MAX)));
    }

    /// Bytes of ours.
    pub fn bytes(&mut self, value: &[u8]) {
        self.declare(value.len());
        self.framing.put_slice(value);
    }

    /// An array, with `write` for each element.
    pub fn array<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.declare(items.len());
        for item in items {
            write(self, item);
        }
    }

    /// An array that is null.
    pub fn null_array(&mut self) {
        if self.flexible {
            self.uvarint(0);
        } else {
            self.i32(-1);
        }
    }

    /// A record set, passed on without copying it.
    pub fn records(&mut self, pieces: &[Bytes]) {
        self.declare(pieces.iter().map(Bytes::len).sum());
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            self.records_bytes += piece.len();
            self.records.push((self.framing.len(), piece.clone()));
        }
    }

    /// Ends a structure that has no tagged fields to tell.
    pub fn tagged_fields(&mut self) {
        if self.flexible {
            self.uvarint(0);
        }
    }

    /// Begins the tagged fields of a structure: exactly `count` calls of [`Writer::tagged_field`]
    /// follow, by rising tag. Only in flexible versions.
    pub fn tagged_fields_begin(&mut self, count: u32) {
        debug_assert!(self.flexible);
        self.uvarint(count);
    }

    /// One tagged field. `write` writes its content, which holds no records.
    pub fn tagged_field(&mut self, tag: u32, write: impl FnOnce(&mut Self)) {
        // The length goes before the content and its own length depends on it, so the content is
        // written aside. Such fields accompany errors; the answers that matter have none.
        let before = std::mem::take(&mut self.framing);
        write(self);
        let content = std::mem::replace(&mut self.framing, before);
        self.uvarint(tag);
        self.uvarint(u32::try_from(content.len()).expect("a tagged field of ours is small"));
        self.framing.put_slice(&content);
    }

    /// Begins an array of so many items, each of which is to follow.
    pub(crate) fn declare(&mut self, length: usize) {
        if self.flexible {
            self.compact_length(length);
        } else {
            self.i32(i32::try_from(length).expect("answers are bounded far below 2 GiB"));
        }
    }

    fn compact_length(&mut self, length: usize) {
        let length = u32::try_from(length).expect("answers are bounded far below 2 GiB");
        self.uvarint(length + 1);
    }
}

/// The longest beginning of `text` that has at most `bytes_max` bytes and ends between characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    (0..=bytes_max.min(text.len()))
        .rev()
        .find_map(|end| text.get(..end))
        .unwrap_or_default()
}
