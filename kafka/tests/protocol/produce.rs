//! Produce: offsets, times and every refusal.

use crate::bench::{Bench, OWN_CLOCK, batch_bytes, clicks};
use crate::model::{APPEND_TIME, Event};
use bytes::{Bytes, BytesMut};
use felix_core::batch::{BatchBuilder, Codec};
use felix_core::shards::Acks;
use felix_core::{Monotonic, Offset, ShardError, ShardId, Timestamp};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    ApiKey, ProduceRequest, ProduceResponse, TopicName, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use std::time::Duration;

pub(crate) const TRANSACTION_REFUSAL: &str = "Felix does not support Kafka transactions; unset \
                                              transactional.id. See docs/kafka-compatibility.md";

pub(crate) fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// A request that writes these bytes to one partition.
pub(crate) fn produce_bytes(
    topic: &str,
    partition: i32,
    records: Option<Bytes>,
    acks: i16,
) -> ProduceRequest {
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(1000)
        .with_topic_data(vec![
            TopicProduceData::default()
                .with_name(name(topic))
                .with_partition_data(vec![
                    PartitionProduceData::default()
                        .with_index(partition)
                        .with_records(records),
                ]),
        ])
}

/// A request that writes these values to one partition.
pub(crate) fn produce(topic: &str, partition: i32, values: &[&str], acks: i16) -> ProduceRequest {
    produce_bytes(topic, partition, Some(batch_bytes(values).freeze()), acks)
}

/// The one partition of an answer.
pub(crate) fn produced(response: &ProduceResponse) -> &PartitionProduceResponse {
    assert_eq!(response.responses.len(), 1);
    assert_eq!(response.responses[0].partition_responses.len(), 1);
    &response.responses[0].partition_responses[0]
}

fn ask(bench: &mut Bench, version: i16, request: &ProduceRequest) -> ProduceResponse {
    let mut client = bench.connect();
    let id = client.send(ApiKey::Produce, version, request);
    bench.turn();
    client.answer(ApiKey::Produce, version, id)
}

/// The answer to these bytes at version 9: code and sentence.
fn refused(records: BytesMut) -> (i16, String) {
    let mut bench = Bench::new();
    let request = produce_bytes("default.clicks", 0, Some(records.freeze()), -1);
    let response = ask(&mut bench, 9, &request);
    assert_eq!(bench.events(), [], "nothing is written");
    let partition = produced(&response);
    assert_eq!(partition.base_offset, -1);
    (
        partition.error_code,
        partition.error_message.as_ref().unwrap().to_string(),
    )
}

