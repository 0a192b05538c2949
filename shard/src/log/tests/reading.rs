//! What a read costs, and what it does about damage that no opening met.

use super::*;

/// Batches of one full segment and one that grows.
async fn rolled(config: LogConfig, count: usize, value_bytes: usize) -> (TempDir, Log) {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(&dir, config).await;
    for _ in 0..count {
        append(&mut log, 1, value_bytes);
    }
    flush(&mut log).await;
    (dir, log)
}

#[test]
fn a_read_that_has_to_step_over_much_is_not_done_in_one_go() {
    run(async {
        let sparse = LogConfig {
            segment_bytes_max: 8 << 20,
            index_interval_bytes: u32::MAX,
        };
        let (_dir, log) = rolled(sparse, 400, 4000).await;
        let near = log.read(Offset::new(50), log.end(), 1);
        assert!(near.try_now().is_some());
        let far = log.read(Offset::new(390), log.end(), 1);
        assert!(far.try_now().is_none(), "more than a megabyte lies before");
        let found = batches(far.run().await.unwrap());
        assert_eq!(found[0].base_offset(), Offset::new(390));
    });
}

#[test]
fn an_index_that_is_wrong_is_taken_from_the_batches_once() {
    run(async {
        let config = LogConfig {
            segment_bytes_max: 2 << 20,
            index_interval_bytes: 4096,
        };
        for gone in [false, true] {
            let (dir, log) = rolled(config, 600, 4000).await;
            let path = &files(&dir, "index")[0];
            if gone {
                std::fs::remove_file(path).unwrap();
            } else {
                let mut bytes = std::fs::read(path).unwrap();
                for entry in bytes.chunks_exact_mut(8) {
                    entry[7] ^= 1;
                }
                std::fs::write(path, bytes).unwrap();
            }
            let full = &log.segments[0];
            assert!(full.index_bytes().await.is_none(), "the file serves");
            let read = log.read(Offset::new(450), log.end(), 1);
            assert!(read.try_now().is_none());
            assert!(full.index_bytes().await.is_none());
            let found = batches(read.clone().run().await.unwrap());
            assert_eq!(found[0].base_offset(), Offset::new(450));
            assert!(full.index_bytes().await.is_some());
            for offset in [1, 100, 450, 490] {
                let offset = Offset::new(offset);
                let now = log.read(offset, log.end(), 1).try_now();
                assert_eq!(batches(now.unwrap().unwrap())[0].base_offset(), offset);
            }
        }
    });
}

/// The checksum of a batch does not cover its base offset.
#[test]
fn a_base_offset_that_was_damaged_is_told_to_the_read_that_begins_there() {
    run(async {
        let (dir, log) = rolled(SMALL, 12, 60).await;
        let all = read_all(&log).await;
        let (path, count) = (&files(&dir, "log")[0], log.segments[1].base().get());
        assert!(count >= 4);
        let first_of_next = usize::try_from(count).unwrap();
        let whole = std::fs::read(path).unwrap();
        let mut position = 0;
        for batch in &all[..first_of_next] {
            let base = batch.base_offset();
            // Upwards by one, by two, past the segment and past all; downwards; below zero.
            for wrong in [1, 2, 50, 1 << 40, -1, i64::MIN] {
                let mut bytes = whole.clone();
                let wrong = base.to_wire().wrapping_add(wrong);
                bytes[position..position + 8].copy_from_slice(&wrong.to_be_bytes());
                std::fs::write(path, &bytes).unwrap();
                for read in [
                    log.read(base, log.end(), 1 << 20),
                    log.read(base, base.after(1), 1 << 20),
                ] {
                    let now = read.try_now();
                    assert!(now.is_none_or(|now| now.is_err()), "{base}: {wrong}");
                    let error = read.run().await.unwrap_err();
                    let LogError::Damaged { position: at, .. } = &error else {
                        panic!("{error}")
                    };
                    assert_eq!(*at, position as u64, "{base}: {wrong}");
                }
                // What lies before is served, and what lies in the next segment too.
                let before = log.read(Offset::ZERO, log.end(), 1 << 20).run().await;
                let found = before.map(batches).unwrap_or_default();
                let kept = usize::try_from(base.get()).unwrap();
                assert_eq!(all_bytes(&found), all_bytes(&all[..kept]));
                let next = log.read(log.segments[1].base(), log.end(), 1).run().await;
                assert_eq!(next.unwrap().concat(), all[first_of_next].bytes()[..]);
            }
            position += batch.bytes().len();
        }
        // A last offset that falls short leaves a gap before the next segment.
        let last = first_of_next - 1;
        let position = position - all[last].bytes().len();
        for delta in [1_u8, 200] {
            let mut bytes = whole.clone();
            bytes[position + 26] = delta;
            std::fs::write(path, &bytes).unwrap();
            let read = log.read(all[last].base_offset(), log.end(), 1 << 20);
            assert!(read.run().await.is_err(), "{delta}");
        }
    });
}

#[test]
fn a_search_does_not_answer_with_a_base_offset_that_was_damaged() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        for timestamp in [10, 20, 30] {
            log.append(batch(&[timestamp], 10), Timestamps::Create, NOW)
                .unwrap();
        }
        flush(&mut log).await;
        let path = &files(&dir, "log")[0];
        let mut bytes = std::fs::read(path).unwrap();
        let second = bytes.len() / 3;
        bytes[second + 7] = 0;
        std::fs::write(path, bytes).unwrap();
        let found = log.search(Wanted::AtOrAfter(Timestamp(15)), log.end());
        assert!(matches!(found.run().await, Err(LogError::Damaged { .. })));
    });
}
