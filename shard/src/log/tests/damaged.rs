//! What files may say that no broker wrote: lengths that lead astray, index entries that point
//! nowhere, and numbers at the end of their range. Whatever it is, it costs this log alone.

use super::generations::Generations;
use super::*;
use felix_core::BatchError;
use felix_core::batch::{HEADER_BYTES, Header};
use felix_core::limits::{BATCH_BYTES_MAX, LOG_ROOM};

/// One growing segment with many index entries, closed cleanly.
async fn closed(count: i64) -> (TempDir, Vec<PlacedBatch>) {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(&dir, INDEXED).await;
    let batches = appended(&mut log, 0..count);
    log.close().await.unwrap();
    (dir, batches)
}

fn appended(log: &mut Log, numbers: std::ops::Range<i64>) -> Vec<PlacedBatch> {
    numbers
        .map(|number| {
            let timestamp = 1000 + (number * 37) % 50 + number;
            let batch = batch(&[timestamp, timestamp - 3], 100);
            log.append(batch, Timestamps::Create, NOW).unwrap()
        })
        .collect()
}

const INDEXED: LogConfig = LogConfig {
    segment_bytes_max: 1 << 20,
    index_interval_bytes: 600,
};

/// Every offset is read, and every timestamp found.
async fn assert_serves(log: &Log, batches: &[PlacedBatch], what: &str) {
    for batch in batches {
        let read = log.read(batch.last_offset(), log.end(), 1);
        let read = read.run().await.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(read, vec![batch.bytes().clone()], "{what}");
    }
    let records: Vec<Record> = batches.iter().flat_map(|b| b.records().unwrap()).collect();
    for wanted in (990..1110).map(Timestamp) {
        let expected = records.iter().find(|record| record.timestamp >= wanted);
        let search = log.search(Wanted::AtOrAfter(wanted), log.end());
        let found = search.run().await.unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = found.map(|found| found.0);
        assert_eq!(found, expected.map(|record| record.offset), "{what}");
    }
}

fn damage(dir: &TempDir, ending: &str, at: usize, bit: u8) {
    let path = &files(dir, ending)[0];
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1 << bit;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_an_index_of_the_last_segment_hides_no_record_and_is_not_written_again() {
    run(async {
        let (dir, batches) = closed(40).await;
        for ending in ["index", "timeindex"] {
            let intact = std::fs::read(&files(&dir, ending)[0]).unwrap();
            assert!(intact.len() > 60);
            for at in 0..intact.len() {
                for bit in [0, 5] {
                    let what = format!("{ending}, byte {at}, bit {bit}");
                    let copied = copy(&dir);
                    damage(&copied, ending, at, bit);
                    let (log, _) = open(&copied, INDEXED).await;
                    assert_serves(&log, &batches, &what).await;
                    log.close().await.unwrap();
                    let found = std::fs::read(&files(&copied, ending)[0]).unwrap();
                    assert!(found == intact, "{what}");
                }
            }
        }
    });
}

#[test]
fn indexes_made_anew_go_on_with_what_is_appended() {
    run(async {
        let (dir, mut batches) = closed(40).await;
        damage(&dir, "index", 7, 1);
        damage(&dir, "timeindex", 7, 1);
        let (mut log, _) = open(&dir, INDEXED).await;
        batches.extend(appended(&mut log, 40..60));
        assert_serves(&log, &batches, "appended before").await;
        batches.extend(appended(&mut log, 60..80));
        assert_serves(&log, &batches, "appended afterwards").await;
        log.close().await.unwrap();
        let (log, recovery) = open(&dir, INDEXED).await;
        assert_eq!(recovery.rebuilt_indexes, 0);
        assert_serves(&log, &batches, "opened again").await;
    });
}

#[test]
fn a_wrong_index_of_a_full_segment_is_made_anew_at_the_next_clean_close() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig {
            segment_bytes_max: 5000,
            ..INDEXED
        };
        let (mut log, _) = open(&dir, config).await;
        let batches = appended(&mut log, 0..60);
        log.close().await.unwrap();
        assert!(files(&dir, "index").len() >= 3);
        for ending in ["index", "timeindex"] {
            let intact = std::fs::read(&files(&dir, ending)[0]).unwrap();
            let copied = copy(&dir);
            damage(&copied, ending, 7, 1);
            let (log, _) = open(&copied, config).await;
            assert_serves(&log, &batches, ending).await;
            log.close().await.unwrap();
            let found = std::fs::read(&files(&copied, ending)[0]).unwrap();
            assert!(found == intact, "{ending}");
        }
    });
}

