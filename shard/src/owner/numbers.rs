//! What a core tells of itself.

use super::Owner;
use crate::disk;
use crate::metrics::Gauges;
use crate::shard::Shard;
use felix_core::metrics::{Distribution, Metrics, Sample};
use felix_core::shards::ShardState;
use felix_core::{Monotonic, ShardId};

impl Metrics for Owner {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        self.metrics.collect(take);
        let shards = self.all();
        let count = |holds: fn(ShardState) -> bool| {
            shards.iter().filter(|shard| holds(shard.state())).count()
        };
        let devices = self.devices.all();
        Gauges {
            core: self.core,
            dirty_bytes: devices.iter().map(|d| (d.id(), d.dirty_bytes())).collect(),
            opening: count(|state| state == ShardState::Opening),
            open: count(|state| matches!(state, ShardState::Open(_))),
            failed: count(|state| state == ShardState::Failed),
            parked: shards.iter().map(|shard| shard.parked()).sum(),
            watches: self.watches.borrow().len(),
            waiting: self.sleepers.len(),
            tail_bytes: self.tail().bytes(),
            late_syncs: self.flusher.late(),
            disk_full: self.space.is_full(),
            disk_free_bytes: self.space.free_bytes(),
            unsynced_bytes: shards.iter().map(|shard| shard.dirty_bytes()).sum(),
            prepared_bytes: shards.iter().map(|shard| shard.prepared_bytes()).sum(),
            segments: shards.iter().map(|shard| shard.segments()).sum(),
            trimmed: shards.iter().map(|shard| shard.trimmed()).sum(),
            open_files: disk::open_files(),
            device_reads: disk::device_reads(),
            producers: self.producers.known(),
            producer_bytes: self.producers.bytes(),
        }
        .collect(take);
    }

    fn distributions(&self, now: Monotonic, take: &mut dyn FnMut(Distribution)) {
        self.metrics.distributions(now, take);
    }
}

impl Owner {
    /// The shards of this core that failed, and why.
    pub(crate) fn failures(&self) -> Vec<(ShardId, String)> {
        self.told_by(Shard::failure)
    }

    /// The same with what each failed of first.
    pub(crate) fn first_failures(&self) -> Vec<(ShardId, String)> {
        self.told_by(Shard::first_failure)
    }

    fn told_by(&self, tell: fn(&Shard) -> Option<String>) -> Vec<(ShardId, String)> {
        let shards = self.shards.borrow();
        let told = shards.values();
        told.filter_map(|shard| Some((shard.id(), tell(shard)?)))
            .collect()
    }
}
