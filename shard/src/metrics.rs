//! The numbers of one core. Storage names are those of the published `felix_storage_` family where
//! the meaning is the same.

use felix_core::metrics::{Counter, Gauge, Kind, Metrics, Sample};

/// See the module. Lives on its core.
#[derive(Debug, Default)]
pub(crate) struct CoreMetrics {
    pub(crate) append_batches: Counter,
    pub(crate) append_records: Counter,
    pub(crate) append_bytes: Counter,
    pub(crate) parked_appends: Counter,
    pub(crate) hops: Counter,
    pub(crate) credit_waits: Counter,
    pub(crate) sync_rounds: Counter,
    pub(crate) syncs: Counter,
    pub(crate) sync_appends: Counter,
    pub(crate) sync_failures: Counter,
    /// Microseconds from the first unflushed write to the end of the last periodic round.
    pub(crate) sync_interval_us: Gauge,
    pub(crate) tail_reads: Counter,
    pub(crate) immediate_reads: Counter,
    pub(crate) cold_reads: Counter,
    pub(crate) read_bytes: Counter,
    pub(crate) read_failures: Counter,
    pub(crate) failed_shards: Counter,
    pub(crate) recovery_cut_bytes: Counter,
    pub(crate) recovery_rebuilt_indexes: Counter,
}

impl CoreMetrics {
    /// A batch was placed.
    pub(crate) fn appended(&self, records: u64, bytes: usize) {
        self.append_batches.increment();
        self.append_records.add(records);
        self.append_bytes
            .add(u64::try_from(bytes).expect("a size fits 64 bits"));
    }
}

impl Metrics for CoreMetrics {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        let counters = [
            (
                "felix_storage_append_batches_total",
                "Batches placed in logs.",
                &self.append_batches,
            ),
            (
                "felix_storage_append_records_total",
                "Records placed in logs.",
                &self.append_records,
            ),
            (
                "felix_storage_append_bytes_total",
                "Bytes placed in logs.",
                &self.append_bytes,
            ),
            (
                "felix_storage_sync_rounds_total",
                "Rounds of flushes: all dirty shards of a core at once.",
                &self.sync_rounds,
            ),
            (
                "felix_storage_sync_total",
                "Flushes of one shard.",
                &self.syncs,
            ),
            (
                "felix_storage_sync_appends_total",
                "Appends that a flush committed; over sync_total: how many shared one.",
                &self.sync_appends,
            ),
            (
                "felix_storage_sync_failures_total",
                "Flushes that failed.",
                &self.sync_failures,
            ),
            (
                "felix_storage_read_bytes_total",
                "Bytes read for fetches.",
                &self.read_bytes,
            ),
            (
                "felix_storage_read_failures_total",
                "Reads that failed or found a torn batch.",
                &self.read_failures,
            ),
            (
                "felix_storage_recovery_truncated_bytes_total",
                "Bytes cut off when logs were opened.",
                &self.recovery_cut_bytes,
            ),
            (
                "felix_storage_recovery_index_rebuilds_total",
                "Index files made anew when logs were opened.",
                &self.recovery_rebuilt_indexes,
            ),
            (
                "felix_shard_parked_appends_total",
                "Appends that had to wait for room at their shard.",
                &self.parked_appends,
            ),
            (
                "felix_shard_hops_total",
                "Requests that crossed from one core to another.",
                &self.hops,
            ),
            (
                "felix_shard_credit_waits_total",
                "Requests that had to wait for a credit of a lane.",
                &self.credit_waits,
            ),
            (
                "felix_shard_tail_reads_total",
                "Reads served from the tail in memory.",
                &self.tail_reads,
            ),
            (
                "felix_shard_immediate_reads_total",
                "Reads served from the page cache without waiting.",
                &self.immediate_reads,
            ),
            (
                "felix_shard_cold_reads_total",
                "Reads that had to wait for the device.",
                &self.cold_reads,
            ),
            (
                "felix_shard_failures_total",
                "Shards that failed to open or were poisoned by a failed write or flush.",
                &self.failed_shards,
            ),
        ];
        for (name, help, counter) in counters {
            take(counter_sample(name, help, counter.value()));
        }
        take(gauge_sample(
            "felix_storage_sync_interval_us",
            "From the first unflushed write to the end of the last periodic round.",
            self.sync_interval_us.value(),
        ));
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a sample is a float; 2^53 is precise enough"
)]
fn counter_sample(name: &'static str, help: &'static str, value: u64) -> Sample {
    Sample {
        name,
        help,
        kind: Kind::Counter,
        label: None,
        value: value as f64,
    }
}

/// A gauge ready to leave its core.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sample is a float; 2^53 is precise enough"
)]
pub(crate) fn gauge_sample(name: &'static str, help: &'static str, value: i64) -> Sample {
    Sample {
        name,
        help,
        kind: Kind::Gauge,
        label: None,
        value: value as f64,
    }
}
