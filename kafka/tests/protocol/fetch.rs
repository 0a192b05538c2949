//! Fetch: records, ends, and long polls.

use crate::bench::{Bench, OWN_CLOCK, batch_bytes, clicks};
use crate::client::Client;
use crate::model::{Event, GENERATION};
use crate::produce::name;
use bytes::Bytes;
use felix_core::batch::{BatchBuilder, Codec};
use felix_core::shards::Append;
use felix_core::{Batch, Offset, ShardError, ShardId, Timestamp};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{ApiKey, BrokerId, FetchRequest, FetchResponse};
use kafka_protocol::records::RecordBatchDecoder;
use std::time::Duration;

pub(crate) fn part(partition: i32, offset: i64) -> FetchPartition {
    FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_current_leader_epoch(-1)
        .with_log_start_offset(-1)
        .with_partition_max_bytes(1 << 20)
}

pub(crate) fn fetch_parts(topics: Vec<(&str, Vec<FetchPartition>)>) -> FetchRequest {
    let topics = topics
        .into_iter()
        .map(|(topic, parts)| {
            FetchTopic::default()
                .with_topic(name(topic))
                .with_partitions(parts)
        })
        .collect();
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(5000)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(topics)
}

/// A request that waits up to 5 s for a byte.
pub(crate) fn fetch(topic: &str, partition: i32, offset: i64) -> FetchRequest {
    fetch_parts(vec![(topic, vec![part(partition, offset)])])
}

fn begin(bench: &mut Bench, version: i16, request: &FetchRequest) -> (Client, i32) {
    let mut client = bench.connect();
    let id = client.send(ApiKey::Fetch, version, request);
    bench.turn();
    (client, id)
}

fn ask(bench: &mut Bench, version: i16, request: &FetchRequest) -> FetchResponse {
    let (mut client, id) = begin(bench, version, request);
    client.answer(ApiKey::Fetch, version, id)
}

fn only(response: &FetchResponse) -> &PartitionData {
    assert_eq!(response.responses.len(), 1);
    assert_eq!(response.responses[0].partitions.len(), 1);
    &response.responses[0].partitions[0]
}

fn values(partition: &PartitionData) -> Vec<(i64, String)> {
    let mut records: Bytes = partition.records.clone().unwrap();
    let sets = RecordBatchDecoder::decode_all(&mut records).unwrap();
    let records = sets.into_iter().flat_map(|set| set.records);
    records
        .map(|record| {
            (
                record.offset,
                String::from_utf8(record.value.unwrap().to_vec()).unwrap(),
            )
        })
        .collect()
}

fn ends(partition: &PartitionData) -> (i64, i64, i64) {
    (
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
    )
}

#[test]
fn records_come_back_at_every_version_with_the_ends_of_the_log() {
    for version in 4..=12 {
        let mut bench = Bench::new();
        bench.publish(clicks(0), &["a", "b"]);
        bench.publish(clicks(0), &["c"]);
        let response = ask(&mut bench, version, &fetch("default.clicks", 0, 1));
        let partition = only(&response);
        assert_eq!(partition.error_code, 0);
        let expected = [(0, "a"), (1, "b"), (2, "c")].map(|(at, value)| (at, value.to_owned()));
        assert_eq!(
            values(partition),
            expected,
            "the batch that holds offset 1 comes whole"
        );
        assert_eq!(ends(partition), (3, 3, if version >= 5 { 0 } else { -1 }));
        assert_eq!(partition.aborted_transactions, None);
        assert_eq!(partition.preferred_read_replica, BrokerId(-1));
        assert_eq!(response.session_id, 0);
    }
}

#[test]
fn a_poll_waits_and_is_woken_by_the_commit() {
    let mut bench = Bench::new();
    let (mut client, id) = begin(&mut bench, 11, &fetch("default.clicks", 0, 0));
    assert!(client.is_unanswered());
    bench.publish(clicks(1), &["elsewhere"]);
    assert!(client.is_unanswered());
    bench.publish(clicks(0), &["here"]);
    let response: FetchResponse = client.answer(ApiKey::Fetch, 11, id);
    assert_eq!(values(only(&response)), [(0, "here".to_owned())]);
}