fn damaged(error: LogError) -> (String, u64, Fault) {
    match error {
        LogError::Damaged {
            file,
            position,
            fault,
            ..
        } => (file, position, fault),
        error => panic!("{error}"),
    }
}

/// Where each batch begins in the first segment's file.
fn positions(batches: &[PlacedBatch]) -> Vec<u64> {
    let mut next = 0;
    let mut positions = Vec::new();
    for batch in batches {
        positions.push(next);
        next += batch.bytes().len() as u64;
    }
    positions
}

#[test]
fn a_flipped_bit_in_a_length_is_met_by_the_read_that_begins_at_it_and_by_no_other() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        let batches = appended(&mut log, 0..8);
        flush(&mut log).await;
        let path = files(&dir, "log").pop().unwrap();
        let intact = std::fs::read(&path).unwrap();
        for number in [0, 3, 7] {
            let position = positions(&batches)[number];
            for bit in 0..32_usize {
                let what = format!("batch {number}, bit {bit}");
                let mut bytes = intact.clone();
                let byte = usize::try_from(position).unwrap() + 11 - bit / 8;
                bytes[byte] ^= 1 << (bit % 8);
                std::fs::write(&path, bytes).unwrap();
                for bytes_max in [1, 1 << 20] {
                    let read = log.read(batches[number].base_offset(), log.end(), bytes_max);
                    let read = match read.try_now() {
                        Some(read) => read,
                        None => read.run().await,
                    };
                    let (file, found, _) = damaged(read.expect_err(&what));
                    assert_eq!(file, "00000000000000000000.log");
                    assert_eq!(found, position, "{what}");
                }
                if number > 0 {
                    let before = log.read(log.start(), log.end(), 1 << 20).run().await;
                    let before = super::batches(before.unwrap());
                    assert_eq!(all_bytes(&before), all_bytes(&batches[..number]), "{what}");
                }
                let search = log.search(Wanted::AtOrAfter(Timestamp(5000)), log.end());
                assert_eq!(search.run().await.unwrap(), None, "no segment has it");
            }
        }
    });
}

/// All that one read after the other answers from there on, and how it ended.
async fn consumed(log: &Log, from: Offset) -> (Vec<Bytes>, Option<LogError>) {
    let (mut found, mut next) = (Vec::new(), from);
    while next < log.end() {
        let read = log.read(next, log.end(), 1);
        let read = match read.try_now() {
            Some(read) => read,
            None => read.run().await,
        };
        let pieces = match read {
            Ok(pieces) => pieces,
            Err(error) => return (found, Some(error)),
        };
        let [batch] = &pieces[..] else {
            return (found, None);
        };
        let (_, last) = Header::read(batch).unwrap().offset_range().unwrap();
        next = last.after(1);
        found.push(batch.clone());
    }
    (found, None)
}

#[test]
fn a_flipped_bit_in_what_a_checksum_covers_of_a_header_hides_no_record() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, INDEXED).await;
        // One stands out, so that those behind it would hide that it is left out.
        let number = 16;
        let times = (0..40).map(|at| 1000 + 2 * at + if at == 16 { 30 } else { 0 });
        let batches: Vec<PlacedBatch> = times
            .map(|time| {
                let batch = batch(&[time, time - 1], 100);
                log.append(batch, Timestamps::Create, NOW).unwrap()
            })
            .collect();
        log.close().await.unwrap();
        let position = positions(&batches)[number];
        let records: Vec<Record> = batches.iter().flat_map(|b| b.records().unwrap()).collect();
        let mut refused = 0;
        for bit in 21 * 8..HEADER_BYTES * 8 {
            let (byte, bit) = (bit / 8, u8::try_from(bit % 8).unwrap());
            let what = format!("byte {byte}, bit {bit}");
            let copied = copy(&dir);
            damage(
                &copied,
                "log",
                usize::try_from(position).unwrap() + byte,
                bit,
            );
            let (log, recovery) = open(&copied, INDEXED).await;
            assert_eq!(recovery.rebuilt_indexes, 0, "it was taken on trust");
            let (found, error) = consumed(&log, log.start()).await;
            match error {
                None => assert_eq!(found.len(), batches.len(), "{what}"),
                Some(error) => {
                    assert_eq!(damaged(error).1, position, "{what}");
                    assert_eq!(found.len(), number, "{what}");
                    refused += 1;
                }
            }
            // From the end: a search that finds an index wrong has it made anew for those that follow.
            for wanted in (990..1110).rev().map(Timestamp) {
                let first = records.iter().find(|record| record.timestamp >= wanted);
                let search = log.search(Wanted::AtOrAfter(wanted), log.end());
                match search.run().await {
                    Err(error) => assert_eq!(damaged(error).1, position, "{what}"),
                    Ok(found) => assert_eq!(
                        found.map(|found| found.0),
                        first.map(|record| record.offset),
                        "{what}, {wanted:?}"
                    ),
                }
            }
            for below in [number + 1, number + 2, 40] {
                let below = batches[below - 1].next_offset();
                let greatest = batches.iter().filter(|batch| batch.next_offset() <= below);
                let greatest = greatest.map(PlacedBatch::max_timestamp).max();
                let search = log.search(Wanted::Greatest, below);
                match search.run().await {
                    Err(error) => assert_eq!(damaged(error).1, position, "{what}"),
                    Ok(found) => assert_eq!(found.map(|found| found.1), greatest, "{what}"),
                }
            }
        }
        // The control bit, and the bits of the offset of the last record.
        assert_eq!(refused, 1 + 32);
    });
}

