use super::*;
use crate::codec::produce::{
    BATCHES_FROM, Partition, RecordError, Request, RequestPartition, RequestTopic, Response, Topic,
};
use crate::codec::{DecodeError, Fault};
use oracle::produce_request::{PartitionProduceData, TopicProduceData};
use std::borrow::Cow;

const API: ApiKey = ApiKey::Produce;

fn oracle_request(version: i16, request: &Request) -> oracle::ProduceRequest {
    let tags = || tags(API.is_flexible(version));
    let partition = |partition: &RequestPartition| {
        PartitionProduceData::default()
            .with_index(partition.index)
            .with_records(partition.records.clone().map(BytesMut::freeze))
            .with_unknown_tagged_fields(tags())
    };
    let topic = |topic: &RequestTopic| {
        TopicProduceData::default()
            .with_name(topic_name(&topic.name))
            .with_partition_data(topic.partitions.iter().map(partition).collect())
            .with_unknown_tagged_fields(tags())
    };
    let transactional_id = request.transactional_id.as_deref();
    oracle::ProduceRequest::default()
        .with_transactional_id(transactional_id.map(|id| text_of(id).into()))
        .with_acks(request.acks)
        .with_timeout_ms(request.timeout_ms)
        .with_topic_data(request.topics.iter().map(topic).collect())
        .with_unknown_tagged_fields(tags())
}

fn decode(version: i16, frame: BytesMut) -> Result<Request, DecodeError> {
    let body = open(API, version, &frame).position();
    Request::decode(version, frame, body)
}

fn request() -> impl Strategy<Value = Request> {
    let records = prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
    let partition = (any::<i32>(), records).prop_map(|(index, records)| RequestPartition {
        index,
        records: records.map(|records| BytesMut::from(&records[..])),
    });
    let topic =
        (text(), few(partition)).prop_map(|(name, partitions)| RequestTopic { name, partitions });
    (
        prop::option::of(text()),
        any::<i16>(),
        any::<i32>(),
        few(topic),
    )
        .prop_map(|(transactional_id, acks, timeout_ms, topics)| Request {
            transactional_id,
            acks,
            timeout_ms,
            topics,
        })
}

type MadeUpPartition = (
    (i32, ErrorCode),
    [i64; 3],
    Vec<(i32, Option<String>)>,
    Option<String>,
    Option<CurrentLeader>,
);

fn made_up_partition() -> impl Strategy<Value = MadeUpPartition> {
    (
        (any::<i32>(), error_code()),
        any::<[i64; 3]>(),
        few((any::<i32>(), prop::option::of(text()))),
        prop::option::of(text()),
        current_leader(),
    )
}

fn partition(made_up: &MadeUpPartition) -> Partition<'_> {
    let ((index, error_code), offsets, record_errors, message, current_leader) = made_up;
    let record_error = |(batch_index, message): &(i32, Option<String>)| RecordError {
        batch_index: *batch_index,
        message: message.clone().map(Cow::Owned),
    };
    Partition {
        index: *index,
        error_code: *error_code,
        base_offset: offsets[0],
        log_append_time_ms: offsets[1],
        log_start_offset: offsets[2],
        record_errors: record_errors.iter().map(record_error).collect(),
        error_message: message.as_deref().map(Cow::Borrowed),
        current_leader: *current_leader,
    }
}

proptest! {
    #[test]
    fn requests_of_every_version_are_read_as_they_were_meant(request in request()) {
        for version in BATCHES_FROM..=API.versions().max {
            let frame = request_frame(API, version, &oracle_request(version, &request));
            let read = decode(version, frame).unwrap();
            prop_assert_eq!(read, request.clone());
        }
    }

    #[test]
    fn requests_of_versions_without_batches_are_read_as_they_were_meant(request in request()) {
        for version in 0..BATCHES_FROM {
            // Version 3 put the transactional id before what versions 0 to 2 had.
            let untransactional = Request { transactional_id: None, ..request.clone() };
            let frame = request_frame(API, 3, &oracle_request(3, &untransactional));
            let body = open(API, 3, &frame).position();
            let read = Request::decode(version, BytesMut::from(&frame[body + 2..]), 0).unwrap();
            prop_assert_eq!(read, untransactional);
        }
    }

    #[test]
    fn answers_of_every_version_are_read_by_others_as_they_were_meant(
        throttle_time_ms: i32,
        topics in few((text(), few(made_up_partition()))),
        nodes in few((any::<i32>(), text(), any::<i32>(), prop::option::of(text()))),
    ) {
        let response = Response {
            topics: topics.iter().map(|(name, partitions)| Topic {
                name,
                partitions: partitions.iter().map(partition).collect(),
            }).collect(),
            throttle_time_ms,
            node_endpoints: nodes.iter().map(|(node_id, host, port, rack)| NodeEndpoint {
                node_id: *node_id, host, port: *port, rack: rack.as_deref(),
            }).collect(),
        };
        for version in BATCHES_FROM..=API.versions().max {
            let read: oracle::ProduceResponse =
                answer(API, version, |writer| response.encode(version, writer));
            check(version, &response, &read);
        }
    }
}

