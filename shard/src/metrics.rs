//! The numbers of one core. Storage names are those of the published `felix_storage_` family where
//! the meaning is the same.

mod counters;
mod gauges;
mod sample;

pub(crate) use gauges::Gauges;

use crate::log::LogError;
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
    pub(crate) write_backs: Counter,
    /// Shards whose appends waited for more than twice the interval.
    pub(crate) overdue_shards: Counter,
    /// Parked appends that were refused at their deadline.
    pub(crate) expired_appends: Counter,
    pub(crate) refused_appends: Counter,
    pub(crate) upkeep_failures: Counter,
    pub(crate) retention_segments: Counter,
    pub(crate) retention_bytes: Counter,
    pub(crate) retention_failures: Counter,
    pub(crate) preparations: Counter,
    pub(crate) preparation_failures: Counter,
    pub(crate) unprepared_appends: Counter,
    /// Microseconds from the oldest append that the last periodic round flushed to its flush.
    pub(crate) sync_interval_us: Gauge,
    pub(crate) tail_reads: Counter,
    pub(crate) immediate_reads: Counter,
    pub(crate) cold_reads: Counter,
    pub(crate) abandoned: Counter,
    pub(crate) read_bytes: Counter,
    pub(crate) read_records: Counter,
    pub(crate) read_failures: Counter,
    pub(crate) failed_shards: Counter,
    pub(crate) reopened: Counter,
    pub(crate) reopen_failures: Counter,
    pub(crate) lost_records: Counter,
    pub(crate) recovery_cut_bytes: Counter,
    pub(crate) recovery_rebuilt_indexes: Counter,
    pub(crate) long_writes: Counter,
    pub(crate) writes_aside: Counter,
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
    /// For those that say that appends wait for their flush for too long.
    pub(crate) overdue_lines: LogLimit,
    /// For those that say that there was no descriptor left for a file.
    refusal_lines: LogLimit,
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
    /// As the gauge, of each round.
    pub(crate) sync_interval: Histogram,
    /// Batches that one flush made durable.
    pub(crate) sync_batch_appends: Histogram,
    /// Reading a part of a fetch from its log's files.
    pub(crate) read_us: Histogram,
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

    /// The system refused something that will be asked for again. Few such lines are written.
    pub(crate) fn tell_refusal(&self, now: Monotonic, reason: &LogError) {
        if let Some(left_out) = self.refusal_lines.admit(now) {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::error!(%reason, left_out, "refused by the system; it is tried again");
        }
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
}

/// A distribution's name, what it is of, and the distribution.
type Named<'metrics> = (&'static str, &'static str, &'metrics Histogram);

impl CoreMetrics {
    fn in_microseconds(&self) -> [Named<'_>; 3] {
        [
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
        ]
    }

    fn in_seconds(&self) -> [Named<'_>; 5] {
        [
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
                "felix_storage_sync_interval_seconds",
                "From the oldest append that a periodic round flushed to its flush: the interval reached.",
                &self.sync_interval,
            ),
            (
                "felix_storage_read_duration_seconds",
                "Reading one shard's batches for a fetch from its files, the device included; what is in memory is not in it.",
                &self.read_us,
            ),
            (
                "felix_storage_recovery_duration_seconds",
                "Opening one shard's log, whether it could be opened or not.",
                &self.recovery_us,
            ),
        ]
    }

    fn in_counts(&self) -> [Named<'_>; 2] {
        [
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
        ]
    }
}

impl Metrics for CoreMetrics {
    fn collect(&self, take: &mut dyn FnMut(Sample)) {
        let counters = self.writing_counters().into_iter();
        let counters = counters
            .chain(self.aside_counters())
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
                "From the oldest append that the last periodic round flushed to its flush.",
                self.sync_interval_us.value(),
            )
        });
        for (kind, lines) in [
            ("log_read", &self.read_lines),
            ("late_flush", &self.late_lines),
            ("overdue_flush", &self.overdue_lines),
            ("open_files", &self.refusal_lines),
            ("disk_space", &self.space_lines),
            ("upkeep", &self.upkeep_lines),
            ("removal", &self.removal_lines),
            ("reopening", &self.reopen_lines),
            ("roll", &self.roll_lines),
        ] {
            take(Sample {
                labels: vec![("kind", kind.to_owned())],
                ..counter_sample(
                    "felix_log_left_out_total",
                    "Lines left out of the log since there were too many of their kind.",
                    lines.left_out(),
                )
            });
        }
    }

    fn distributions(&self, now: Monotonic, take: &mut dyn FnMut(Distribution)) {
        let of = |unit| move |(name, help, histogram)| (unit, name, help, histogram);
        let histograms = self
            .in_microseconds()
            .into_iter()
            .map(of(Unit::Microseconds));
        let histograms = histograms.chain(self.in_seconds().into_iter().map(of(Unit::Seconds)));
        let histograms = histograms.chain(self.in_counts().into_iter().map(of(Unit::Count)));
        for (unit, name, help, histogram) in histograms {
            take(Distribution {
                name,
                help,
                unit,
                labels: Vec::new(),
                values: histogram.snapshot(now),
            });
        }
    }
}
