//! Searching by timestamp.

use super::*;
use felix_core::batch::Codec;
use felix_core::limits::BATCH_BYTES_ON_CORE_MAX;

async fn at_or_after(log: &Log, wanted: i64) -> Option<(u64, i64)> {
    let search = log.search(Wanted::AtOrAfter(Timestamp(wanted)), log.end());
    search
        .run()
        .await
        .unwrap()
        .map(|(offset, timestamp, _)| (offset.get(), timestamp.0))
}

async fn greatest(log: &Log, below: Offset) -> Option<(u64, i64)> {
    let found = log.search(Wanted::Greatest, below).run().await.unwrap();
    found.map(|(offset, timestamp, _)| (offset.get(), timestamp.0))
}

#[test]
fn a_search_finds_the_earliest_record_even_inside_a_batch_and_out_of_order() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        assert_eq!(at_or_after(&log, 0).await, None);
        assert_eq!(greatest(&log, log.end()).await, None);
        for timestamps in [&[100, 300, 200][..], &[150], &[300, 400], &[50]] {
            log.append(batch(timestamps, 50), Timestamps::Create, NOW)
                .unwrap();
        }
        assert_eq!(at_or_after(&log, 0).await, Some((0, 100)));
        assert_eq!(at_or_after(&log, 101).await, Some((1, 300)));
        assert_eq!(at_or_after(&log, 301).await, Some((5, 400)));
        assert_eq!(at_or_after(&log, 401).await, None);
        assert_eq!(greatest(&log, log.end()).await, Some((5, 400)));
        assert_eq!(greatest(&log, Offset::new(4)).await, Some((1, 300)));
    });
}

#[test]
fn under_append_time_the_greatest_is_the_first_record_of_the_first_such_batch() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        for now in [10, 20, 20, 20] {
            let sent = batch(&[5, 9], 300);
            log.append(sent, Timestamps::Append, Timestamp(now))
                .unwrap();
        }
        assert!(
            files(&dir, "log").len() > 1,
            "they lie in different segments"
        );
        assert_eq!(greatest(&log, log.end()).await, Some((2, 20)));
        assert_eq!(greatest(&log, Offset::new(2)).await, Some((0, 10)));
        assert_eq!(at_or_after(&log, 11).await, Some((2, 20)));
        let search = log.search(Wanted::Greatest, log.end()).run().await.unwrap();
        assert_eq!(search.unwrap().2, log.generation());
    });
}

#[test]
fn a_control_batch_is_never_found() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        log.append(batch(&[5], 1), Timestamps::Append, Timestamp(10))
            .unwrap();
        kill(log);
        let (log, _) = Log::open(dir.path(), SMALL, promotion()).await.unwrap();
        assert_eq!(log.end(), Offset::new(2));
        assert_eq!(at_or_after(&log, 11).await, None);
        assert_eq!(greatest(&log, log.end()).await, Some((0, 10)));
    });
}

/// A batch of few bytes that become too many for a core.
fn bomb(timestamps: &[i64]) -> Batch {
    let value = vec![0; 2 * BATCH_BYTES_ON_CORE_MAX];
    let records = timestamps.iter().fold(
        BatchBuilder::new().codec(Codec::Gzip),
        |builder, timestamp| builder.record(Timestamp(*timestamp), None, Some(&value)),
    );
    Batch::parse(records.build()).unwrap()
}

#[test]
fn a_batch_is_too_much_for_a_core_by_its_size_as_it_is_or_decompressed() {
    run(async {
        for (sent, is_heavy) in [
            (batch(&[5, 7], 1000), false),
            (batch(&[5, 7], BATCH_BYTES_ON_CORE_MAX / 3), false),
            (batch(&[5, 7], BATCH_BYTES_ON_CORE_MAX), true),
            (bomb(&[5, 7]), true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (mut log, _) = open(&dir, LARGE).await;
            log.append(sent, Timestamps::Create, NOW).unwrap();
            let at_or_after = Wanted::AtOrAfter(Timestamp(6));
            for (wanted, found) in [(at_or_after, 1), (Wanted::Greatest, 1)] {
                let mut search = log.search(wanted, log.end());
                if is_heavy {
                    let batch = heavy(&search).await;
                    let found = batch.read().await.unwrap().run();
                    search.looked(&batch, found).unwrap();
                }
                assert_eq!(done(&search).await, Some((found, 7)));
            }
        }
    });
}

/// The batch that the search may not look into itself.
async fn heavy(search: &Search) -> Candidate {
    match search.step().await.unwrap() {
        Searched::Heavy(batch) => batch,
        Searched::Done(found) => panic!("not heavy: {found:?}"),
    }
}

/// What the search ends with.
async fn done(search: &Search) -> Option<(u64, i64)> {
    match search.step().await.unwrap() {
        Searched::Done(found) => found.map(|(offset, timestamp, _)| (offset.get(), timestamp.0)),
        Searched::Heavy(batch) => panic!("heavy: {batch:?}"),
    }
}

#[test]
fn a_search_goes_on_behind_a_heavy_batch_that_has_no_such_record() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        // The first two share a segment; the others do not fit.
        for timestamps in [&[10, 20][..], &[5], &[10, 30], &[40]] {
            log.append(bomb(timestamps), Timestamps::Create, NOW)
                .unwrap();
        }
        let mut search = log.search(Wanted::AtOrAfter(Timestamp(15)), log.end());
        let mut looked = Vec::new();
        for _ in 0..3 {
            let batch = heavy(&search).await;
            let found = batch.read().await.unwrap().run().unwrap();
            looked.push(found.map(|(offset, timestamp, _)| (offset.get(), timestamp.0)));
            // As if the header had promised too much.
            search.looked(&batch, Ok(None)).unwrap();
        }
        assert_eq!(looked, [Some((1, 20)), Some((4, 30)), Some((5, 40))]);
        assert_eq!(done(&search).await, None);
    });
}

#[test]
fn the_header_of_an_append_time_batch_tells_what_a_look_into_it_would() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = open(&dir, LARGE).await;
        log.append(bomb(&[1, 2]), Timestamps::Append, Timestamp(50))
            .unwrap();
        let large = batch(&[1, 2], BATCH_BYTES_ON_CORE_MAX);
        log.append(large, Timestamps::Append, Timestamp(60))
            .unwrap();
        for (wanted, found) in [
            (Wanted::AtOrAfter(Timestamp(0)), Some((0, 50))),
            (Wanted::AtOrAfter(Timestamp(51)), Some((2, 60))),
            (Wanted::AtOrAfter(Timestamp(61)), None),
            (Wanted::Greatest, Some((2, 60))),
        ] {
            let search = log.search(wanted, log.end());
            assert_eq!(done(&search).await, found);
        }
    });
}