fn check(version: i16, sent: &Response<'_>, read: &oracle::ProduceResponse) {
    assert_eq!(read.throttle_time_ms, sent.throttle_time_ms);
    assert_eq!(read.responses.len(), sent.topics.len());
    for (read, sent) in read.responses.iter().zip(&sent.topics) {
        assert_eq!(read.name.0.as_str(), sent.name);
        assert_eq!(read.partition_responses.len(), sent.partitions.len());
        for (read, sent) in read.partition_responses.iter().zip(&sent.partitions) {
            check_partition(version, sent, read);
        }
    }
    let nodes = if version >= 10 {
        &sent.node_endpoints[..]
    } else {
        &[]
    };
    assert_eq!(read.node_endpoints.len(), nodes.len());
    for (read, sent) in read.node_endpoints.iter().zip(nodes) {
        assert_eq!(
            (read.node_id.0, &*read.host, read.port),
            (sent.node_id, sent.host, sent.port)
        );
        assert_eq!(read.rack.as_deref(), sent.rack);
    }
}

fn check_partition(
    version: i16,
    sent: &Partition<'_>,
    read: &oracle::produce_response::PartitionProduceResponse,
) {
    assert_eq!(
        (read.index, read.error_code),
        (sent.index, sent.error_code.wire())
    );
    assert_eq!(read.base_offset, sent.base_offset);
    assert_eq!(read.log_append_time_ms, sent.log_append_time_ms);
    assert_eq!(
        read.log_start_offset,
        if version >= 5 {
            sent.log_start_offset
        } else {
            -1
        }
    );
    let errors = if version >= 8 {
        &sent.record_errors[..]
    } else {
        &[]
    };
    assert_eq!(read.record_errors.len(), errors.len());
    for (read, sent) in read.record_errors.iter().zip(errors) {
        assert_eq!(read.batch_index, sent.batch_index);
        assert_eq!(
            read.batch_index_error_message.as_deref(),
            sent.message.as_deref()
        );
    }
    let message = sent.error_message.as_deref().filter(|_| version >= 8);
    assert_eq!(read.error_message.as_deref(), message);
    let nobody = CurrentLeader {
        leader_id: -1,
        leader_epoch: -1,
    };
    let leader = sent
        .current_leader
        .filter(|_| version >= 10)
        .unwrap_or(nobody);
    assert_eq!(read.current_leader.leader_id.0, leader.leader_id);
    assert_eq!(read.current_leader.leader_epoch, leader.leader_epoch);
}

/// A request with a record set of each of these sizes, filled with its number.
fn request_of(sizes: &[usize]) -> Request {
    let partitions = (0_u8..).zip(sizes).map(|(index, size)| RequestPartition {
        index: index.into(),
        records: Some(BytesMut::from(&*vec![index; *size])),
    });
    Request {
        transactional_id: None,
        acks: -1,
        timeout_ms: 1,
        topics: vec![RequestTopic {
            name: "a.b".into(),
            partitions: partitions.collect(),
        }],
    }
}

