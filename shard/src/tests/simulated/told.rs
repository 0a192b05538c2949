//! What a story went through, so that nobody takes one for a proof in which nothing happened.

use std::time::Duration;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Told {
    pub(super) lives: u32,
    pub(super) acknowledged: u64,
    /// Batches that a crash took that it may take.
    pub(super) lost: u64,
    /// Batches that were sent again though they were promised, and answered with where they are.
    pub(super) repeated: u64,
    /// Batches that were placed as a follower gets them.
    pub(super) applied: u64,
    /// Batches whose first records were there before.
    pub(super) completed: u64,
    /// Logs that another leader took over.
    pub(super) promoted: u64,
    /// Appends that a full disk had no space for.
    pub(super) full: u64,
    /// Shards that failed and were opened again in one life.
    pub(super) reopened: u64,
    /// What cores counted, whose life was not cut off.
    pub(super) counted: Counted,
    /// When it ended.
    pub(super) ended: Duration,
}

/// What a core does by itself, in the order of [`COUNTED`].
pub(super) type Counted = [u64; 7];

/// The metrics that tell it.
pub(super) const COUNTED: [&str; 7] = [
    "felix_storage_segment_roll_total",
    "felix_storage_preparations_total",
    "felix_storage_writes_aside_total",
    "felix_storage_retention_segments_deleted_total",
    "felix_storage_recovery_truncated_bytes_total",
    "felix_storage_recovery_index_rebuilds_total",
    "felix_shard_cold_reads_total",
];

impl Told {
    /// Both.
    pub(super) fn add(&mut self, other: &Self) {
        self.lives += other.lives;
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.applied += other.applied;
        self.completed += other.completed;
        self.promoted += other.promoted;
        self.full += other.full;
        self.reopened += other.reopened;
        self.count(&other.counted);
    }

    /// A core has counted so much.
    pub(super) fn count(&mut self, counted: &Counted) {
        for (sum, count) in self.counted.iter_mut().zip(counted) {
            *sum += count;
        }
    }

    /// What did not happen, though promises are about it.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let counts = [
            ("acknowledged", self.acknowledged),
            ("lost", self.lost),
            ("repeated", self.repeated),
            ("applied", self.applied),
            ("completed", self.completed),
            ("promoted", self.promoted),
            ("full", self.full),
            ("reopened", self.reopened),
        ];
        let counts = counts
            .into_iter()
            .chain(COUNTED.into_iter().zip(self.counted));
        let missing = counts.filter(|(_, count)| *count == 0);
        missing.map(|(name, _)| name).collect()
    }
}