#[test]
fn a_poll_ends_at_its_deadline_with_no_records_and_at_most_after_30_seconds() {
    for (asked, wait) in [(100, 100), (i32::MAX, 30_000)] {
        let mut bench = Bench::new();
        bench.wait(Duration::from_secs(1000));
        let request = fetch("default.clicks", 0, 0).with_max_wait_ms(asked);
        let (mut client, id) = begin(&mut bench, 11, &request);
        bench.wait(Duration::from_millis(wait - 1));
        assert!(client.is_unanswered());
        bench.wait(Duration::from_millis(1));
        let response: FetchResponse = client.answer(ApiKey::Fetch, 11, id);
        assert_eq!(only(&response).error_code, 0);
        assert!(only(&response).records.as_ref().unwrap().is_empty());
    }
}

#[test]
fn no_wait_and_no_minimum_answer_at_once_and_nonsense_counts_as_none() {
    let request = fetch("default.clicks", 0, 0);
    for request in [
        request.clone().with_max_wait_ms(0),
        request.clone().with_max_wait_ms(-5),
        request.clone().with_min_bytes(0),
        request.with_min_bytes(-1),
    ] {
        let mut bench = Bench::new();
        assert_eq!(only(&ask(&mut bench, 11, &request)).error_code, 0);
    }
    let mut bench = Bench::new();
    let nothing = fetch_parts(Vec::new());
    assert!(ask(&mut bench, 11, &nothing).responses.is_empty());
}

#[test]
fn a_poll_waits_for_its_minimum_of_bytes() {
    let mut bench = Bench::new();
    let size = i32::try_from(batch_bytes(&["a"]).len()).unwrap();
    let request = fetch("default.clicks", 0, 0).with_min_bytes(size + 1);
    let (mut client, id) = begin(&mut bench, 11, &request);
    bench.publish(clicks(0), &["a"]);
    assert!(client.is_unanswered());
    bench.publish(clicks(0), &["b"]);
    let response: FetchResponse = client.answer(ApiKey::Fetch, 11, id);
    assert_eq!(values(only(&response)).len(), 2);
}

#[test]
fn one_whole_batch_comes_however_few_bytes_are_allowed() {
    let mut bench = Bench::new();
    bench.publish(clicks(0), &["a", "b"]);
    bench.publish(clicks(0), &["c"]);
    bench.publish(clicks(1), &["d"]);
    for (max_bytes, partition_max_bytes) in [(1, 1), (0, 0), (-1, i32::MIN), (1 << 20, 1)] {
        let parts =
            [1, 0].map(|index| part(index, 0).with_partition_max_bytes(partition_max_bytes));
        let request =
            fetch_parts(vec![("default.clicks", parts.to_vec())]).with_max_bytes(max_bytes);
        let response = ask(&mut bench, 11, &request);
        let partitions = &response.responses[0].partitions;
        assert_eq!(values(&partitions[0]), [(0, "d".to_owned())]);
        assert!(partitions[1].records.as_ref().unwrap().is_empty());
    }
}

#[test]
fn an_offset_outside_the_log_is_out_of_range_with_its_ends() {
    for offset in [-1, i64::MIN, 1, 6, i64::MAX] {
        let mut bench = Bench::new();
        bench.publish(clicks(0), &["a", "b", "c", "d", "e"]);
        bench.log(clicks(0), |log| log.log_start = 2);
        let response = ask(&mut bench, 11, &fetch("default.clicks", 0, offset));
        let partition = only(&response);
        assert_eq!(partition.error_code, 1, "{offset}");
        assert_eq!(ends(partition), (5, 5, 2));
    }
}

#[test]
fn a_negative_offset_is_out_of_range_also_where_the_log_begins_at_zero() {
    let mut bench = Bench::new();
    bench.publish(clicks(0), &["a"]);
    let response = ask(&mut bench, 11, &fetch("default.clicks", 0, -1));
    assert_eq!(only(&response).error_code, 1);
    assert_eq!(ends(only(&response)), (1, 1, 0));
}

#[test]
fn the_end_of_the_log_waits_also_past_the_visible_end() {
    for offset in [1, 2] {
        let mut bench = Bench::new();
        bench.publish(clicks(0), &["a"]);
        bench.log(clicks(0), |log| log.log_end = 2);
        let (mut client, _) = begin(&mut bench, 11, &fetch("default.clicks", 0, offset));
        assert!(client.is_unanswered());
    }
}

