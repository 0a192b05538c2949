//! What the whole-broker tests share: a real broker process, real clients, and the records that go
//! between them.
//!
//! A test starts a [`Broker`] with the [`Stream`]s it needs, drives it with [`kcat`], with scripts
//! over confluent-kafka ([`python`]) or with bare bytes ([`wire`]), and reads its numbers
//! ([`Metrics`]). Where a test says when flushes end and writes fail, the broker's data is on a
//! [`HeldDisk`]. Every wait has a bound; what a process printed is shown when a test fails.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "the tools of tests own their clock and show what failed processes said"
)]

pub mod apache;
mod binary;
mod broker;
mod certificates;
pub mod clients;
mod clock;
mod descriptors;
pub mod dump_log;
pub mod felix_log;
mod files;
pub mod flights;
mod held_disk;
mod http;
pub mod java;
pub mod kcat;
mod metrics;
mod ports;
mod process;
pub mod python;
mod random;
mod record;
mod relay;
mod scale;
mod shared;
mod small_disk;
mod stream;
mod token;
pub mod trace;
pub mod wire;

pub use apache::{Apache, USERS};
pub use binary::broker as broker_binary;
pub use broker::Broker;
pub use certificates::{Authority, Identity};
pub use clock::{eventually, wall_ms, within};
pub use descriptors::Descriptors;
pub use files::files;
pub use held_disk::{Failing, HeldDisk, Hold};
pub use metrics::Metrics;
pub use process::{Finished, Process, SIGINT, SIGKILL, SIGTERM};
pub use random::Random;
pub use record::Record;
pub use relay::{Acknowledgement, Relay};
pub use scale::{
    codec_bytes, endurance, flights_rows, is_full, is_strict, kill_rounds, traced_answers,
};
pub use shared::Shared;
pub use small_disk::{FileSystem, SmallDisk};
pub use stream::{Kept, Policy, Stream};
pub use token::Token;
