//! FindCoordinator (10): where a group or a transaction is looked after.

use super::{ApiKey, Cursor, DecodeError, ErrorCode, Fault, Writer};
use std::borrow::Cow;

const API: ApiKey = ApiKey::FindCoordinator;

/// Key type: a consumer group.
pub const GROUP: i8 = 0;
/// Key type: a transactional producer.
pub const TRANSACTION: i8 = 1;
/// Key type: a share group's partition (version 6).
pub const SHARE: i8 = 2;

/// A FindCoordinator request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The ids asked about: one before version 4, any number from then on.
    pub keys: Vec<&'a str>,
    /// What the ids are: [`GROUP`], [`TRANSACTION`], [`SHARE`]. A group before version 1.
    pub key_type: i8,
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
        let mut keys = Vec::new();
        if version <= 3 {
            keys.push(cursor.string()?);
        }
        let key_type = if version >= 1 { cursor.i8()? } else { GROUP };
        if version >= 4 {
            keys = cursor.array(Cursor::string)?;
        }
        cursor.tagged_fields()?;
        cursor.finish()?;
        Ok(Self { keys, key_type })
    }
}

/// A FindCoordinator answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// How long the client is asked to hold back. Version 1 and later.
    pub throttle_time_ms: i32,
    /// One answer for each key, in the order asked. Before version 4 exactly one.
    pub coordinators: Vec<Coordinator<'a>>,
}

/// The answer for one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coordinator<'a> {
    /// The key. Version 4 and later.
    pub key: &'a str,
    /// Node id of the coordinator, -1 on error.
    pub node_id: i32,
    /// Its host.
    pub host: &'a str,
    /// Its port, -1 on error.
    pub port: i32,
    /// The error, if any.
    pub error_code: ErrorCode,
    /// What is wrong, for people. Version 1 and later.
    pub error_message: Option<Cow<'a, str>>,
}

impl Response<'_> {
    /// Writes the body. Before version 4 there must be exactly one coordinator.
    pub fn encode(&self, version: i16, writer: &mut Writer) {
        writer.begin_body(API.is_flexible(version));
        if version >= 1 {
            writer.i32(self.throttle_time_ms);
        }
        if version >= 4 {
            writer.array(&self.coordinators, |writer, coordinator| {
                coordinator.encode(writer)
            });
        } else {
            let [coordinator] = self.coordinators.as_slice() else {
                panic!("one key was asked about, so there is one answer");
            };
            coordinator.encode_alone(version, writer);
        }
        writer.tagged_fields();
    }
}

impl<'a> Coordinator<'a> {
    /// An answer that is only an error.
    #[must_use]
    pub fn error(key: &'a str, error_code: ErrorCode, message: Option<Cow<'a, str>>) -> Self {
        Self {
            key,
            node_id: -1,
            host: "",
            port: -1,
            error_code,
            error_message: message,
        }
    }

    fn encode(&self, writer: &mut Writer) {
        writer.string(self.key);
        writer.i32(self.node_id);
        writer.string(self.host);
        writer.i32(self.port);
        writer.error_code(self.error_code);
        writer.sentence(self.error_message.as_deref());
        writer.tagged_fields();
    }

    fn encode_alone(&self, version: i16, writer: &mut Writer) {
        writer.error_code(self.error_code);
        if version >= 1 {
            writer.sentence(self.error_message.as_deref());
        }
        writer.i32(self.node_id);
        writer.string(self.host);
        writer.i32(self.port);
    }
}