#[test]
fn the_record_set_that_fills_its_frame_is_not_copied_and_none_other_keeps_the_frame() {
    for (sizes, whole) in [
        (&[10_000][..], Some(0)),
        (&[72, 1 << 20], Some(1)),
        (&[1 << 20, 72], Some(0)),
        (&[100, 100, 100], None),
        (&[1, 1 << 19, 1 << 19], None),
    ] {
        for version in BATCHES_FROM..=API.versions().max {
            let request = request_of(sizes);
            // Exactly its memory, as a frame that was received is.
            let frame = &*request_frame(API, version, &oracle_request(version, &request));
            let frame = BytesMut::from(frame);
            let memory = frame.as_ptr_range();
            let mut read = decode(version, frame).unwrap();
            let partitions = std::mem::take(&mut read.topics[0].partitions);
            for (number, partition) in partitions.into_iter().enumerate() {
                let records = partition.records.unwrap();
                assert_eq!(records.len(), sizes[number]);
                let inside = memory.contains(&records.as_ptr());
                if whole == Some(number) {
                    assert!(inside, "{sizes:?} {number}");
                } else {
                    // Whatever becomes of the others, it keeps its own bytes and no more.
                    assert_eq!(records.capacity(), records.len(), "{sizes:?} {number}");
                    assert!(records.freeze().is_unique(), "{sizes:?} {number}");
                }
            }
        }
    }
}

#[test]
fn patching_one_record_set_leaves_its_neighbours_alone() {
    for sizes in [[100, 100, 100], [100, 10_000, 100]] {
        let request = request_of(&sizes);
        for version in BATCHES_FROM..=API.versions().max {
            let frame = request_frame(API, version, &oracle_request(version, &request));
            let mut read = decode(version, frame).unwrap();
            let partitions = &mut read.topics[0].partitions;
            for partition in partitions.iter_mut() {
                partition.records.as_mut().unwrap()[0] = 99;
            }
            for (index, partition) in (0_u8..).zip(partitions) {
                let records = partition.records.as_ref().unwrap();
                assert_eq!(records[0], 99);
                assert!(records[1..].iter().all(|byte| *byte == index));
            }
        }
    }
}

/// `acks`, timeout, one topic `t` with partition 7 and a record set of two bytes: the layout of
/// versions 0 to 2, made by hand because newer implementations no longer have it.
const OLD_REQUEST: [u8; 31] = [
    0xff, 0xff, // acks -1
    0, 0, 0x75, 0x30, // timeout 30000 ms
    0, 0, 0, 1, // topics
    0, 1, b't', // name
    0, 0, 0, 1, // partitions
    0, 0, 0, 7, // index
    0, 0, 0, 2, 0xca, 0xfe, // records
    0, 0, 0, 0, // left over: cut off below
];

#[test]
fn requests_too_old_to_carry_batches_are_still_understood() {
    for version in 0..BATCHES_FROM {
        let frame = BytesMut::from(&OLD_REQUEST[..27]);
        let read = Request::decode(version, frame, 0).unwrap();
        let records = Some(BytesMut::from(&[0xca, 0xfe][..]));
        let partitions = vec![RequestPartition { index: 7, records }];
        let topics = vec![RequestTopic {
            name: "t".into(),
            partitions,
        }];
        let expected = Request {
            transactional_id: None,
            acks: -1,
            timeout_ms: 30_000,
            topics,
        };
        assert_eq!(read, expected);

        let left_over = Request::decode(version, BytesMut::from(&OLD_REQUEST[..]), 0).unwrap_err();
        assert_eq!(
            left_over,
            DecodeError {
                at: 27,
                fault: Fault::Trailing(4)
            }
        );
    }
}

#[test]
fn requests_too_old_to_carry_batches_are_refused_in_their_own_layout() {
    let response = Response {
        topics: vec![Topic {
            name: "t",
            partitions: vec![Partition::error(7, ErrorCode::UnsupportedVersion, None)],
        }],
        throttle_time_ms: 5,
        node_endpoints: vec![],
    };
    let mut partition = vec![
        0x12, 0x34, 0x56, 0x78, // correlation id
        0, 0, 0, 1, // topics
        0, 1, b't', // name
        0, 0, 0, 1, // partitions
        0, 0, 0, 7, // index
        0, 35, // error
    ];
    partition.extend([0xff; 8]); // base offset -1
    let append_time = [0xff; 8];
    let throttle = [0, 0, 0, 5];
    let bytes = |version| answer_bytes(API, version, |writer| response.encode(version, writer));

    assert_eq!(bytes(0), partition);
    assert_eq!(bytes(1), [&partition[..], &throttle].concat());
    assert_eq!(bytes(2), [&partition[..], &append_time, &throttle].concat());
}
