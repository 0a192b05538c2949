//! The numbers of one core. Storage names are those of the published `felix_storage_` family where
//! the meaning is the same.

mod gauges;
mod sample;

pub(crate) use gauges::Gauges;

use felix_core::metrics::{Counter, Distribution, Gauge, Kind, Metrics, Sample, Unit};
use felix_core::producers::Refusal;
use felix_core::{Histogram, LogLimit, Monotonic};
use sample::{counter_sample, gauge_sample};

/// See the module. Lives on its core.
#[derive(Debug, Default)]
pub(crate) struct CoreMetrics {
    pub(crate) append_batches: Counter,
    pub(crate) append_records: Counter,
    pub(crate) append_bytes: Counter,
    pub(crate) parked_appends: Counter,
    pub(crate) hops: Counter,
    pub(crate) credit_waits: Counter,
    pub(crate) unwatched_polls: Counter,
    pub(crate) sync_rounds: Counter,
    pub(crate) syncs: Counter,
    pub(crate) sync_appends: Counter,
    pub(crate) sync_failures: Counter,
    pub(crate) late_syncs: Counter,
    pub(crate) refused_appends: Counter,
    pub(crate) upkeep_failures: Counter,
    pub(crate) retention_segments: Counter,
    pub(crate) retention_bytes: Counter,
    pub(crate) retention_failures: Counter,
    pub(crate) preparations: Counter,
    pub(crate) preparation_failures: Counter,
    pub(crate) unprepared_appends: Counter,
    /// Microseconds from the first unflushed write to the end of the last periodic round.
    pub(crate) sync_interval_us: Gauge,
    pub(crate) tail_reads: Counter,
    pub(crate) immediate_reads: Counter,
    pub(crate) cold_reads: Counter,
    pub(crate) abandoned: Counter,
    pub(crate) read_bytes: Counter,
    pub(crate) read_failures: Counter,
    pub(crate) failed_shards: Counter,
    pub(crate) reopened: Counter,
    pub(crate) reopen_failures: Counter,
    pub(crate) recovery_cut_bytes: Counter,
    pub(crate) recovery_rebuilt_indexes: Counter,
    pub(crate) long_writes: Counter,
    pub(crate) segment_rolls: Counter,
    pub(crate) rolls_ahead: Counter,
    pub(crate) roll_failures: Counter,
    pub(crate) rolls_discarded: Counter,
    pub(crate) abandoned_rolls: Counter,
    pub(crate) forgotten_producers: Counter,
    pub(crate) repeated_batches: Counter,
    pub(crate) completed_batches: Counter,
    pub(crate) out_of_order_batches: Counter,
    pub(crate) unknown_producers: Counter,
    /// For the lines that say that a log cannot be read.
    pub(crate) read_lines: LogLimit,
    /// For those that say that a flush takes long.
    pub(crate) late_lines: LogLimit,
    /// For those about what is free on the disk.
    pub(crate) space_lines: LogLimit,
    /// For those that say that index files or a checkpoint cannot be written.
    pub(crate) upkeep_lines: LogLimit,
    /// For those that say that files cannot be removed.
    pub(crate) removal_lines: LogLimit,
    /// For those that say that a segment could not be sealed for its age.
    pub(crate) roll_lines: LogLimit,
    /// For those that say that a failed shard could not be opened again.
    pub(crate) reopen_lines: LogLimit,
    pub(crate) fetch_us: Histogram,
    pub(crate) commit_us: Histogram,
    pub(crate) hop_us: Histogram,
    /// Writing one batch to its log, in microseconds.
    pub(crate) append_us: Histogram,
    /// Records of one batch.
    pub(crate) batch_records: Histogram,
    pub(crate) sync_us: Histogram,
    /// Batches that one flush made durable.
    pub(crate) sync_batch_appends: Histogram,
    pub(crate) recovery_us: Histogram,
}

impl CoreMetrics {
    /// A batch was placed; its writing took from `begun` to `now`.
    pub(crate) fn appended(&self, records: u64, bytes: usize, begun: Monotonic, now: Monotonic) {
        self.append_batches.increment();
        self.append_records.add(records);
        self.append_bytes
            .add(u64::try_from(bytes).expect("a size fits 64 bits"));
        self.append_us.record(begun, now);
        self.batch_records.record_value(records, now);
    }

    /// What was made ahead for a batch that was placed, and what was not.
    pub(crate) fn prepared(&self, rolled: bool, is_ahead: bool, is_unprepared: bool) {
        self.rolled(rolled, is_ahead);
        let is_late = if rolled { !is_ahead } else { is_unprepared };
        self.unprepared_appends.add(is_late.into());
    }

