//! The vocabulary every other crate of Felix speaks, and the traits where layers meet.
//!
//! Nothing here does I/O, reads a clock or knows a runtime. A value that crosses a layer or a CPU
//! core is one of these types.

pub mod auth;
pub mod batch;
pub mod blocking;
pub mod catalog;
pub mod certificate;
pub mod clock;
pub mod error;
pub mod histogram;
pub mod ids;
pub mod limits;
pub mod log_limit;
pub mod memory;
pub mod metrics;
pub mod placement;
pub mod producer_ids;
pub mod producers;
pub mod quota;
pub mod retention;
pub mod shards;
pub mod stalls;
pub mod stream;
pub mod topology;

pub use auth::{Action, Auth, Credentials, Principal, Rejection};
pub use batch::{Batch, BatchError, PlacedBatch};
pub use blocking::Blocking;
pub use catalog::{Catalog, Durability, Stream, Timestamps};
pub use certificate::CertificateNames;
pub use clock::{Clock, Monotonic, Timer, Timestamp};
pub use error::ShardError;
pub use histogram::Histogram;
pub use ids::{BrokerId, ByteCount, CpuId, Generation, Offset, ShardId, StreamId};
pub use log_limit::LogLimit;
pub use memory::Memory;
pub use producer_ids::ProducerIds;
pub use producers::Producers;
pub use quota::PublishQuota;
pub use retention::Retention;
pub use shards::Shards;
pub use stalls::Stalls;
pub use stream::ByteStream;
