//! What a client has written, read back by others: by bare requests that an independent codec takes
//! apart, and by kcat where that codec does not tell headers of one name apart.

use crate::given;
use felix_tests::clients::{Line, State};
use felix_tests::wire::Wire;
use felix_tests::{Broker, kcat};
use kafka_protocol::records::{Compression, RecordBatchDecoder};

/// A record as it lies in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Found {
    key: Option<String>,
    value: Option<String>,
    codec: &'static str,
    /// Id and epoch.
    producer: (i64, i16),
}

/// Adds a fault for each cell that says it wrote something else than there is.
pub(crate) fn check(broker: &Broker, client: &str, lines: &[Line], faults: &mut Vec<String>) {
    let found = read(broker, given::topic(client, "made"));
    let wrote = |line: &&Line| line.state == State::Ok;
    for line in lines.iter().filter(wrote) {
        let count = match line.cell.as_str() {
            "acks-0" | "acks-1" | "acks-all" => 1,
            "none" | "gzip" | "snappy" | "lz4" | "zstd" | "idempotent" => 20,
            "nulls" => {
                forms(client, &found, faults);
                continue;
            }
            "headers" => {
                headers(broker, client, faults);
                continue;
            }
            _ => continue,
        };
        let wanted: Vec<String> = (0..count).map(|n| format!("{}-{n}", line.cell)).collect();
        let there = values(&found, &line.cell);
        if there != wanted {
            faults.push(format!("{client} {}: wrote {there:?}", line.cell));
        }
        let codecs: Vec<&str> = (found.iter())
            .filter(|record| belongs(record, &line.cell))
            .map(|record| record.codec)
            .collect();
        let is_codec = count == 20 && line.cell != "idempotent";
        if is_codec && codecs.iter().any(|codec| *codec != line.cell) {
            faults.push(format!(
                "{client} {}: compressed with {codecs:?}",
                line.cell
            ));
        }
    }
}

/// Adds a fault where a record is not there although answers were lost, or not once if the producer
/// is idempotent: also the one that it was never told of, since the broker had it. Notes how a
/// producer goes on that was forgotten, or that has given a record up.
pub(crate) fn check_lost(
    broker: &Broker,
    client: &str,
    lines: &mut [Line],
    faults: &mut Vec<String>,
) {
    let found = read(broker, given::topic(client, "lost"));
    let lossy = ["lost", "lost-idempotent", "timed-out", "forgotten"];
    let wrote = |line: &&mut Line| line.state == State::Ok && lossy.contains(&line.cell.as_str());
    for line in lines.iter_mut().filter(wrote) {
        let there = values(&found, &line.cell);
        let is_renewed = ["timed-out", "forgotten"].contains(&line.cell.as_str());
        let count = if is_renewed { 3 } else { 10 };
        let wanted: Vec<String> = (0..count).map(|n| format!("{}-{n}", line.cell)).collect();
        let is_whole = if line.cell == "lost" {
            wanted.iter().all(|value| there.contains(value))
        } else {
            there == wanted
        };
        if !is_whole {
            faults.push(format!("{client} {}: wrote {there:?}", line.cell));
        }
        if is_renewed {
            line.detail = went_on(&found, &line.cell).to_owned();
        }
    }
}

/// Who wrote the last record of a producer that could not go on as it was after its first.
fn went_on(found: &[Found], cell: &str) -> &'static str {
    let mut of_cell = found.iter().filter(|record| belongs(record, cell));
    let first = of_cell.next().map(|record| record.producer);
    match (first, of_cell.next_back().map(|record| record.producer)) {
        (Some((first_id, first_epoch)), Some((id, epoch))) if first_id == id => {
            match epoch > first_epoch {
                true => "it goes on with its id and the next epoch",
                false => "it goes on with its id and epoch, from sequence 0",
            }
        }
        _ => "it goes on with another producer id",
    }
}

fn forms(client: &str, found: &[Found], faults: &mut Vec<String>) {
    let wanted: [(Option<&str>, Option<&str>); 4] = [
        (Some("null-value"), None),
        (Some("empty-value"), Some("")),
        (None, Some("null-key")),
        (Some(""), Some("empty-key")),
    ];
    for (key, value) in wanted {
        let is_it =
            |record: &&Found| record.key.as_deref() == key && record.value.as_deref() == value;
        let count = found.iter().filter(is_it).count();
        if count != 1 {
            faults.push(format!(
                "{client} nulls: {key:?}={value:?} is there {count} times"
            ));
        }
    }
}

fn headers(broker: &Broker, client: &str, faults: &mut Vec<String>) {
    let topic = given::topic(client, "made");
    let printed = kcat::read(&broker.bootstrap(), topic, None, "beginning", "%s|%h\\n");
    let line = printed.lines().find(|line| line.starts_with("headers|"));
    if line != Some("headers|a=1,a=2,b=NULL,c=") {
        faults.push(format!("{client} headers: wrote {line:?}"));
    }
}

fn belongs(record: &Found, cell: &str) -> bool {
    let value = record.value.as_deref().unwrap_or_default();
    let number = value
        .strip_prefix(cell)
        .and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn values(found: &[Found], cell: &str) -> Vec<String> {
    let of_cell = found.iter().filter(|record| belongs(record, cell));
    of_cell.filter_map(|record| record.value.clone()).collect()
}

/// All that a partition holds.
fn read(broker: &Broker, topic: &'static str) -> Vec<Found> {
    let mut wire = Wire::connect(broker.port());
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let answer = wire.fetch(topic, 0, offset, 0);
        let part = &answer.responses[0].partitions[0];
        assert_eq!(part.error_code, 0, "{topic} can be read");
        if offset >= part.high_watermark {
            return found;
        }
        let mut records = part.records.clone().expect("there are some below the end");
        for set in RecordBatchDecoder::decode_all(&mut records).expect("batches are whole") {
            for record in set.records {
                offset = record.offset + 1;
                let text = |bytes: bytes::Bytes| String::from_utf8_lossy(&bytes).into_owned();
                found.push(Found {
                    key: record.key.map(text),
                    value: record.value.map(text),
                    codec: codec(set.compression),
                    producer: (record.producer_id, record.producer_epoch),
                });
            }
        }
    }
}

fn codec(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Snappy => "snappy",
        Compression::Lz4 => "lz4",
        Compression::Zstd => "zstd",
    }
}