    /// Whether a segment was sealed, and whether the file of the next one was there.
    pub(crate) fn rolled(&self, rolled: bool, is_ahead: bool) {
        self.segment_rolls.add(rolled.into());
        self.rolls_ahead.add((rolled && is_ahead).into());
    }
}

impl CoreMetrics {
    /// A batch of an idempotent producer was not taken.
    pub(crate) fn refused_sequence(&self, refusal: Refusal) {
        match refusal {
            Refusal::OutOfOrder { .. } => self.out_of_order_batches.increment(),
            Refusal::Unknown => self.unknown_producers.increment(),
            Refusal::TooOld => self.repeated_batches.increment(),
            Refusal::LowerEpoch { .. } => {}
        }
    }

    fn producer_counters(&self) -> Vec<Counted<'_>> {
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

/// A counter's name, what it counts, and the counter.
type Counted<'metrics> = (&'static str, &'static str, &'metrics Counter);

impl CoreMetrics {
    fn writing_counters(&self) -> Vec<Counted<'_>> {
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
                "Appends that a flush committed; over sync_total: how many shared one.",
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

    fn roll_counters(&self) -> Vec<Counted<'_>> {
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

    fn retention_counters(&self) -> Vec<Counted<'_>> {
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

    fn preparing_counters(&self) -> Vec<Counted<'_>> {
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
                "Batches that found no prepared space: the first of a log, or the preparation was too slow.",
                &self.unprepared_appends,
            ),
        ]
    }

    fn reading_counters(&self) -> Vec<Counted<'_>> {
        vec![
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
        ]
    }

    fn shard_counters(&self) -> Vec<Counted<'_>> {
        vec![
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
        ]
    }
}

impl Metrics for CoreMetrics {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        let counters = self.writing_counters().into_iter();
        let counters = counters
            .chain(self.roll_counters())
            .chain(self.retention_counters());
        let counters = counters
            .chain(self.preparing_counters())
            .chain(self.reading_counters());
        for (name, help, counter) in counters
            .chain(self.shard_counters())
            .chain(self.producer_counters())
        {
            take(counter_sample(name, help, counter.value()));
        }
        take(Sample {
            kind: Kind::Maximum,
            ..gauge_sample(
                "felix_storage_sync_interval_us",
                "From the first unflushed write to the end of the last periodic round.",
                self.sync_interval_us.value(),
            )
        });
        for (kind, lines) in [
            ("log_read", &self.read_lines),
            ("late_flush", &self.late_lines),
            ("disk_space", &self.space_lines),
            ("upkeep", &self.upkeep_lines),
            ("removal", &self.removal_lines),
            ("reopening", &self.reopen_lines),
            ("roll", &self.roll_lines),
        ] {
            take(Sample {
                label: Some(("kind", kind.to_owned())),
                ..counter_sample(
                    "felix_log_left_out_total",
                    "Lines left out of the log since there were too many of their kind.",
                    lines.left_out(),
                )
            });
        }
    }

    fn distributions(&self, now: Monotonic, take: &mut dyn FnMut(Distribution)) {
        let microseconds = [
            (
                "felix_shard_fetch_us",
                "Reading for a fetch that is answered at once, or from the wake of one that waited.",
                &self.fetch_us,
            ),
            (
                "felix_shard_commit_us",
                "From an append's arrival at the core that owns its shard to its commit.",
                &self.commit_us,
            ),
            (
                "felix_shard_hop_us",
                "From a request sent to another core to its taking there.",
                &self.hop_us,
            ),
        ];
        let seconds = [
            (
                "felix_storage_append_duration_seconds",
                "Writing one batch to its log, in the page cache.",
                &self.append_us,
            ),
            (
                "felix_storage_sync_duration_seconds",
                "Flushing one shard.",
                &self.sync_us,
            ),
            (
                "felix_storage_recovery_duration_seconds",
                "Opening one shard's log, whether it could be opened or not.",
                &self.recovery_us,
            ),
        ];
        let counts = [
            (
                "felix_storage_append_batch_records",
                "Records of one batch that was placed.",
                &self.batch_records,
            ),
            (
                "felix_storage_sync_batch_appends",
                "Batches that one flush of a shard made durable: how many shared it.",
                &self.sync_batch_appends,
            ),
        ];
        let of = |unit| move |(name, help, histogram)| (unit, name, help, histogram);
        let histograms = microseconds.into_iter().map(of(Unit::Microseconds));
        let histograms = histograms.chain(seconds.into_iter().map(of(Unit::Seconds)));
        let histograms = histograms.chain(counts.into_iter().map(of(Unit::Count)));
        for (unit, name, help, histogram) in histograms {
            take(Distribution {
                name,
                help,
                unit,
                label: None,
                values: histogram.snapshot(now),
            });
        }
    }
}
