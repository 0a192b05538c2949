//! SaslAuthenticate (36): a message of the mechanism that was agreed on.

use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, Writer};
use std::borrow::Cow;
use std::ops::Range;

const API: ApiKey = ApiKey::SaslAuthenticate;

/// A SaslAuthenticate request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Where in the frame the mechanism's message is. It may hold a secret, so it is left there.
    pub auth_bytes: Range<usize>,
}

impl Request {
    /// Reads the body.
    ///
    /// # Errors
    /// The bytes are no such request.
    pub fn decode(version: i16, cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        if !API.serves(version) {
            return Err(cursor.error(Fault::Version(version)));
        }
        cursor.begin_body(API.is_flexible(version));
        let auth_bytes = cursor
            .nullable_bytes()?
            .ok_or_else(|| cursor.error(Fault::NegativeLength(-1)))?;
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self { auth_bytes })
    }
}

/// A SaslAuthenticate answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// The error, if any.
    pub error_code: ErrorCode,
    /// What is wrong, for people.
    pub error_message: Option<Cow<'a, str>>,
    /// The mechanism's answer; PLAIN has none.
    pub auth_bytes: &'a [u8],
    /// After how long the client has to authenticate anew; 0: never. Version 1 and later.
    pub session_lifetime_ms: i64,
}

impl Response<'_> {
    /// Writes the body.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        writer.error_code(self.error_code);
        writer.sentence(self.error_message.as_deref());
        writer.bytes(self.auth_bytes);
        if version >= 1 {
            writer.i64(self.session_lifetime_ms);
        }
        writer.tagged_fields();
    }
}
