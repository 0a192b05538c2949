//! SaslHandshake (17): which mechanism a connection authenticates by.

use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, Writer};

const API: ApiKey = ApiKey::SaslHandshake;

/// A SaslHandshake request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The mechanism, such as `PLAIN`.
    pub mechanism: &'a str,
}

impl<'a> Request<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// The bytes are no such request.
    pub fn decode(version: i16, cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        if !API.serves(version) {
            return Err(cursor.error(Fault::Version(version)));
        }
        cursor.begin_body(API.is_flexible(version));
        let mechanism = cursor.string()?;
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self { mechanism })
    }
}

/// A SaslHandshake answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// The error, if any.
    pub error_code: ErrorCode,
    /// The mechanisms that are offered.
    pub mechanisms: &'a [&'a str],
}

impl Response<'_> {
    /// Writes the body.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        writer.error_code(self.error_code);
        writer.array(self.mechanisms, |writer, mechanism| {
            writer.string(mechanism);
        });
        writer.tagged_fields();
    }
}