#[test]
fn a_length_that_swallows_large_batches_is_believed_by_no_read() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig {
            segment_bytes_max: 64 << 20,
            ..LARGE
        };
        let (mut log, _) = open(&dir, config).await;
        let batches: Vec<_> = (0..12).map(|_| append(&mut log, 1, 1 << 20)).collect();
        flush(&mut log).await;
        let path = files(&dir, "log").pop().unwrap();
        let intact = std::fs::read(&path).unwrap();
        // Twice and three times as long, and longer than any batch may be.
        for bit in [20_u32, 21, 23] {
            let mut bytes = intact.clone();
            let length = batches[0].header().length ^ (1 << bit);
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            std::fs::write(&path, bytes).unwrap();
            let read = log.read(Offset::ZERO, log.end(), 1000).run().await;
            let (_, position, fault) = damaged(read.unwrap_err());
            assert_eq!(position, 0);
            assert!(matches!(fault, Fault::Batch(_)), "{fault}");
            let next = log.read(batches[1].base_offset(), log.end(), 1000);
            assert!(next.run().await.is_err(), "nothing leads to it");
        }
    });
}

#[test]
fn a_length_above_any_batch_is_damage_before_a_byte_of_it_is_read() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        appended(&mut log, 0..3);
        log.close().await.unwrap();
        let path = files(&dir, "log").pop().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let length = i32::try_from(BATCH_BYTES_MAX).unwrap();
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes.resize(2 * BATCH_BYTES_MAX, 1);
        std::fs::write(&path, bytes).unwrap();
        let error = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
        let (_, position, fault) = damaged(error);
        assert_eq!(position, 0);
        assert_eq!(fault, Fault::Batch(BatchError::BadLength { length }));
    });
}

