//! The Kafka protocol: bytes in, bytes out, over any byte stream and any shards.
//!
//! [`serve`] runs one connection. What all connections of a CPU core share is a [`Context`]. The
//! wire lives in [`codec`], what each API does in `handler`, one file each. Which topics exist is
//! decided in `topics`, which number goes with which error in `errors`.
//!
//! What works and what is refused is told to users in `docs/kafka-compatibility.md`.

#![deny(clippy::indexing_slicing)]

mod answer;
mod bill;
mod charge;
pub mod codec;
mod connection;
mod context;
mod errors;
mod frame;
mod handler;
mod in_flight;
mod log;
mod metrics;
mod mute;
mod outbox;
mod pulse;
mod request;
mod room;
mod sasl;
mod session;
mod signal;
mod topics;
mod turn;

pub use connection::{serve, serve_watched};
pub use context::{CatalogView, Context, Settings};
pub use log::ProtocolLog;
pub use metrics::{KafkaMetrics, Refused};
pub use pulse::{Ending, Holding, Pulse};
pub use session::Peer;
pub use signal::{Raised, Signal};
