//! The Kafka wire: requests out of bytes, answers into bytes, for the APIs this broker serves.
//!
//! A request frame (what follows the length prefix) is read through a [`Cursor`]: first
//! [`RequestHeader::decode`], then the `Request::decode` of the API it names. Names borrow from the
//! frame; only Produce takes the frame over, because it hands out the record sets in it as owned
//! buffers without copying them. An answer is begun with [`Writer::response`], filled by the
//! `Response::encode` of the API and ended with [`Writer::finish`], which gives the pieces to send.
//!
//! What a peer declares is never believed: a length or count is held against the bytes that remain
//! before anything is allocated, and every refusal is a [`DecodeError`] that says what was wrong
//! and where.

mod api;
pub mod api_versions;
mod cursor;
pub mod describe_cluster;
mod error_code;
mod errors;
pub mod fetch;
pub mod find_coordinator;
mod header;
pub mod init_producer_id;
pub mod list_offsets;
pub mod metadata;
mod names;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod sasl_authenticate;
pub mod sasl_handshake;
mod shared;
mod writer;

#[cfg(test)]
mod tests;

pub use api::{ApiKey, Support, Versions};
pub use cursor::{Cursor, DecodeError, Fault};
pub use error_code::ErrorCode;
pub use errors::Errors;
pub use header::RequestHeader;
pub use names::name as api_name;
pub use shared::{CurrentLeader, NodeEndpoint, Topic};
pub use writer::Writer;