/// A valid batch of one record, as no broker would have placed it.
fn crafted(base: u64, last_delta: i32, generation: i32) -> Vec<u8> {
    let placed = batch(&[5], 30).place(Place {
        base_offset: Offset::ZERO,
        generation: Generation::new(1),
        append_time: None,
    });
    let mut bytes = placed.bytes().to_vec();
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[12..16].copy_from_slice(&generation.to_be_bytes());
    bytes[23..27].copy_from_slice(&last_delta.to_be_bytes());
    let checksum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn write_segment(dir: &TempDir, base: u64, batches: &[Vec<u8>]) {
    let name = segment::log_name(Offset::new(base));
    std::fs::write(dir.path().join(name), batches.concat()).unwrap();
}

async fn refused(dir: &TempDir) -> (String, u64, Fault) {
    let error = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
    assert!(!dir.path().join("failed").exists());
    damaged(error)
}

#[test]
fn a_segment_that_spans_more_offsets_than_its_indexes_count_is_refused() {
    run(async {
        for deltas in [[i32::MAX, 0, 0], [i32::MAX - 1, i32::MAX - 1, i32::MAX - 1]] {
            let dir = tempfile::tempdir().unwrap();
            let mut base = 0;
            let mut batches = Vec::new();
            for delta in deltas {
                batches.push(crafted(base, delta, 1));
                base += u64::from(delta.cast_unsigned()) + 1;
            }
            write_segment(&dir, 0, &batches);
            let (file, position, fault) = refused(&dir).await;
            assert_eq!(file, "00000000000000000000.log");
            assert_eq!(position, batches[0].len() as u64);
            assert!(matches!(fault, Fault::Span { .. }), "{fault}");
        }
    });
}

#[test]
fn a_batch_that_claims_more_offsets_than_were_durable_is_refused_and_nothing_is_cut_for_it() {
    run(async {
        let (dir, _) = closed(9).await;
        let path = &files(&dir, "log")[0];
        let mut bytes = std::fs::read(path).unwrap();
        let size = Header::read(&bytes).unwrap().size();
        bytes[23..27].copy_from_slice(&32_767_i32.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[21..size]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        std::fs::write(path, &bytes).unwrap();
        let claimed = Fault::Across {
            last: Offset::new(32_767),
            recovery_point: Offset::new(18),
        };
        let verifying = Opening {
            verify: true,
            ..restart()
        };
        let opened = Log::open(dir.path(), INDEXED, verifying).await;
        let (_, position, fault) = damaged(opened.unwrap_err());
        assert_eq!((position, &fault), (0, &claimed));
        assert_eq!(std::fs::read(path).unwrap(), bytes);
        let options = inspect::Options { is_in_use: false };
        let said = inspect::verify(dir.path(), options, &mut |_, _, _| {}).unwrap();
        assert_eq!(said.findings[0].what, claimed.to_string());
        assert_eq!(said.gravest(), Some(inspect::Consequence::Fatal));
    });
}

#[test]
fn the_greatest_generation_is_refused_in_a_batch_in_the_table_and_as_a_floor() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let batches = [crafted(0, 0, 1), crafted(1, 0, i32::MAX)];
        write_segment(&dir, 0, &batches);
        let expected = (
            "00000000000000000000.log".to_owned(),
            batches[0].len() as u64,
            Fault::LastGeneration,
        );
        assert_eq!(refused(&dir).await, expected);

        let dir = tempfile::tempdir().unwrap();
        let mut table = Generations::default();
        table.begin(Generation::FIRST, Offset::ZERO);
        table.begin(Generation::MAX, Offset::new(7));
        let opened = Dir::open(dir.path()).await.unwrap();
        table.save(&opened).await.unwrap();
        let expected = ("generations".to_owned(), 20, Fault::LastGeneration);
        assert_eq!(refused(&dir).await, expected);

        let dir = tempfile::tempdir().unwrap();
        let opening = Opening {
            generation_floor: Generation::MAX,
            ..restart()
        };
        let error = Log::open(dir.path(), LARGE, opening).await.unwrap_err();
        assert_eq!(damaged(error).2, Fault::LastGeneration);
    });
}

/// The indexes of a log that was closed speak for its segments, and a later opening reads them whole.
#[test]
fn what_no_broker_wrote_is_refused_at_once_and_not_by_a_later_opening() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        append(&mut log, 3, 30);
        log.close().await.unwrap();
        let path = &files(&dir, "log")[0];
        let mut bytes = std::fs::read(path).unwrap();
        // The transactional bit.
        bytes[22] |= 0x10;
        let checksum = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
        std::fs::write(path, &bytes).unwrap();
        let name = segment::log_name(Offset::ZERO);
        assert_eq!(refused(&dir).await, (name, 0, Fault::Transaction));
    });
}

#[test]
fn of_a_log_of_another_broker_nothing_is_cut_but_a_torn_end() {
    run(async {
        // As Kafka leaves a log that it has compacted, in one segment and over two.
        let (first, later) = (crafted(0, 0, 1), crafted(5, 0, 1));
        let gap = |owed, found| Fault::Gap {
            owed: Offset::new(owed),
            found,
        };
        let dir = tempfile::tempdir().unwrap();
        write_segment(&dir, 0, &[first.clone(), later.clone()]);
        let expected = (
            segment::log_name(Offset::ZERO),
            first.len() as u64,
            gap(1, 5),
        );
        assert_eq!(refused(&dir).await, expected);

        let dir = tempfile::tempdir().unwrap();
        write_segment(&dir, 0, std::slice::from_ref(&first));
        write_segment(&dir, 5, std::slice::from_ref(&later));
        let error = Log::open(dir.path(), LARGE, restart()).await.unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        assert_eq!(files(&dir, "log").len(), 2);

        // A format before ours, and a flipped bit with a whole batch behind it.
        let mut old = first.clone();
        old[16] = 1;
        let mut flipped = first.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for damaged in [old, flipped] {
            let dir = tempfile::tempdir().unwrap();
            write_segment(&dir, 0, &[damaged.clone(), crafted(1, 0, 1)]);
            let (_, position, fault) = refused(&dir).await;
            assert_eq!(position, 0, "{fault}");
            assert_eq!(
                std::fs::read(&files(&dir, "log")[0]).unwrap()[..damaged.len()],
                damaged
            );
        }

        let dir = tempfile::tempdir().unwrap();
        let torn = crafted(1, 0, 1);
        write_segment(&dir, 0, &[first, torn[..torn.len() - 1].to_vec()]);
        let (log, recovery) = open(&dir, LARGE).await;
        assert_eq!(log.end(), Offset::new(1));
        // Up to the last byte that is not zero.
        assert!((1..torn.len() as u64).contains(&recovery.cut_bytes));
    });
}

