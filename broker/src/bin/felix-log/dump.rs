//! `felix-log dump`.

use crate::output::{Lines, Trouble};
use crate::place;
use bytes::Bytes;
use clap::ArgMatches;
use felix_core::batch::{Codec, Header, Record};
use felix_core::{Offset, PlacedBatch};
use felix_shard::log::inspect::{
    self, Batches, IndexEntry, IndexKind, Stands, Table, entries, read_table,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is wanted of each file.
struct Wanted {
    from: u64,
    /// Batches or entries that may still be shown.
    left: u64,
    with_records: bool,
    lines: Lines,
}

/// Runs it.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Trouble> {
    let path = matches.get_one::<PathBuf>("path").expect("it is required");
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let mut wanted = Wanted {
        from: number("from").unwrap_or(0),
        left: number("limit").unwrap_or(u64::MAX),
        with_records: matches.get_flag("records"),
        lines: Lines::new(matches.get_flag("json")),
    };
    let kind = std::fs::metadata(path).map_err(|cause| Trouble::unreadable(path, &cause))?;
    place::is_in_use(path);
    if kind.is_dir() {
        let shards = place::shards(path)?;
        if shards.first() != Some(path) {
            return Err(Trouble::NotOurs(format!(
                "{} is a data directory; name one of its shards, such as {}",
                path.display(),
                shards.first().unwrap_or(path).display()
            )));
        }
        wanted.shard(path)?;
    } else {
        wanted.file(path)?;
    }
    wanted.lines.end()?;
    Ok(ExitCode::SUCCESS)
}

impl Wanted {
    fn shard(&mut self, dir: &Path) -> Result<(), Trouble> {
        for name in ["checkpoint", "generations", "producers"] {
            let path = dir.join(name);
            if path.exists() {
                self.file(&path)?;
            }
        }
        let segments = inspect::segments(dir).map_err(|cause| Trouble::unreadable(dir, &cause))?;
        for (number, segment) in segments.iter().enumerate() {
            let next = segments.get(number + 1);
            if next.is_none_or(|next| next.base.get() > self.from) {
                self.batches(&segment.file())?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), Trouble> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("log" | "next") => self.batches(path),
            Some("index") => self.index(path, IndexKind::Offset),
            Some("timeindex") => self.index(path, IndexKind::Time),
            Some(_) | None => self.table(path),
        }
    }

    fn batches(&mut self, path: &Path) -> Result<(), Trouble> {
        let unreadable = |cause: std::io::Error| Trouble::unreadable(path, &cause);
        let mut batches = Batches::open(path).map_err(unreadable)?;
        while self.left > 0 {
            let position = batches.position();
            let header = match batches.look().map_err(unreadable)? {
                Stands::Batch(header) => header,
                Stands::End => return Ok(()),
                Stands::Fault(fault) => {
                    let occupied = batches.occupied().map_err(unreadable)?;
                    if position == 0 && occupied > 0 {
                        return Err(Trouble::NotOurs(format!(
                            "{} does not begin with a batch: {fault}; it is no segment of a log",
                            path.display()
                        )));
                    }
                    let rest = batches.size() - position;
                    return self.rest(path, position, rest, occupied, &fault.to_string());
                }
            };
            let last = header
                .base_offset
                .saturating_add(i64::from(header.last_offset_delta));
            if u64::try_from(last).unwrap_or(0) >= self.from {
                let batch = batches.verified(&header).map_err(unreadable)?;
                let fault = batch.as_ref().err().map(ToString::to_string);
                self.batch(path, position, &header, fault.as_deref())?;
                if let (Ok(batch), true) = (&batch, self.with_records) {
                    self.records(batch)?;
                }
                self.left -= 1;
            }
            batches.skip(&header);
        }
        Ok(())
    }

    /// What follows the last whole batch: prepared space, or what no whole batch is.
    fn rest(
        &mut self,
        path: &Path,
        position: u64,
        bytes: u64,
        occupied: u64,
        fault: &str,
    ) -> Result<(), Trouble> {
        let file = name(path);
        self.lines.say(
            || match occupied {
                0 => format!("{file} {position}: {bytes} zero bytes, no batch"),
                _ => format!("{file} {position}: {bytes} bytes that are no whole batch: {fault}"),
            },
            || {
                let fault = (occupied > 0).then_some(fault);
                json!({"type": "rest", "file": file, "position": position, "bytes": bytes, "fault": fault})
            },
        )
    }

