//! `felix-log stat`.

use crate::output::{Lines, Trouble};
use crate::{place, verify};
use clap::ArgMatches;
use felix_core::{PlacedBatch, Timestamp};
use felix_shard::log::inspect;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// What batches add up to.
#[derive(Default)]
struct Tally {
    batches: u64,
    records: u64,
    control_batches: u64,
    /// Of batches, as they lie in the file.
    stored_bytes: u64,
    /// Of keys, values and headers, decompressed.
    content_bytes: u64,
    undecodable: u64,
    times: Option<(Timestamp, Timestamp)>,
    producers: BTreeSet<i64>,
    generations: BTreeSet<u32>,
    segments: u64,
    zero_bytes: u64,
    offsets: u64,
}

/// Runs it.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Trouble> {
    let path = matches.get_one::<PathBuf>("path").expect("it is required");
    let shards = place::shards(path)?;
    let options = verify::options(path);
    let mut lines = Lines::new(matches.get_flag("json"));
    let mut total = Tally::default();
    for shard in &shards {
        let mut tally = Tally::default();
        let verdict = inspect::verify(shard, options, &mut |_, _, batch| tally.add(batch))
            .map_err(|cause| Trouble::unreadable(shard, &cause))?;
        tally.segments = verdict.segments;
        tally.zero_bytes = verdict.zero_bytes;
        tally.offsets = verdict.end.get().saturating_sub(verdict.start.get());
        let name = shard.display().to_string();
        let mut value = tally.to_json("shard", &name);
        value["start"] = json!(verdict.start.get());
        value["end"] = json!(verdict.end.get());
        value["recovery_point"] = json!(verdict.recovery_point.get());
        value["faults"] = json!(verdict.findings.len());
        let (start, end, faults) = (verdict.start, verdict.end, verdict.findings.len());
        let text = format!(
            "{name}: offsets {start} to {end}, {}, {faults} faults",
            tally.words()
        );
        lines.say(|| text, || value)?;
        total.merge(tally);
    }
    if shards.len() > 1 {
        let name = format!("{} shards", shards.len());
        lines.say(
            || format!("{name}: {} offsets, {}", total.offsets, total.words()),
            || total.to_json("total", &name),
        )?;
    }
    lines.end()?;
    Ok(ExitCode::SUCCESS)
}

impl Tally {
    fn add(&mut self, batch: &PlacedBatch) {
        let header = batch.header();
        self.batches += 1;
        self.stored_bytes += header.size() as u64;
        self.generations.insert(batch.generation().get());
        if header.has_producer_id() {
            self.producers.insert(header.producer_id);
        }
        if batch.is_control() {
            self.control_batches += 1;
            return;
        }
        let Ok(records) = batch.records() else {
            self.undecodable += 1;
            return;
        };
        for record in records {
            let length = |bytes: &Option<_>| bytes.as_ref().map_or(0, bytes::Bytes::len) as u64;
            let headers = record.headers.iter();
            let headers: u64 = headers
                .map(|(key, value)| key.len() as u64 + length(value))
                .sum();
            self.records += 1;
            self.content_bytes += length(&record.key) + length(&record.value) + headers;
            self.see(record.timestamp, record.timestamp);
        }
    }

    fn see(&mut self, first: Timestamp, last: Timestamp) {
        let (least, greatest) = self.times.unwrap_or((first, last));
        self.times = Some((least.min(first), greatest.max(last)));
    }

    fn merge(&mut self, other: Self) {
        self.batches += other.batches;
        self.records += other.records;
        self.control_batches += other.control_batches;
        self.stored_bytes += other.stored_bytes;
        self.content_bytes += other.content_bytes;
        self.undecodable += other.undecodable;
        self.segments += other.segments;
        self.zero_bytes += other.zero_bytes;
        self.offsets += other.offsets;
        self.producers.extend(other.producers);
        self.generations.extend(other.generations);
        if let Some((first, last)) = other.times {
            self.see(first, last);
        }
    }

    /// Bytes of keys, values and headers for each byte that is stored.
    fn ratio(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a ratio is told to two digits")]
        let ratio = self.content_bytes as f64 / self.stored_bytes as f64;
        (self.stored_bytes > 0).then_some(ratio)
    }

    fn words(&self) -> String {
        let times = self.times.map_or(String::new(), |(first, last)| {
            format!(", timestamps {} to {}", first.0, last.0)
        });
        let ratio = self.ratio().map_or(String::new(), |ratio| {
            format!(" (holding {ratio:.2} times as many of keys, values and headers)")
        });
        let undecodable = match self.undecodable {
            0 => String::new(),
            count => format!(", {count} batches whose records cannot be read"),
        };
        format!(
            "{} segments, {} batches, {} records, {} bytes{ratio}, {} prepared bytes, {} producers, \
             {} generations{times}{undecodable}",
            self.segments,
            self.batches,
            self.records,
            self.stored_bytes,
            self.zero_bytes,
            self.producers.len(),
            self.generations.len(),
        )
    }

    fn to_json(&self, kind: &str, name: &str) -> Value {
        json!({
            "type": kind,
            "name": name,
            "segments": self.segments,
            "batches": self.batches,
            "control_batches": self.control_batches,
            "undecodable_batches": self.undecodable,
            "records": self.records,
            "offsets": self.offsets,
            "valid_bytes": self.stored_bytes,
            "prepared_bytes": self.zero_bytes,
            "content_bytes": self.content_bytes,
            "content_ratio": self.ratio(),
            "first_timestamp": self.times.map(|times| times.0.0),
            "last_timestamp": self.times.map(|times| times.1.0),
            "producers": self.producers.len(),
            "generations": self.generations,
        })
    }
}