#[test]
fn leader_epochs_are_checked_from_version_9() {
    let epoch = GENERATION.to_wire();
    for (asked, code) in [(epoch - 1, 74), (epoch, 0), (epoch + 1, 75), (-1, 0)] {
        let mut bench = Bench::new();
        bench.publish(clicks(0), &["a"]);
        let parts = vec![part(0, 0).with_current_leader_epoch(asked)];
        let response = ask(&mut bench, 9, &fetch_parts(vec![("default.clicks", parts)]));
        assert_eq!(only(&response).error_code, code);
    }
}

#[test]
fn sessions_are_declined_and_one_from_elsewhere_is_told_to_begin_anew() {
    for (session, epoch, code) in [
        (0, 0, 0),
        (0, -1, 0),
        (5, 0, 0),
        (5, -1, 0),
        (5, 1, 70),
        (0, 1, 70),
        (-3, 9, 70),
    ] {
        let mut bench = Bench::new();
        bench.publish(clicks(0), &["a"]);
        let request = fetch("default.clicks", 0, 0)
            .with_session_id(session)
            .with_session_epoch(epoch);
        let response = ask(&mut bench, 11, &request);
        assert_eq!((response.error_code, response.session_id), (code, 0));
        assert_eq!(response.responses.len(), usize::from(code == 0));
    }
}

#[test]
fn an_error_is_told_at_once_and_answers_keep_the_order_asked() {
    let mut bench = Bench::new();
    let request = fetch_parts(vec![
        (
            "default.own-clock",
            vec![part(2, 0), part(9, 0), part(0, 0)],
        ),
        ("default.nothing", vec![part(0, 0)]),
        ("default.write-only", vec![part(1, 0)]),
        ("default.read-only", vec![part(1, 0)]),
        ("default.hidden", vec![part(0, 0)]),
    ]);
    let response = ask(&mut bench, 11, &request);
    let got: Vec<(String, Vec<(i32, i16)>)> = response
        .responses
        .iter()
        .map(|topic| {
            let partitions = topic.partitions.iter();
            let partitions = partitions
                .map(|p| (p.partition_index, p.error_code))
                .collect();
            (topic.topic.to_string(), partitions)
        })
        .collect();
    let expected = [
        ("default.own-clock", vec![(2, 0), (9, 3), (0, 0)]),
        ("default.nothing", vec![(0, 3)]),
        ("default.write-only", vec![(1, 29)]),
        ("default.read-only", vec![(1, 0)]),
        ("default.hidden", vec![(0, 3)]),
    ];
    assert_eq!(
        got,
        expected.map(|(topic, partitions)| (topic.to_owned(), partitions))
    );
}

#[test]
fn what_a_shard_says_is_told_in_words_that_consumers_know() {
    for (error, code) in [
        (ShardError::Unknown, 3),
        // The Java consumer throws over LEADER_NOT_AVAILABLE (5) here.
        (ShardError::Opening, 6),
        (ShardError::NotLeader, 6),
        (ShardError::ShuttingDown, 6),
        (ShardError::Storage("x".into()), 56),
    ] {
        let mut bench = Bench::new();
        bench.log(clicks(0), |log| log.read_error = Some(error.clone()));
        let response = ask(&mut bench, 11, &fetch("default.clicks", 0, 0));
        assert_eq!(only(&response).error_code, code, "{error}");
        assert_eq!(ends(only(&response)), (-1, -1, -1));
    }
}

#[test]
fn zstd_is_kept_from_clients_too_old_to_read_it() {
    let mut bench = Bench::new();
    let batch = BatchBuilder::new()
        .codec(Codec::Zstd)
        .record(Timestamp(1), None, Some(b"a"))
        .build();
    let shard = ShardId {
        stream: OWN_CLOCK,
        index: 0,
    };
    let batch = Batch::parse(batch).unwrap();
    bench.shards.0.borrow_mut().publish(Append { shard, batch });
    for version in 4..=12 {
        let response = ask(&mut bench, version, &fetch("default.own-clock", 0, 0));
        assert_eq!(
            only(&response).error_code,
            if version < 10 { 76 } else { 0 }
        );
    }
}

#[test]
fn a_peer_that_vanishes_takes_its_polls_along() {
    let mut bench = Bench::new();
    let (client, _) = begin(&mut bench, 11, &fetch("default.clicks", 0, 0));
    assert_eq!(bench.served(), 1);
    client.peer.vanish();
    bench.turn();
    assert_eq!(bench.served(), 0);
    assert!(client.peer.is_dropped());
    bench.publish(clicks(0), &["a"]);
    assert!(
        !bench.events().contains(&Event::FetchEnded),
        "nobody reads for it any more"
    );
}

