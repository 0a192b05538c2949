//! What every request begins with.

use super::{Cursor, DecodeError, Support};

/// The header of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader<'a> {
    /// API key as sent.
    pub api_key: i16,
    /// API version as sent.
    pub api_version: i16,
    /// Chosen by the client; returned in the answer.
    pub correlation_id: i32,
    /// The client's name for itself; empty where it gave none (T07).
    pub client_id: &'a str,
    /// What to do with the request.
    pub support: Support,
}

impl<'a> RequestHeader<'a> {
    /// Reads a header. Afterwards the cursor is at the body, unless the request is unsupported: the
    /// header of an unknown API may go on in ways we do not know.
    ///
    /// # Errors
    /// The bytes are no request header.
    pub fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let api_key = cursor.i16()?;
        let api_version = cursor.i16()?;
        let correlation_id = cursor.i32()?;
        let support = Support::of(api_key, api_version);
        let client_id = match support {
            Support::Served(api) => {
                // The one string that stays classic in flexible versions.
                let client_id = cursor.classic_nullable_string()?;
                cursor.begin_body(api.is_flexible(api_version));
                cursor.tagged_fields()?;
                client_id
            }
            // Wanted for the log only; these are not refused for it.
            Support::ApiVersionsUnsupported | Support::Unsupported => {
                cursor.classic_nullable_string().unwrap_or_default()
            }
        };
        let client_id = client_id.unwrap_or_default();
        Ok(Self {
            api_key,
            api_version,
            correlation_id,
            client_id,
            support,
        })
    }
}