/// A batch with some bytes changed and, if asked, the checksum made right again.
fn changed(values: &[&str], resum: bool, change: impl FnOnce(&mut [u8])) -> BytesMut {
    let mut bytes = batch_bytes(values);
    change(&mut bytes);
    if resum {
        let crc = crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

/// CRC-32C, bit by bit: slow and plain.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

#[test]
fn the_answer_has_the_offset_and_the_append_time_where_the_stream_uses_it() {
    for version in 3..=11 {
        let mut bench = Bench::new();
        bench.publish(clicks(1), &["before"]);
        let response = ask(
            &mut bench,
            version,
            &produce("default.clicks", 1, &["a", "b"], -1),
        );
        let partition = produced(&response);
        assert_eq!((partition.error_code, partition.base_offset), (0, 1));
        assert_eq!(partition.log_append_time_ms, APPEND_TIME.0);
        assert_eq!(
            partition.log_start_offset,
            if version >= 5 { 0 } else { -1 }
        );

        let response = ask(
            &mut bench,
            version,
            &produce("default.own-clock", 1, &["a"], 1),
        );
        let partition = produced(&response);
        assert_eq!(
            (partition.error_code, partition.log_append_time_ms),
            (0, -1)
        );
    }
}

#[test]
fn a_topic_without_a_dot_means_the_default_namespace() {
    let mut bench = Bench::new();
    let response = ask(&mut bench, 9, &produce("clicks", 0, &["a"], 1));
    assert_eq!(produced(&response).error_code, 0);
    assert_eq!(response.responses[0].name, name("clicks"));
    bench.log(clicks(0), |log| assert_eq!(log.log_end, 1));
}

#[test]
fn partitions_of_one_request_stand_alone() {
    let mut bench = Bench::new();
    let good = |index| {
        PartitionProduceData::default()
            .with_index(index)
            .with_records(Some(batch_bytes(&["a"]).freeze()))
    };
    let torn = PartitionProduceData::default()
        .with_index(1)
        .with_records(Some(
            changed(&["b"], false, |bytes| bytes[68] ^= 1).freeze(),
        ));
    bench.log(clicks(2), |log| {
        log.append_error = Some(ShardError::NotLeader)
    });
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_topic_data(vec![
            TopicProduceData::default()
                .with_name(name("default.clicks"))
                .with_partition_data(vec![good(2), torn, good(0), good(3)]),
            TopicProduceData::default()
                .with_name(name("default.nothing"))
                .with_partition_data(vec![good(0)]),
            TopicProduceData::default()
                .with_name(name("default.own-clock"))
                .with_partition_data(vec![good(0)]),
        ]);
    let response = ask(&mut bench, 9, &request);
    let codes: Vec<Vec<_>> = response
        .responses
        .iter()
        .map(|topic| {
            topic
                .partition_responses
                .iter()
                .map(|p| (p.index, p.error_code))
                .collect()
        })
        .collect();
    assert_eq!(
        codes,
        [
            vec![(2, 6), (1, 2), (0, 0), (3, 3)],
            vec![(0, 3)],
            vec![(0, 0)]
        ]
    );
    let own_clock = ShardId {
        stream: OWN_CLOCK,
        index: 0,
    };
    bench.log(own_clock, |log| assert_eq!(log.log_end, 1));
}

#[test]
fn acks_choose_what_is_waited_for_and_others_are_refused() {
    let mut bench = Bench::new();
    ask(&mut bench, 9, &produce("default.clicks", 0, &["a"], 1));
    ask(&mut bench, 9, &produce("default.clicks", 0, &["a"], -1));
    let queued: Vec<_> = bench
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Queued { acks, .. } => Some(acks),
            Event::Committed { .. }
            | Event::FetchBegun
            | Event::FetchEnded
            | Event::OffsetsAsked => None,
        })
        .collect();
    assert_eq!(queued, [Acks::Leader, Acks::All]);
    for acks in [-2, 2, i16::MAX] {
        let response = ask(&mut bench, 9, &produce("default.clicks", 0, &["a"], acks));
        assert_eq!(produced(&response).error_code, 21);
        let sentence = produced(&response).error_message.as_ref().unwrap();
        assert_eq!(sentence.as_str(), "acks must be 0, 1 or all (-1)");
    }
    assert_eq!(bench.events(), []);
}

#[test]
fn acks_zero_writes_and_sends_no_byte() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["a"], 0));
    let heard = client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["b"], 1));
    bench.turn();
    let heard: ProduceResponse = client.answer(ApiKey::Produce, 9, heard);
    assert_eq!(produced(&heard).base_offset, 1, "the silent one came first");
    assert!(client.is_unanswered());
    assert!(!client.peer.is_closed());
}

