//! OffsetForLeaderEpoch: where the records of a leader epoch end.

use crate::bench::{Bench, clicks};
use crate::model::GENERATION;
use crate::produce::name;
use felix_core::{Generation, ShardError};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{ApiKey, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

/// Partition, the epoch believed in, the epoch asked for.
type Asked = (i32, i32, i32);

/// Partition, code, epoch, end.
type Told = (i32, i16, i32, i64);

fn ask(bench: &mut Bench, version: i16, topics: &[(&str, Vec<Asked>)]) -> Vec<Vec<Told>> {
    let partition = |(index, believed, asked): &Asked| {
        OffsetForLeaderPartition::default()
            .with_partition(*index)
            .with_current_leader_epoch(*believed)
            .with_leader_epoch(*asked)
    };
    let topic = |(topic, asked): &(&str, Vec<Asked>)| {
        OffsetForLeaderTopic::default()
            .with_topic(name(topic))
            .with_partitions(asked.iter().map(partition).collect())
    };
    let topics = topics.iter().map(topic).collect();
    let request = OffsetForLeaderEpochRequest::default().with_topics(topics);
    let mut client = bench.connect();
    let id = client.send(ApiKey::OffsetForLeaderEpoch, version, &request);
    bench.turn();
    let answer: OffsetForLeaderEpochResponse =
        client.answer(ApiKey::OffsetForLeaderEpoch, version, id);
    let told = answer.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let told = partitions.map(|p| (p.partition, p.error_code, p.leader_epoch, p.end_offset));
        told.collect()
    });
    told.collect()
}

/// The answer about partition 0 of a log whose epochs 2, 4 and 7 end at 10, 30 and 42.
fn one(version: i16, believed: i32, asked: i32) -> Told {
    let mut bench = Bench::new();
    bench.log(clicks(0), |log| {
        let ends = [(2, 10), (4, 30), (7, 42)];
        log.ends = ends.map(|(of, end)| (Generation::new(of), end)).into();
    });
    ask(
        &mut bench,
        version,
        &[("default.clicks", vec![(0, believed, asked)])],
    )[0][0]
}

#[test]
fn an_epoch_ends_where_it_does_and_one_without_records_where_the_one_before_it_does() {
    for version in 2..=4 {
        for (asked, epoch, end) in [(2, 2, 10), (3, 2, 10), (4, 4, 30), (6, 4, 30), (7, 7, 42)] {
            for believed in [-1, GENERATION.to_wire()] {
                assert_eq!(one(version, believed, asked), (0, 0, epoch, end));
            }
        }
    }
}

#[test]
fn an_epoch_that_there_is_not_has_no_end_and_that_is_no_error() {
    for version in 2..=4 {
        for asked in [8, i32::MAX, -1, i32::MIN] {
            assert_eq!(one(version, -1, asked), (0, 0, -1, -1));
        }
    }
}

#[test]
fn who_believes_in_another_leader_is_told_so_whatever_it_asks() {
    let current = GENERATION.to_wire();
    for version in 2..=4 {
        for asked in [-1, 2, 99] {
            assert_eq!(one(version, current - 1, asked), (0, 74, -1, -1));
            assert_eq!(one(version, current + 1, asked), (0, 75, -1, -1));
        }
    }
}

#[test]
fn what_may_not_be_read_has_no_epochs_and_answers_keep_the_order_asked() {
    let mut bench = Bench::new();
    let told = ask(
        &mut bench,
        4,
        &[
            ("default.write-only", vec![(0, -1, 1)]),
            ("default.hidden", vec![(0, -1, 1)]),
            (
                "default.clicks",
                vec![(3, -1, 1), (2, -1, 99), (1, -1, 1), (1, -1, 1)],
            ),
            ("default.read-only", vec![(0, -1, 99)]),
        ],
    );
    let clicks = vec![
        (3, 3, -1, -1),
        (2, 0, -1, -1),
        (1, 42, -1, -1),
        (1, 42, -1, -1),
    ];
    assert_eq!(
        told,
        [
            vec![(0, 29, -1, -1)],
            vec![(0, 3, -1, -1)],
            clicks,
            vec![(0, 0, -1, -1)],
        ]
    );
    let mut nobody = Bench::with_anonymous(false);
    let told = ask(&mut nobody, 2, &[("default.clicks", vec![(0, -1, 1)])]);
    assert_eq!(told, [[(0, 29, -1, -1)]]);
    assert_eq!(nobody.events(), [], "no shard was asked");
}

#[test]
fn who_does_not_lead_says_so() {
    for (error, code) in [
        (ShardError::NotLeader, 6),
        (ShardError::ShuttingDown, 6),
        (ShardError::Opening, 5),
        (ShardError::Storage("x".into()), 56),
    ] {
        let mut bench = Bench::new();
        bench.log(clicks(0), |log| log.read_error = Some(error));
        let told = ask(&mut bench, 3, &[("default.clicks", vec![(0, -1, 7)])]);
        assert_eq!(told, [[(0, code, -1, -1)]]);
    }
}
