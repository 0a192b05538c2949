//! The log against a list of batches, under random operations.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Append {
        timestamps: Vec<i64>,
        value_bytes: usize,
    },
    Flush,
    Close,
    Kill,
    Promote,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (proptest::collection::vec(0..500_i64, 1..5), 0..400_usize).prop_map(
            |(timestamps, value_bytes)| Step::Append { timestamps, value_bytes }
        ),
        3 => Just(Step::Flush),
        1 => Just(Step::Close),
        1 => Just(Step::Kill),
        1 => Just(Step::Promote),
    ]
}

async fn check(log: &Log, batches: &[PlacedBatch], bytes_max: usize) {
    let end = log.end();
    let below = log.visible_end(end);
    let last_data = batches
        .last()
        .map_or(Offset::ZERO, PlacedBatch::next_offset);
    assert_eq!(below, last_data);
    for from in 0..below.get() {
        let read = log.read(Offset::new(from), below, bytes_max);
        let now = read.try_now();
        let found = read.run().await.unwrap();
        if let Some(now) = now {
            assert_eq!(now.unwrap().concat(), found.concat());
        }
        let mut expected = Vec::new();
        let mut total = 0;
        for batch in batches
            .iter()
            .filter(|batch| batch.last_offset().get() >= from)
        {
            total += batch.bytes().len();
            if total > bytes_max && !expected.is_empty() {
                break;
            }
            expected.extend_from_slice(batch.bytes());
        }
        assert_eq!(found.concat(), expected, "from {from}");
    }
    check_searches(log, batches, below).await;
    // A bound inside the log: nothing that reaches past it.
    let middle = Offset::new(below.get() / 2);
    let read = log
        .read(Offset::ZERO, middle, usize::MAX >> 1)
        .run()
        .await
        .unwrap();
    let expected: Vec<u8> = batches
        .iter()
        .take_while(|batch| batch.last_offset() < middle)
        .flat_map(|batch| batch.bytes().to_vec())
        .collect();
    assert_eq!(read.concat(), expected);
    check_searches(log, batches, middle).await;
}

async fn check_searches(log: &Log, batches: &[PlacedBatch], below: Offset) {
    let records: Vec<Record> = batches
        .iter()
        .take_while(|batch| batch.last_offset() < below)
        .flat_map(|batch| batch.records().unwrap())
        .collect();
    let plain = |record: &Record| (record.offset, record.timestamp);
    for wanted in (0..520).step_by(13).map(Timestamp) {
        let found = log
            .search(Wanted::AtOrAfter(wanted), below)
            .run()
            .await
            .unwrap();
        let expected = records
            .iter()
            .find(|record| record.timestamp >= wanted)
            .map(plain);
        assert_eq!(
            found.map(|found| (found.0, found.1)),
            expected,
            "{wanted:?} below {below}"
        );
    }
    let greatest = records.iter().map(|record| record.timestamp).max();
    let expected = records
        .iter()
        .find(|record| Some(record.timestamp) == greatest)
        .map(plain);
    let found = log.search(Wanted::Greatest, below).run().await.unwrap();
    assert_eq!(
        found.map(|found| (found.0, found.1)),
        expected,
        "below {below}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_a_list_of_batches_whatever_happens(
        steps in proptest::collection::vec(step(), 1..40),
        bytes_max in 1..3000_usize,
        timestamps in prop_oneof![Just(Timestamps::Append), Just(Timestamps::Create)],
    ) {
        run(async move {
            let dir = tempfile::tempdir().unwrap();
            let (mut log, _) = open(&dir, SMALL).await;
            let mut batches = Vec::new();
            let mut clock = 0;
            for step in steps {
                match step {
                    Step::Append { timestamps: sent, value_bytes } => {
                        clock += sent[0] % 7;
                        let batch = batch(&sent, value_bytes);
                        batches.push(log.append(batch, timestamps, Timestamp(clock)).unwrap());
                    }
                    Step::Flush => flush(&mut log).await,
                    Step::Close => {
                        log.close().await.unwrap();
                        log = open(&dir, SMALL).await.0;
                    }
                    Step::Kill => {
                        kill(log);
                        log = open(&dir, SMALL).await.0;
                    }
                    Step::Promote => {
                        kill(log);
                        let opening = Opening { now: Timestamp(clock), ..promotion() };
                        log = Log::open(dir.path(), SMALL, opening).await.unwrap().0;
                    }
                }
            }
            check(&log, &batches, bytes_max).await;
        });
    }
}
