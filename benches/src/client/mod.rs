//! A lean Kafka client for a load generator.
//!
//! It speaks one fixed version of each request, old enough that every broker of the last years
//! serves it and without the compact encodings of the newer ones. What is sent and received per
//! request touches no allocator: [`request`] appends whole frames to a buffer of the caller's,
//! [`answer`] and [`batches()`] read what came where it lies, and a [`PreparedBatch`] is made once
//! and sent many times. A [`Stream`] moves the bytes and never waits. What happens once, before
//! the load, is left to [`Admin`], which waits.
#![deny(clippy::indexing_slicing)]

mod address;
mod admin;
pub mod answer;
mod api;
mod batches;
mod cursor;
mod error_code;
mod exchange;
mod frame;
mod prepared;
pub mod request;
mod sasl;
mod security;
mod stream;
mod tls;
mod topic;

pub use crate::problem::Problem;
pub use address::Address;
pub use admin::Admin;
pub use api::Api;
pub use batches::{BatchSeen, Batches, batches};
pub use error_code::error_name;
pub use prepared::{BatchMaker, PreparedBatch};
pub use security::{Credential, Identity, Security, Trust};
pub use stream::Stream;
pub use tls::TlsConfig;
pub use topic::{Leader, Topic};
