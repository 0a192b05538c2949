//! InitProducerId (22): an id for an idempotent producer.

use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, Writer};

const API: ApiKey = ApiKey::InitProducerId;

/// An InitProducerId request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Set by a transactional producer.
    pub transactional_id: Option<&'a str>,
    /// How long a transaction may take.
    pub transaction_timeout_ms: i32,
    /// The id the producer has, -1 for none. -1 before version 3.
    pub producer_id: i64,
    /// The epoch the producer has, -1 for none. -1 before version 3.
    pub producer_epoch: i16,
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
        let transactional_id = cursor.nullable_string()?;
        let transaction_timeout_ms = cursor.i32()?;
        let (producer_id, producer_epoch) = if version >= 3 {
            (cursor.i64()?, cursor.i16()?)
        } else {
            (-1, -1)
        };
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self {
            transactional_id,
            transaction_timeout_ms,
            producer_id,
            producer_epoch,
        })
    }
}

/// An InitProducerId answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the client is asked to hold back.
    pub throttle_time_ms: i32,
    /// The error, if any.
    pub error_code: ErrorCode,
    /// The id, -1 on error.
    pub producer_id: i64,
    /// The epoch, -1 on error.
    pub producer_epoch: i16,
}

impl Response {
    /// An id that is new, and so has epoch 0.
    #[must_use]
    pub fn given(producer_id: i64) -> Self {
        Self {
            throttle_time_ms: 0,
            error_code: ErrorCode::None,
            producer_id,
            producer_epoch: 0,
        }
    }

    /// An answer that is only an error.
    #[must_use]
    pub fn error(error_code: ErrorCode) -> Self {
        Self {
            throttle_time_ms: 0,
            error_code,
            producer_id: -1,
            producer_epoch: -1,
        }
    }

    /// Writes the body.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        writer.i32(self.throttle_time_ms);
        writer.error_code(self.error_code);
        writer.i64(self.producer_id);
        writer.i16(self.producer_epoch);
        writer.tagged_fields();
    }
}
