//! One shard's log, the CPU core that owns it, and the lanes between cores.
//!
//! Outside in: [`mesh()`] makes one [`CoreSeed`] per core; on its thread a seed becomes a [`Core`],
//! which owns shards and gives out [`Router`]s, the implementation of [`felix_core::Shards`]. A
//! request goes `router` -> `owner` on the own core, or `router` -> `port` -> `lane` -> `owner` on
//! another; the owner asks a `shard`, which asks its [`log`]. What a shard's change means for the
//! rest of the core (flush, wake, announce) comes back as effects and is applied by the owner.

mod call;
mod chunks;
mod completing;
mod cpu_core;
mod device;
pub mod disk;
mod event;
mod finding;
mod flusher;
mod groups;
mod keeper;
mod lane;
pub mod log;
mod looking;
mod mesh;
mod message;
mod metrics;
mod opening;
mod overdue;
mod owner;
mod parking;
mod pieces;
mod places;
mod placing;
mod polling;
mod port;
mod preparing;
mod producer_memory;
mod reading;
mod reopening;
mod requester;
mod rolls;
mod router;
mod runtime;
mod sending;
mod settling;
mod shard;
mod space;
mod spec;
mod suspect;
mod table;
mod tail;
#[cfg(debug_assertions)]
pub mod tripwire;
mod watches;
mod watching;
mod writing;

#[cfg(test)]
mod tests;

pub use cpu_core::{Core, CoreConfig, SpaceConfig};
pub use device::DirtyBounds;
pub use mesh::{CoreSeed, mesh};
pub use router::Router;
pub use spec::{ShardSpec, directory};
pub use suspect::Suspect;
