//! The counters of one core, with their names.

use super::CoreMetrics;
use felix_core::metrics::Counter;

/// A counter's name, what it counts, and the counter.
pub(super) type Counted<'metrics> = (&'static str, &'static str, &'metrics Counter);

impl CoreMetrics {
    pub(super) fn writing_counters(&self) -> Vec<Counted<'_>> {
        vec![
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
                "felix_storage_long_writes_total",
                "Batches whose writing took more than a millisecond.",
                &self.long_writes,
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
                "Appends that waited for a flush (on_commit) and were committed by it.",
                &self.sync_appends,
            ),
            (
                "felix_storage_sync_failures_total",
                "Flushes that failed.",
                &self.sync_failures,
            ),
            (
                "felix_storage_late_syncs_total",
                "Flushes that took so long that other shards went on without them.",
                &self.late_syncs,
            ),
            (
                "felix_storage_overdue_syncs_total",
                "Times that a shard's appends waited for their flush for more than twice the interval.",
                &self.overdue_shards,
            ),
            (
                "felix_storage_index_write_failures_total",
                "Times that index files or a checkpoint could not be written; no record waits for them.",
                &self.upkeep_failures,
            ),
            (
                "felix_storage_refused_appends_total",
                "Batches refused because the disk is full, or nearly.",
                &self.refused_appends,
            ),
        ]
    }

    pub(super) fn aside_counters(&self) -> Vec<Counted<'_>> {
        vec![
            (
                "felix_storage_writes_aside_total",
                "Large batches that were written beside their core.",
                &self.writes_aside,
            ),
            (
                "felix_storage_write_backs_total",
                "Times that the kernel was asked to write before a flush.",
                &self.write_backs,
            ),
        ]
    }

    pub(super) fn roll_counters(&self) -> Vec<Counted<'_>> {
        vec![
            (
                "felix_storage_segment_roll_total",
                "Segments that were sealed and followed by a new one.",
                &self.segment_rolls,
            ),
            (
                "felix_storage_segment_roll_failed_total",
                "Times that the file of a next segment could not be made ahead; it is made when it is needed, or tried again.",
                &self.roll_failures,
            ),
            (
                "felix_storage_segment_roll_background_total",
                "Rolls that found the file of the next segment made.",
                &self.rolls_ahead,
            ),
            (
                "felix_storage_segment_roll_discarded_total",
                "Files of next segments that were made for a shard which had failed meanwhile.",
                &self.rolls_discarded,
            ),
            (
                "felix_storage_recovery_abandoned_rolls_total",
                "Files of next segments that openings have removed: no segment had begun in them.",
                &self.abandoned_rolls,
            ),
        ]
    }

    pub(super) fn retention_counters(&self) -> Vec<Counted<'_>> {
        vec![
            (
                "felix_storage_retention_segments_deleted_total",
                "Segments that retention has taken from logs.",
                &self.retention_segments,
            ),
            (
                "felix_storage_retention_bytes_reclaimed_total",
                "Bytes of their files that are free again.",
                &self.retention_bytes,
            ),
            (
                "felix_storage_retention_failures_total",
                "Files of theirs that could not be removed; the next opening tries again.",
                &self.retention_failures,
            ),
        ]
    }

    pub(super) fn preparing_counters(&self) -> Vec<Counted<'_>> {
        vec![
            (
                "felix_storage_preparations_total",
                "Steps of space prepared for appends.",
                &self.preparations,
            ),
            (
                "felix_storage_preparation_failures_total",
                "Steps that could not be prepared; appends go on without.",
                &self.preparation_failures,
            ),
            (
                "felix_storage_unprepared_appends_total",
                "Batches that found no prepared space: the first 16 KiB of a log since it was opened have none, or the preparation was too slow.",
                &self.unprepared_appends,
            ),
        ]
    }

    pub(super) fn reading_counters(&self) -> Vec<Counted<'_>> {
        vec![
            (
                "felix_storage_read_bytes_total",
                "Bytes read for fetches.",
                &self.read_bytes,
            ),
            (
                "felix_storage_read_records_total",
                "Records read for fetches.",
                &self.read_records,
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
        ]
    }

    pub(super) fn shard_counters(&self) -> Vec<Counted<'_>> {
        vec![
            (
                "felix_shard_parked_appends_total",
                "Appends that had to wait for room at their shard.",
                &self.parked_appends,
            ),
            (
                "felix_shard_expired_appends_total",
                "Appends that had no room by their request's deadline, and were refused.",
                &self.expired_appends,
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
                "felix_shard_unwatched_polls_total",
                "Fetches that waited without a watch, as their core had too many: they look again half way and at their deadline.",
                &self.unwatched_polls,
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
                "Reads that waited for the device, or were too large to be done in one go.",
                &self.cold_reads,
            ),
            (
                "felix_shard_abandoned_requests_total",
                "Reads and searches given up because nobody waited for them any more.",
                &self.abandoned,
            ),
            (
                "felix_shard_failures_total",
                "Times that a shard failed to open or was poisoned by a failed write or flush.",
                &self.failed_shards,
            ),
            (
                "felix_shard_reopened_total",
                "Shards that failed and were opened again while the broker ran.",
                &self.reopened,
            ),
            (
                "felix_shard_reopen_failures_total",
                "Attempts to open a failed shard again that failed.",
                &self.reopen_failures,
            ),
            (
                "felix_shard_lost_records_total",
                "Records below the high watermark of a failed shard that were not in its log when it was opened again.",
                &self.lost_records,
            ),
        ]
    }

    pub(super) fn producer_counters(&self) -> Vec<Counted<'_>> {
        vec![
            (
                "felix_producer_forgotten_total",
                "Idempotent producers that a shard has forgotten: it knew too many, or their records are deleted.",
                &self.forgotten_producers,
            ),
            (
                "felix_producer_duplicates_total",
                "Batches that were there already and were not written again.",
                &self.repeated_batches,
            ),
            (
                "felix_producer_completed_batches_total",
                "Batches of which the first records were there, and only the others were written.",
                &self.completed_batches,
            ),
            (
                "felix_producer_out_of_order_total",
                "Batches refused because records before them are missing.",
                &self.out_of_order_batches,
            ),
            (
                "felix_producer_unknown_total",
                "Batches refused because their producer is not known any more.",
                &self.unknown_producers,
            ),
        ]
    }
}
