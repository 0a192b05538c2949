//! ListOffsets: ends of logs, and offsets by time.

use crate::bench::{Bench, OWN_CLOCK, clicks};
use crate::model::{APPEND_TIME, GENERATION};
use crate::produce::name;
use felix_core::{ShardError, ShardId};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::{ApiKey, BrokerId, ListOffsetsRequest, ListOffsetsResponse};

fn part(partition: i32, timestamp: i64) -> ListOffsetsPartition {
    ListOffsetsPartition::default()
        .with_partition_index(partition)
        .with_timestamp(timestamp)
        .with_current_leader_epoch(-1)
}

fn request(topics: Vec<(&str, Vec<ListOffsetsPartition>)>) -> ListOffsetsRequest {
    let topics = topics
        .into_iter()
        .map(|(topic, parts)| {
            ListOffsetsTopic::default()
                .with_name(name(topic))
                .with_partitions(parts)
        })
        .collect();
    ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(topics)
}

fn ask(bench: &mut Bench, version: i16, request: &ListOffsetsRequest) -> ListOffsetsResponse {
    let mut client = bench.connect();
    let id = client.send(ApiKey::ListOffsets, version, request);
    bench.turn();
    client.answer(ApiKey::ListOffsets, version, id)
}

/// Code, offset, timestamp.
fn told(partition: &ListOffsetsPartitionResponse) -> (i16, i64, i64) {
    (partition.error_code, partition.offset, partition.timestamp)
}

fn one(bench: &mut Bench, version: i16, timestamp: i64) -> ListOffsetsPartitionResponse {
    let request = request(vec![("default.clicks", vec![part(0, timestamp)])]);
    let response = ask(bench, version, &request);
    response.topics[0].partitions[0].clone()
}

#[test]
fn ends_and_times_are_found_at_every_version() {
    for version in 1..=8 {
        let mut bench = Bench::new();
        bench.publish(clicks(0), &["a", "b", "c"]);
        bench.publish(clicks(0), &["d"]);
        bench.log(clicks(0), |log| log.log_start = 1);
        assert_eq!(told(&one(&mut bench, version, -2)), (0, 1, -1));
        assert_eq!(told(&one(&mut bench, version, -1)), (0, 4, -1));
        let at = APPEND_TIME.0;
        assert_eq!(told(&one(&mut bench, version, 0)), (0, 0, at));
        assert_eq!(told(&one(&mut bench, version, at)), (0, 0, at));
        assert_eq!(
            told(&one(&mut bench, version, at + 1)),
            (0, -1, -1),
            "nothing found"
        );
        let greatest = if version >= 7 {
            (0, 0, at)
        } else {
            (35, -1, -1)
        };
        assert_eq!(told(&one(&mut bench, version, -3)), greatest);
        let local = if version >= 8 {
            (0, 1, -1)
        } else {
            (35, -1, -1)
        };
        assert_eq!(told(&one(&mut bench, version, -4)), local);
        for never in [-5, -6, i64::MIN] {
            assert_eq!(told(&one(&mut bench, version, never)), (35, -1, -1));
        }
        if version >= 4 {
            assert_eq!(
                one(&mut bench, version, -1).leader_epoch,
                GENERATION.to_wire()
            );
        }
    }
}

#[test]
fn an_empty_log_begins_and_ends_at_zero_and_holds_no_time() {
    let mut bench = Bench::new();
    assert_eq!(told(&one(&mut bench, 8, -2)), (0, 0, -1));
    assert_eq!(told(&one(&mut bench, 8, -1)), (0, 0, -1));
    assert_eq!(told(&one(&mut bench, 8, -3)), (0, -1, -1));
    assert_eq!(told(&one(&mut bench, 8, 0)), (0, -1, -1));
}

#[test]
fn readers_of_committed_records_are_told_the_same_end() {
    let mut bench = Bench::new();
    bench.publish(clicks(0), &["a"]);
    let request = request(vec![("default.clicks", vec![part(0, -1)])]).with_isolation_level(1);
    let response = ask(&mut bench, 8, &request);
    assert_eq!(told(&response.topics[0].partitions[0]), (0, 1, -1));
}

#[test]
fn answers_keep_the_order_asked_and_a_partition_named_twice_is_refused() {
    let mut bench = Bench::new();
    bench.publish(
        ShardId {
            stream: OWN_CLOCK,
            index: 1,
        },
        &["a", "b"],
    );
    let request = request(vec![
        ("default.nothing", vec![part(0, -1)]),
        (
            "default.own-clock",
            vec![part(1, -1), part(3, -1), part(2, -1), part(0, -1)],
        ),
        ("default.write-only", vec![part(0, -1)]),
        // The same topic under its other name.
        ("own-clock", vec![part(2, -2)]),
    ]);
    let response = ask(&mut bench, 5, &request);
    let told: Vec<Vec<_>> = response
        .topics
        .iter()
        .map(|topic| {
            let partitions = topic.partitions.iter();
            partitions
                .map(|p| (p.partition_index, p.error_code, p.offset))
                .collect()
        })
        .collect();
    let own_clock = vec![(1, 0, 2), (3, 3, -1), (2, 42, -1), (0, 0, 0)];
    assert_eq!(
        told,
        [
            vec![(0, 3, -1)],
            own_clock,
            vec![(0, 29, -1)],
            vec![(2, 42, -1)]
        ]
    );
}

#[test]
fn who_does_not_lead_says_so_and_gives_no_offset() {
    for (error, code) in [
        (ShardError::NotLeader, 6),
        (ShardError::Opening, 5),
        (
            ShardError::FencedGeneration {
                current: GENERATION,
            },
            74,
        ),
        (
            ShardError::UnknownGeneration {
                current: GENERATION,
            },
            75,
        ),
        (ShardError::Storage("x".into()), 56),
    ] {
        let mut bench = Bench::new();
        bench.log(clicks(0), |log| log.read_error = Some(error));
        assert_eq!(told(&one(&mut bench, 8, -1)), (code, -1, -1));
    }
}