#[test]
fn later_fetches_of_a_connection_share_what_the_first_left_of_its_memory() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    client.send(
        ApiKey::Fetch,
        11,
        &fetch("default.clicks", 0, 0).with_max_bytes(10 << 20),
    );
    client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    bench.turn();
    let shares: Vec<_> = bench
        .shards
        .0
        .borrow()
        .fetches
        .iter()
        .map(|fetch| fetch.bytes_max)
        .collect();
    assert_eq!(shares, [10 << 20, 6 << 20, 1 << 20]);
    assert_eq!(
        bench.shards.0.borrow().fetches[0].parts[0].offset,
        Offset::ZERO
    );
}

#[test]
fn fetched_bytes_are_counted() {
    let mut bench = Bench::new();
    bench.publish(clicks(0), &["a"]);
    ask(&mut bench, 11, &fetch("default.clicks", 0, 0));
    let size = u64::try_from(batch_bytes(&["a"]).len()).unwrap();
    assert_eq!(bench.context.metrics.fetch_bytes.value(), size);
}

#[test]
fn a_partition_named_twice_is_refused_each_time_and_the_others_are_read() {
    let mut bench = Bench::new();
    bench.publish(clicks(0), &["a"]);
    bench.publish(clicks(1), &["b"]);
    let topics = vec![
        ("default.clicks", vec![part(0, 0), part(1, 0), part(2, 0)]),
        ("default.clicks", vec![part(0, 0)]),
        // The same topic under its other name.
        ("clicks", vec![part(2, 0)]),
        // There is no such partition, however often.
        ("clicks", vec![part(9, 0), part(9, 0)]),
    ];
    let response = ask(&mut bench, 11, &fetch_parts(topics));
    let parts = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions);
    let told: Vec<_> = parts
        .map(|part| (part.partition_index, part.error_code))
        .collect();
    let clicks = [(0, 42), (1, 0), (2, 42), (0, 42), (2, 42)];
    assert_eq!(told, [&clicks[..], &[(9, 3), (9, 3)]].concat());
}

/// Has a client read partitions 0 to 2 in this order, each from its offset there, for one batch at a
/// time; which one is brought records of.
fn read_one_of_three(bench: &mut Bench, client: &mut Client, offsets: &mut [i64; 3]) -> usize {
    let parts = (0..)
        .zip(&*offsets)
        .map(|(index, offset)| part(index, *offset));
    let request = fetch_parts(vec![("default.clicks", parts.collect())]).with_max_bytes(1);
    let id = client.send(ApiKey::Fetch, 11, &request);
    bench.turn();
    let response: FetchResponse = client.answer(ApiKey::Fetch, 11, id);
    let partitions = &response.responses[0].partitions;
    let indexes = partitions.iter().map(|partition| partition.partition_index);
    assert_eq!(indexes.collect::<Vec<_>>(), [0, 1, 2], "in the order asked");
    let has_records = |at: &usize| !partitions[*at].records.as_ref().unwrap().is_empty();
    let brought: Vec<usize> = (0..3).filter(has_records).collect();
    assert_eq!(brought.len(), 1, "one byte is asked for");
    offsets[brought[0]] += 1;
    brought[0]
}

#[test]
fn a_reader_of_few_bytes_that_always_asks_in_the_same_order_is_brought_every_partition() {
    let mut bench = Bench::new();
    for index in 0..3 {
        for _ in 0..4 {
            bench.publish(clicks(index), &["a"]);
        }
    }
    let mut client = bench.connect();
    let mut offsets = [0; 3];
    let mut read = || read_one_of_three(&mut bench, &mut client, &mut offsets);
    let brought: Vec<usize> = (0..9).map(|_| read()).collect();
    assert_eq!(brought, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    // Another connection begins where it asks to.
    let mut other = bench.connect();
    assert_eq!(read_one_of_three(&mut bench, &mut other, &mut [0; 3]), 0);
}

#[test]
fn partitions_that_have_nothing_cost_the_others_no_turn() {
    let mut bench = Bench::new();
    for index in [0, 2] {
        for _ in 0..3 {
            bench.publish(clicks(index), &["a"]);
        }
    }
    let mut client = bench.connect();
    let mut offsets = [0; 3];
    let mut read = || read_one_of_three(&mut bench, &mut client, &mut offsets);
    let brought: Vec<usize> = (0..6).map(|_| read()).collect();
    assert_eq!(brought, [0, 2, 0, 2, 0, 2]);
}