#[test]
fn acks_zero_that_fails_closes_after_earlier_answers() {
    let unknown = produce("default.nothing", 0, &["a"], 0);
    let torn = changed(&["b"], false, |bytes| bytes[68] ^= 1).freeze();
    let corrupt = produce_bytes("default.clicks", 0, Some(torn), 0);
    let refused_by_shard = produce("default.clicks", 2, &["a"], 0);
    for request in [unknown, corrupt, refused_by_shard] {
        let mut bench = Bench::new();
        bench.log(clicks(2), |log| {
            log.append_error = Some(ShardError::Storage("x".into()))
        });
        let commits = bench.hold_commits();
        let mut client = bench.connect();
        let first = client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["a"], 1));
        client.send(ApiKey::Produce, 9, &request);
        bench.turn();
        assert!(!client.peer.is_closed());
        commits.raise();
        bench.turn();
        let first: ProduceResponse = client.answer(ApiKey::Produce, 9, first);
        assert_eq!(produced(&first).error_code, 0);
        assert!(client.is_unanswered());
        assert!(client.peer.is_closed());
        assert_eq!(bench.served(), 0);
        assert_eq!(bench.context.metrics.protocol_errors.value(), 1);
    }
}

#[test]
fn a_connection_that_closes_waits_for_nothing_behind_the_failure() {
    let mut bench = Bench::new();
    bench.log(clicks(2), |log| {
        log.append_error = Some(ShardError::NotLeader)
    });
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 2, &["lost"], 0),
    );
    bench.turn();
    let _never = bench.hold_queues();
    client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["a"], 1));
    bench.turn();
    assert!(!client.peer.is_closed());
    commits.raise();
    bench.turn();
    assert!(client.peer.is_closed());
    assert!(client.is_unanswered());
}

#[test]
fn versions_before_batches_are_refused_for_each_partition_and_the_connection_stays() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    // A version before 3 has no transactional id; the rest of the layout is the same.
    for version in 0..=2_i16 {
        let mut frame = Vec::new();
        frame.extend_from_slice(&[0, 0]);
        frame.extend_from_slice(&version.to_be_bytes());
        frame.extend_from_slice(&7_i32.to_be_bytes());
        frame.extend_from_slice(&[0, 1, b'c']);
        frame.extend_from_slice(&[0, 1]); // acks
        frame.extend_from_slice(&1000_i32.to_be_bytes());
        frame.extend_from_slice(&1_i32.to_be_bytes());
        frame.extend_from_slice(&[0, 6]);
        frame.extend_from_slice(b"clicks");
        frame.extend_from_slice(&1_i32.to_be_bytes());
        frame.extend_from_slice(&2_i32.to_be_bytes());
        frame.extend_from_slice(&4_i32.to_be_bytes());
        frame.extend_from_slice(b"blah");
        client.peer.send(&crate::client::framed(&frame));
        bench.turn();
        let answer = client.take().unwrap();
        let mut expected = 7_i32.to_be_bytes().to_vec();
        expected.extend_from_slice(&1_i32.to_be_bytes());
        expected.extend_from_slice(&[0, 6]);
        expected.extend_from_slice(b"clicks");
        expected.extend_from_slice(&1_i32.to_be_bytes());
        expected.extend_from_slice(&2_i32.to_be_bytes());
        expected.extend_from_slice(&43_i16.to_be_bytes());
        expected.extend_from_slice(&(-1_i64).to_be_bytes());
        if version >= 2 {
            expected.extend_from_slice(&(-1_i64).to_be_bytes());
        }
        if version >= 1 {
            expected.extend_from_slice(&0_i32.to_be_bytes());
        }
        assert_eq!(answer, expected, "version {version}");
    }
    assert!(!client.peer.is_closed());
}

#[test]
fn a_transactional_producer_is_refused_with_the_sentence() {
    let mut bench = Bench::new();
    let id = TransactionalId(StrBytes::from_static_str("t"));
    let request = produce("default.clicks", 0, &["a"], -1).with_transactional_id(Some(id));
    let response = ask(&mut bench, 9, &request);
    assert_eq!(produced(&response).error_code, 53);
    let sentence = produced(&response).error_message.as_ref().unwrap();
    assert_eq!(sentence.as_str(), TRANSACTION_REFUSAL);

    let transactional = changed(&["a"], true, |bytes| bytes[22] |= 0x10);
    assert_eq!(refused(transactional), (53, TRANSACTION_REFUSAL.to_owned()));
}