    fn batch(
        &mut self,
        path: &Path,
        position: u64,
        header: &Header,
        fault: Option<&str>,
    ) -> Result<(), Trouble> {
        let file = name(path);
        let codec = header.codec().map_or("unknown", codec_word);
        let last = header
            .base_offset
            .saturating_add(i64::from(header.last_offset_delta));
        let clock = if header.is_append_time() {
            "append"
        } else {
            "create"
        };
        let text = || {
            let mut text = format!(
                "{file} {position}: offsets {} to {last}, {} records, {} bytes, {codec}, {clock} \
                 time up to {}, generation {}",
                header.base_offset,
                header.count,
                header.size(),
                header.max_timestamp,
                header.leader_epoch,
            );
            if header.has_producer_id() {
                let (id, epoch) = (header.producer_id, header.producer_epoch);
                let sequence = header.base_sequence;
                text.push_str(&format!(
                    ", producer {id} epoch {epoch} sequence {sequence}"
                ));
            }
            if header.is_control() {
                text.push_str(", control");
            }
            text.push_str(&format!(", checksum {:08x} ", header.crc));
            text.push_str(fault.unwrap_or("right"));
            text
        };
        let value = || {
            json!({
                "type": "batch",
                "file": file,
                "position": position,
                "bytes": header.size(),
                "base_offset": header.base_offset,
                "last_offset": last,
                "records": header.count,
                "codec": codec,
                "timestamp_type": clock,
                "base_timestamp": header.base_timestamp,
                "max_timestamp": header.max_timestamp,
                "generation": header.leader_epoch,
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "control": header.is_control(),
                "crc": format!("{:08x}", header.crc),
                "valid": fault.is_none(),
                "fault": fault,
            })
        };
        self.lines.say(text, value)
    }

    fn records(&mut self, batch: &PlacedBatch) -> Result<(), Trouble> {
        let records = match batch.records() {
            Ok(records) => records,
            Err(fault) => {
                let offset = batch.base_offset();
                return self.lines.say(
                    || format!("  {offset}: the records cannot be read: {fault}"),
                    || json!({"type": "records", "offset": offset.get(), "fault": fault.to_string()}),
                );
            }
        };
        for record in records {
            let text = || record_text(&record);
            self.lines.say(text, || record_json(&record))?;
        }
        Ok(())
    }

    fn index(&mut self, path: &Path, kind: IndexKind) -> Result<(), Trouble> {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let base = stem.and_then(|stem| stem.parse::<i64>().ok());
        let Some(base) = base.and_then(Offset::from_wire) else {
            return Err(Trouble::NotOurs(format!(
                "{} is not named by the offset of a segment, so its entries say nothing",
                path.display()
            )));
        };
        let read = entries(path, kind, base);
        let (entries, left_over) = read.map_err(|cause| Trouble::unreadable(path, &cause))?;
        let file = name(path);
        for entry in entries {
            let last = match entry {
                IndexEntry::Offset { last, .. } | IndexEntry::Time { last, .. } => last,
            };
            if self.left == 0 || last.get() < self.from {
                continue;
            }
            self.left -= 1;
            self.lines.say(
                || match entry {
                    IndexEntry::Offset { last, position } => {
                        format!("{file}: the batch up to offset {last} at byte {position}")
                    }
                    IndexEntry::Time { timestamp, last } => {
                        format!("{file}: timestamp {} up to offset {last}", timestamp.0)
                    }
                },
                || match entry {
                    IndexEntry::Offset { last, position } => {
                        json!({"type": "index", "file": file, "offset": last.get(), "position": position})
                    }
                    IndexEntry::Time { timestamp, last } => {
                        json!({"type": "timeindex", "file": file, "timestamp": timestamp.0, "offset": last.get()})
                    }
                },
            )?;
        }
        if left_over == 0 {
            return Ok(());
        }
        self.lines.say(
            || format!("{file}: {left_over} bytes at its end are no whole entry"),
            || json!({"type": "rest", "file": file, "bytes": left_over}),
        )
    }

