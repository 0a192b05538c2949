//! An HdrHistogram log, which many tools read.

use crate::found::{Comparison, Findings, Round, Side};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriter, IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};
use std::io::{self, Write};
use std::time::Duration;

/// Values are in nanoseconds; the column for people tells the longest in milliseconds.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// One interval for each slot of time in which something ended, tagged `comparison.side.round`.
/// Turns follow each other without the pauses that lay between them.
///
/// # Errors
/// The writer's.
pub fn hlog(findings: &Findings, writer: &mut impl Write) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[Latencies in nanoseconds; tags are comparison.side.round]")
        .with_max_value_divisor(MAX_VALUE_DIVISOR)
        .begin_log_with(writer, &mut serializer)?;
    let mut start = Duration::ZERO;
    for comparison in &findings.comparisons {
        let rounds = comparison.sides.iter().map(|side| side.rounds.len());
        for index in 0..rounds.max().unwrap_or(0) {
            for side in &comparison.sides {
                if let Some(round) = side.rounds.get(index) {
                    let tag = tag(comparison, side, index + 1);
                    start += intervals(&mut log, round, start, &tag)?;
                }
            }
        }
    }
    Ok(())
}

type Log<'a, 'b, W> = IntervalLogWriter<'a, 'b, W, V2DeflateSerializer>;

/// Writes a turn that starts then, and tells how long it took.
fn intervals<W: Write>(
    log: &mut Log<'_, '_, W>,
    round: &Round,
    start: Duration,
    tag: &str,
) -> io::Result<Duration> {
    let slot = round.latencies.slot();
    let mut lasted = Duration::ZERO;
    for histogram in round.latencies.slots() {
        if let Some(histogram) = histogram {
            let tag = Tag::new(tag).expect("tags are cleaned");
            log.write_histogram(&histogram, start + lasted, slot, Some(tag))
                .map_err(|error| match error {
                    IntervalLogWriterError::IoError(error) => error,
                    IntervalLogWriterError::SerializeError(error) => io::Error::other(format!(
                        "a histogram does not fit the HdrHistogram log: {error}"
                    )),
                })?;
        }
        lasted += slot;
    }
    Ok(lasted)
}

fn tag(comparison: &Comparison, side: &Side, round: usize) -> String {
    format!("{}.{}.{round}", clean(&comparison.name), clean(&side.name))
}

/// Without what would end a tag in the log.
fn clean(name: &str) -> String {
    let kept = |letter: char| {
        let is_kept = !letter.is_whitespace() && !letter.is_control() && letter != ',';
        if is_kept { letter } else { '_' }
    };
    name.chars().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{comparison, findings, round, round_of, side};
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use std::collections::BTreeMap;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_written_reads_back_with_the_same_totals() {
        let first = round((0..1000).map(|n| (ms(n), ms(1 + n / 100))));
        let second = round_of([ms(3)]);
        let name = "a, hostile\nname";
        let found = findings(vec![comparison(
            "produce_ack",
            vec![
                side("echo", true, vec![second.clone()]),
                side(name, false, vec![first.clone(), second.clone()]),
            ],
        )]);
        let mut written = Vec::new();
        hlog(&found, &mut written).unwrap();

        let mut read: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
        let mut start_last = Duration::ZERO;
        for entry in IntervalLogIterator::new(&written) {
            let LogEntry::Interval(interval) = entry.unwrap() else {
                continue;
            };
            assert!(interval.start_timestamp() >= start_last, "not in order");
            start_last = interval.start_timestamp();
            assert_eq!(interval.duration(), ms(100));
            let bytes = base64(interval.encoded_histogram());
            let slot: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            let tag = interval.tag().unwrap().as_str().to_owned();
            let all = read
                .entry(tag)
                .or_insert_with(|| Histogram::new(3).unwrap());
            all.add(slot).unwrap();
        }
        let found = [
            ("produce_ack.a__hostile_name.1", first),
            ("produce_ack.a__hostile_name.2", second.clone()),
            ("produce_ack.echo.1", second),
        ];
        assert_eq!(read.len(), found.len());
        for ((tag, read), (tag_found, round)) in read.iter().zip(&found) {
            assert_eq!(tag, tag_found);
            assert_eq!(*read, round.latencies.all());
        }
    }

    #[test]
    fn a_run_without_findings_is_a_log_without_intervals() {
        let mut written = Vec::new();
        hlog(&findings(vec![]), &mut written).unwrap();
        assert!(written.starts_with(b"#[Histogram log format version 1.3]\n"));
        assert!(
            IntervalLogIterator::new(&written)
                .all(|entry| { !matches!(entry.unwrap(), LogEntry::Interval(_)) })
        );
    }

    /// The bytes that a line of the log spells.
    fn base64(text: &str) -> Vec<u8> {
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = text.trim_end_matches('=').bytes().map(|letter| {
            let digit = letters.iter().position(|known| *known == letter).unwrap();
            u32::try_from(digit).unwrap()
        });
        let (mut bytes, mut bits, mut held) = (Vec::new(), 0, 0u32);
        for digit in digits {
            held = held << 6 | digit;
            bits += 6;
            if bits >= 8 {
                bits -= 8;
                bytes.push(u8::try_from(held >> bits & 0xff).unwrap());
            }
        }
        bytes
    }
}