#[test]
fn a_log_without_room_behind_its_end_is_refused() {
    run(async {
        let greatest = Offset::MAX.get();
        for base in [greatest, greatest - 5, greatest - LOG_ROOM + 1] {
            let name = segment::log_name(Offset::new(base));
            let no_room = |position, end| {
                let end = Offset::new(end);
                (name.clone(), position, Fault::NoRoom { end })
            };
            let dir = tempfile::tempdir().unwrap();
            write_segment(&dir, base, &[]);
            assert_eq!(refused(&dir).await, no_room(0, base));
            if base < greatest {
                let bytes = crafted(base, 0, 1);
                write_segment(&dir, base, std::slice::from_ref(&bytes));
                assert_eq!(refused(&dir).await, no_room(bytes.len() as u64, base + 1));
            }
            let dir = tempfile::tempdir().unwrap();
            let end = Offset::new(base);
            let checkpoint = Checkpoint {
                recovery_point: end,
                start: end,
                visible_end: end,
                append_time: NOW,
                begun: None,
                appended: Vec::new(),
            };
            let opened = Dir::open(dir.path()).await.unwrap();
            checkpoint.save(&opened).await.unwrap();
            let expected = ("checkpoint".to_owned(), 8, Fault::NoRoom { end });
            assert_eq!(refused(&dir).await, expected);
        }
    });
}

#[test]
fn an_append_that_no_offsets_are_left_for_is_refused_and_one_that_fits_is_not() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        write_segment(&dir, Offset::MAX.get() - LOG_ROOM - 1, &[]);
        let (mut log, _) = open(&dir, LARGE).await;
        let two = log.append(batch(&[5, 5], 30), Timestamps::Append, NOW);
        let end = log.end();
        assert_eq!(damaged(two.unwrap_err()).2, Fault::NoRoom { end });
        append(&mut log, 1, 30);
        let one = log.append(batch(&[5], 30), Timestamps::Append, NOW);
        assert!(matches!(damaged(one.unwrap_err()).2, Fault::NoRoom { .. }));
        log.close().await.unwrap();
        let (log, _) = open(&dir, LARGE).await;
        assert_eq!(read_all(&log).await.len(), 1);
    });
}

#[test]
fn a_table_of_absurd_size_is_refused_before_it_is_read() {
    run(async {
        for name in ["generations", "checkpoint"] {
            let (dir, _) = closed(3).await;
            let file = std::fs::File::options()
                .write(true)
                .open(dir.path().join(name))
                .unwrap();
            // All of it a hole.
            file.set_len(1 << 42).unwrap();
            assert_eq!(refused(&dir).await, (name.to_owned(), 0, Fault::Layout));
        }
    });
}

#[test]
fn a_time_entry_that_names_a_later_batch_of_the_same_timestamp_hides_none_before_it() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, INDEXED).await;
        let mut append = |timestamp| {
            let batch = batch(&[timestamp], 100);
            log.append(batch, Timestamps::Create, NOW).unwrap();
        };
        // The first that gets an entry is the one after more than 600 bytes.
        let entry = 600_usize.div_ceil(batch(&[10], 100).size());
        for _ in 0..=entry {
            append(10);
        }
        for timestamp in [11, 10, 12, 12, 12, 12, 12, 12] {
            append(timestamp);
        }
        log.close().await.unwrap();
        let path = &files(&dir, "timeindex")[0];
        let mut bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes[..12], [0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0]);
        bytes[11] = u8::try_from(entry + 2).unwrap();
        std::fs::write(path, bytes).unwrap();
        let (log, _) = open(&dir, INDEXED).await;
        let search = log.search(Wanted::AtOrAfter(Timestamp(11)), log.end());
        let (found, ..) = search.run().await.unwrap().unwrap();
        assert_eq!(found.get(), entry as u64 + 1);
    });
}
