//! What a core holds at one moment.

use super::sample::{counter_sample, gauge_sample};
use felix_core::CpuId;
use felix_core::metrics::{Kind, Sample};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Gauges {
    pub(crate) core: CpuId,
    /// The number of each device, and the bytes that appends there may have to wait for.
    pub(crate) dirty_bytes: Vec<(u64, u64)>,
    pub(crate) opening: usize,
    pub(crate) open: usize,
    pub(crate) failed: usize,
    pub(crate) parked: usize,
    pub(crate) watches: usize,
    pub(crate) waiting: usize,
    pub(crate) tail_bytes: usize,
    pub(crate) late_syncs: usize,
    pub(crate) unsynced_bytes: u64,
    pub(crate) segments: usize,
    pub(crate) prepared_bytes: u64,
    pub(crate) disk_full: bool,
    /// `None`: nobody has looked.
    pub(crate) disk_free_bytes: Option<u64>,
    pub(crate) trimmed: u64,
    pub(crate) open_files: usize,
    /// Counted from the start on.
    pub(crate) device_reads: u64,
    pub(crate) producers: usize,
    pub(crate) producer_bytes: usize,
}

impl Gauges {
    pub(crate) fn collect(&self, take: &mut dyn FnMut(Sample)) {
        let gauges = [
            (
                "felix_shard_opening",
                "Shards that are being opened for the first time.",
                self.opening,
            ),
            ("felix_shard_open", "Shards that are served.", self.open),
            (
                "felix_shard_failed",
                "Shards that failed and serve nothing.",
                self.failed,
            ),
            (
                "felix_shard_parked_appends",
                "Appends that wait for room at their shard.",
                self.parked,
            ),
            (
                "felix_shard_watches",
                "Waiting fetches that watch shards of a core.",
                self.watches,
            ),
            (
                "felix_shard_waiting_fetches",
                "Fetches of a core's connections that wait for a commit.",
                self.waiting,
            ),
            (
                "felix_shard_tail_bytes",
                "Memory that recent batches take.",
                self.tail_bytes,
            ),
            (
                "felix_storage_late_syncs",
                "Flushes under way that other shards do not wait for any more.",
                self.late_syncs,
            ),
            (
                "felix_storage_segment_count",
                "Segments of the shards that are served.",
                self.segments,
            ),
            (
                "felix_storage_retention_base_offset",
                "Where logs begin: the sum over the shards that are served.",
                usize::try_from(self.trimmed).unwrap_or(usize::MAX),
            ),
            (
                "felix_storage_open_files",
                "Files of logs that are open; those that are not used are closed to make room.",
                self.open_files,
            ),
            (
                "felix_storage_prepared_bytes",
                "Bytes prepared for appends and not used yet.",
                usize::try_from(self.prepared_bytes).unwrap_or(usize::MAX),
            ),
            (
                "felix_storage_unsynced_bytes",
                "Bytes written and not yet on the device.",
                usize::try_from(self.unsynced_bytes).unwrap_or(usize::MAX),
            ),
        ];
        for (name, help, value) in gauges.into_iter().chain(self.of_producers()) {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            take(gauge_sample(name, help, value));
        }
        self.collect_disk(take);
    }

    fn collect_dirty(&self, take: &mut dyn FnMut(Sample)) {
        let whole = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let of_the_core: u64 = self.dirty_bytes.iter().map(|(_, bytes)| bytes).sum();
        take(Sample {
            labels: vec![("core", self.core.to_string())],
            ..gauge_sample(
                "felix_core_dirty_bytes",
                "Bytes of periodic and none streams that the core has written and not flushed.",
                whole(of_the_core),
            )
        });
        for (device, bytes) in &self.dirty_bytes {
            let (major, minor) = (libc::major(*device), libc::minor(*device));
            take(Sample {
                labels: vec![("device", format!("{major}:{minor}"))],
                ..gauge_sample(
                    "felix_storage_dirty_bytes",
                    "Bytes of periodic and none streams written and not flushed, by the file system they are written to.",
                    whole(*bytes),
                )
            });
        }
    }

    fn collect_disk(&self, take: &mut dyn FnMut(Sample)) {
        take(counter_sample(
            "felix_storage_device_reads_total",
            "Pieces of files read from the device, because the page cache did not have them.",
            self.device_reads,
        ));
        let free = self.disk_free_bytes.unwrap_or_default();
        let of_the_disk = [
            (
                "felix_storage_disk_full",
                "1 while appends are refused because the disk is full, or nearly.",
                i64::from(self.disk_full),
            ),
            (
                "felix_storage_disk_free_bytes",
                "Bytes free on the disk when a core last looked.",
                i64::try_from(free).unwrap_or(i64::MAX),
            ),
        ];
        for (name, help, value) in of_the_disk {
            take(Sample {
                kind: Kind::Maximum,
                ..gauge_sample(name, help, value)
            });
        }
        self.collect_dirty(take);
    }

    fn of_producers(&self) -> [(&'static str, &'static str, usize); 2] {
        [
            (
                "felix_producer_known",
                "Idempotent producers that shards know; one that writes to several counts for each.",
                self.producers,
            ),
            (
                "felix_producer_bytes",
                "Memory that what is known of them takes.",
                self.producer_bytes,
            ),
        ]
    }
}