    fn table(&mut self, path: &Path) -> Result<(), Trouble> {
        let read = read_table(path).map_err(|cause| Trouble::unreadable(path, &cause))?;
        let shown = path.display();
        let table = match read {
            Some(Ok(table)) => table,
            Some(Err((position, fault))) => {
                return Err(Trouble::Unreadable(format!(
                    "{shown} is damaged at byte {position}: {fault}"
                )));
            }
            None => {
                return Err(Trouble::NotOurs(format!(
                    "{shown} is not a file of a log: those are *.log, *.next, *.index, *.timeindex, \
                     checkpoint, generations and producers"
                )));
            }
        };
        let file = name(path);
        for (text, mut value) in table_lines(&table) {
            value["file"] = json!(file);
            self.lines.say(|| format!("{file}: {text}"), || value)?;
        }
        Ok(())
    }
}

/// What a small file says, line by line.
fn table_lines(table: &Table) -> Vec<(String, Value)> {
    match table {
        Table::Checkpoint {
            recovery_point,
            start,
            visible_end,
            append_time,
            begun,
        } => vec![(
            format!(
                "recovery point {recovery_point}, log start {start}, visible end {visible_end}, \
                 append time {}{}",
                append_time.0,
                begun.map_or(String::new(), |begun| format!(
                    ", last segment begun {}",
                    begun.0
                ))
            ),
            json!({
                "type": "checkpoint",
                "recovery_point": recovery_point.get(),
                "start": start.get(),
                "visible_end": visible_end.get(),
                "append_time": append_time.0,
                "begun": begun.map(|begun| begun.0),
            }),
        )],
        Table::Generations(generations) => {
            let lines = generations.iter().map(|(generation, first)| {
                (
                    format!("generation {generation} from offset {first}"),
                    json!({"type": "generation", "generation": generation.get(), "first": first.get()}),
                )
            });
            lines.collect()
        }
        Table::Producers { end, known } => {
            let head = (
                format!("{} producers, up to offset {end}", known.len()),
                json!({"type": "producers", "end": end.get(), "count": known.len()}),
            );
            let lines = known.iter().map(|known| {
                let (id, epoch, owed) = (known.producer_id, known.epoch, known.owed);
                let landed: Vec<u64> = known.landed.iter().map(|at| at.get()).collect();
                (
                    format!("producer {id} epoch {epoch}, owed {owed}, batches at {landed:?}"),
                    json!({"type": "producer", "producer_id": id, "epoch": epoch, "owed": owed, "landed": landed}),
                )
            });
            std::iter::once(head).chain(lines).collect()
        }
    }
}

fn record_text(record: &Record) -> String {
    let shown = |bytes: Option<&Bytes>| match bytes {
        Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        None => "null".to_owned(),
    };
    let mut text = format!(
        "  {} at {}: key {}, value {}",
        record.offset,
        record.timestamp.0,
        shown(record.key.as_ref()),
        shown(record.value.as_ref())
    );
    for (key, value) in &record.headers {
        text.push_str(&format!(
            ", header {} {}",
            shown(Some(key)),
            shown(value.as_ref())
        ));
    }
    text
}

fn record_json(record: &Record) -> Value {
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|(key, value)| json!({"key": bytes_json(Some(key)), "value": bytes_json(value.as_ref())}))
        .collect();
    json!({
        "type": "record",
        "offset": record.offset.get(),
        "timestamp": record.timestamp.0,
        "key": bytes_json(record.key.as_ref()),
        "value": bytes_json(record.value.as_ref()),
        "headers": headers,
    })
}

/// Text as it is, other bytes in hexadecimal digits, null as null.
fn bytes_json(bytes: Option<&Bytes>) -> Value {
    let Some(bytes) = bytes else {
        return Value::Null;
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            let hex: String = digits.collect();
            json!({"hex": hex})
        }
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn codec_word(codec: Codec) -> &'static str {
    match codec {
        Codec::None => "none",
        Codec::Gzip => "gzip",
        Codec::Snappy => "snappy",
        Codec::Lz4 => "lz4",
        Codec::Zstd => "zstd",
    }
}
