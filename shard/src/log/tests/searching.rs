//! Searching by timestamp.

use super::*;

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
