//! A real broker whose files may not get as large as they want to while it runs: the shard that meets
//! the limit fails alone, by that name, and goes on when the limit is gone.

use felix_tests::wire::Wire;
use felix_tests::{Broker, Policy, Stream, eventually};

const TOPIC: &str = "small.files";
const KAFKA_STORAGE_ERROR: i16 = 56;
const LIMIT: u64 = 512 << 10;
static LARGE: [u8; 100_000] = [b'x'; 100_000];

#[test]
fn a_file_that_may_not_grow_fails_its_shard_alone_until_it_may() {
    for policy in [Policy::OnCommit, Policy::Periodic] {
        let mut broker = Broker::start(&[Stream::new(TOPIC, 2).flushed(policy)]);
        let mut wire = Wire::connect(broker.port());
        broker.limit_file_bytes(Some(LIMIT));
        let mut end = 0;
        let refusal = loop {
            match wire.produce(TOPIC, 0, &LARGE) {
                (0, offset) => assert_eq!(offset, end),
                (error, _) => break error,
            }
            end += 1;
            assert!(end < 10, "more is in the file than may be");
        };
        assert_eq!(refusal, KAFKA_STORAGE_ERROR);
        assert!(end > 0, "some of it has space");
        let log = broker.logged(|log| log.contains("LimitFSIZE"));
        assert!(log.contains("ulimit -f unlimited"), "{log}");
        for offset in 0..10 {
            assert_eq!(wire.produce(TOPIC, 1, b"goes on"), (0, offset));
        }
        // It may be open again by now, until the next append that does not fit.
        assert!(broker.metric("felix_shard_failures_total") >= 1.0);

        // Nothing has to be looked after.
        broker.limit_file_bytes(None);
        eventually("the shard is opened again", || {
            broker.metric("felix_shard_failed") == 0.0
        });
        for offset in 0..end {
            let answer = wire.fetch(TOPIC, 0, offset, 0);
            let part = &answer.responses[0].partitions[0];
            assert_eq!(part.error_code, 0);
            assert!(part.high_watermark >= end);
            let records = part.records.clone().unwrap_or_default();
            let is_there = records.windows(LARGE.len()).any(|found| found == LARGE);
            assert!(is_there, "{offset}");
        }
        for _ in 0..10 {
            assert_eq!(wire.produce(TOPIC, 0, &LARGE).0, 0);
        }
        assert!(broker.terminate().success());
    }
}