#[test]
fn faults_of_a_batch_have_their_codes_and_sentences() {
    let two = ["a", "b"];
    for (records, code, words) in [
        (BytesMut::new(), 87, "no batch"),
        (changed(&two, false, |bytes| bytes[16] = 1), 43, "format v1"),
        (changed(&two, false, |bytes| bytes[16] = 3), 87, "format v3"),
        (changed(&two, false, |bytes| bytes[66] ^= 1), 2, "checksum"),
        (
            changed(&two, true, |bytes| bytes[22] |= 0x20),
            87,
            "control",
        ),
        (
            changed(&two, true, |bytes| bytes[22] |= 0x08),
            32,
            "append time",
        ),
        (
            changed(&two, true, |bytes| bytes[22] |= 0x40),
            87,
            "delete horizon",
        ),
        (
            changed(&two, true, |bytes| bytes[21] |= 0x40),
            87,
            "attribute bits",
        ),
        (
            changed(&two, true, |bytes| bytes[22] |= 0x07),
            76,
            "codec 7",
        ),
        (changed(&two, true, |bytes| bytes[22] |= 0x01), 87, "gzip"),
        (
            changed(&two, true, |bytes| bytes[60] = 3),
            87,
            "offset delta",
        ),
        (changed(&two, true, |bytes| bytes[7] = 1), 87, "base offset"),
    ] {
        let (got, sentence) = refused(records);
        assert_eq!(got, code, "{sentence}");
        assert!(sentence.contains(words), "{sentence:?} has {words:?}");
    }
    let mut pair = batch_bytes(&two);
    pair.extend_from_slice(&batch_bytes(&two));
    assert_eq!(refused(pair).0, 87);
    let mut cut = batch_bytes(&two);
    cut.truncate(80.min(cut.len() - 1));
    assert_eq!(refused(cut).0, 87);
}

#[test]
fn a_record_at_fault_is_named() {
    // The second record's offset delta is wrong.
    let records = changed(&["a", "b"], true, |bytes| {
        let second = bytes.len() - 8;
        assert_eq!(bytes[second + 3], 2, "the offset delta 1, zigzag");
        bytes[second + 3] = 4;
    });
    let mut bench = Bench::new();
    let request = produce_bytes("default.clicks", 0, Some(records.freeze()), -1);
    let response = ask(&mut bench, 8, &request);
    let partition = produced(&response);
    assert_eq!(partition.error_code, 87);
    assert_eq!(partition.record_errors.len(), 1);
    assert_eq!(partition.record_errors[0].batch_index, 1);
}

#[test]
fn all_codecs_are_taken_and_zstd_only_from_version_7() {
    for codec in [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ] {
        for version in 3..=11 {
            let records = BatchBuilder::new()
                .codec(codec)
                .record(Timestamp(1), None, Some(b"a"))
                .build();
            let mut bench = Bench::new();
            let request = produce_bytes("default.clicks", 0, Some(records.freeze()), -1);
            let response = ask(&mut bench, version, &request);
            let expected = if codec == Codec::Zstd && version < 7 {
                76
            } else {
                0
            };
            assert_eq!(
                produced(&response).error_code,
                expected,
                "{codec} {version}"
            );
        }
    }
}

#[test]
fn a_bomb_is_too_large_and_the_connection_stays() {
    let zeros = vec![0; 17 << 20];
    let records = BatchBuilder::new()
        .codec(Codec::Zstd)
        .record(Timestamp(1), None, Some(&zeros))
        .build();
    assert!(records.len() < 1 << 20);
    let (code, sentence) = refused(records);
    assert_eq!(code, 10, "{sentence}");
}

