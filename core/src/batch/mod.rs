//! The Kafka record batch v2: the unit of append, storage, replication and fetch. The layout is
//! drawn in `docs/log-format.md`.
//!
//! Bytes from a client become a [`Batch`] by passing every rule once ([`Batch::parse`]); a `Batch`
//! that has been given its place in a log is a [`PlacedBatch`], byte for byte what is stored and
//! what a consumer receives. [`BatchBuilder`] makes batches as a producer would.

#![deny(clippy::indexing_slicing)]

mod builder;
mod client;
mod codec;
mod compress;
pub mod crc;
mod cursor;
mod decompress;
mod error;
mod header;
mod placed;
mod record;
mod remainder;

pub use builder::BatchBuilder;
pub use client::{Batch, Parsed, ParsedOnCore, Place};
pub use codec::Codec;
pub use error::{BatchError, RecordFault};
pub use header::{HEADER_BYTES, Header};
pub use placed::PlacedBatch;
pub use record::Record;