#[test]
fn what_a_shard_says_is_told() {
    let generation = crate::model::GENERATION;
    for (error, code) in [
        (ShardError::Unknown, 3),
        (ShardError::Opening, 5),
        (ShardError::NotLeader, 6),
        (ShardError::ShuttingDown, 6),
        (ShardError::NoRoomInTime, 7),
        (
            ShardError::FencedGeneration {
                current: generation,
            },
            74,
        ),
        (
            ShardError::UnknownGeneration {
                current: generation,
            },
            75,
        ),
        (
            ShardError::OffsetOutOfRange {
                log_start: Offset::ZERO,
                visible_end: Offset::ZERO,
            },
            1,
        ),
        (ShardError::BatchTooLarge { bytes_max: 5 }, 10),
        (ShardError::OutOfOrderSequence { owed: 3, found: 4 }, 45),
        (ShardError::DuplicateSequence, 46),
        (
            ShardError::OldProducerEpoch {
                current: 2,
                found: 1,
            },
            47,
        ),
        (ShardError::Storage("segment 7 at 12".into()), 56),
        (
            ShardError::DiskFull {
                directory: "/data".into(),
                free_bytes: 1,
                free_bytes_min: 2,
            },
            56,
        ),
        (
            ShardError::UnknownProducer {
                log_start: Offset::ZERO,
            },
            59,
        ),
    ] {
        let mut bench = Bench::new();
        bench.log(clicks(0), |log| log.append_error = Some(error.clone()));
        let response = ask(&mut bench, 9, &produce("default.clicks", 0, &["a"], -1));
        assert_eq!(produced(&response).error_code, code, "{error}");
        let sentence = produced(&response).error_message.as_ref().unwrap();
        assert_eq!(sentence.as_str(), error.to_string());
    }
}

#[test]
fn a_producer_that_is_not_known_any_more_is_told_the_log_start() {
    let mut bench = Bench::new();
    let log_start = Offset::new(41);
    bench.log(clicks(0), |log| {
        log.append_error = Some(ShardError::UnknownProducer { log_start });
    });
    let response = ask(&mut bench, 9, &produce("default.clicks", 0, &["a"], -1));
    let partition = produced(&response);
    assert_eq!((partition.error_code, partition.base_offset), (59, -1));
    assert_eq!(partition.log_start_offset, 41);
}

#[test]
fn who_may_not_write_is_told_so_and_what_may_not_be_known_is_unknown() {
    for (topic, partition, code) in [
        ("default.read-only", 0, 29),
        ("default.write-only", 0, 0),
        ("default.hidden", 0, 3),
        ("default.foreign", 0, 3),
        ("default.clicks", 3, 3),
        ("default.clicks", -1, 3),
        ("default.", 0, 3),
        ("", 0, 3),
        ("no such topic", 0, 3),
    ] {
        let mut bench = Bench::new();
        let response = ask(&mut bench, 9, &produce(topic, partition, &["a"], -1));
        assert_eq!(produced(&response).error_code, code, "{topic} {partition}");
    }
}

#[test]
fn records_and_bytes_are_counted_when_acknowledged() {
    let mut bench = Bench::new();
    let size = u64::try_from(batch_bytes(&["a", "b"]).len()).unwrap();
    ask(
        &mut bench,
        9,
        &produce("default.clicks", 0, &["a", "b"], -1),
    );
    ask(
        &mut bench,
        9,
        &produce("default.nothing", 0, &["a", "b"], -1),
    );
    assert_eq!(bench.context.metrics.produce_records.value(), 2);
    assert_eq!(bench.context.metrics.produce_bytes.value(), size);
}

#[test]
fn batches_have_until_the_timeout_of_their_request_to_find_room() {
    let mut bench = Bench::new();
    bench.clock.now.set(Duration::from_secs(7));
    let mut client = bench.connect();
    let id = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    bench.turn();
    client.answer::<ProduceResponse>(ApiKey::Produce, 9, id);
    // Who is not answered is not refused, either: its records would be lost.
    client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["b"], 0));
    bench.turn();
    let in_time = Monotonic(Duration::from_secs(8));
    let deadlines = bench.shards.0.borrow().deadlines.clone();
    assert_eq!(deadlines, [Some(in_time), None]);
}
