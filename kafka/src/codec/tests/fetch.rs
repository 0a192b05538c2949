use super::*;
use crate::codec::fetch::{
    ForgottenTopic, Partition, Request, RequestPartition, RequestTopic, Response, Topic,
};
use oracle::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic as OracleForgottenTopic};

const API: ApiKey = ApiKey::Fetch;

fn request_partition() -> impl Strategy<Value = RequestPartition> {
    any::<(i32, i32, i64, i32, i64, i32)>().prop_map(|numbers| RequestPartition {
        index: numbers.0,
        current_leader_epoch: numbers.1,
        fetch_offset: numbers.2,
        last_fetched_epoch: numbers.3,
        log_start_offset: numbers.4,
        max_bytes: numbers.5,
    })
}

fn partition() -> impl Strategy<Value = Partition> {
    let pieces = few(prop::collection::vec(any::<u8>(), 0..300));
    let parts = (
        any::<i32>(),
        error_code(),
        any::<[i64; 3]>(),
        current_leader(),
        pieces,
    );
    parts.prop_map(
        |(index, error_code, offsets, current_leader, pieces)| Partition {
            index,
            error_code,
            high_watermark: offsets[0],
            last_stable_offset: offsets[1],
            log_start_offset: offsets[2],
            current_leader,
            records: pieces.into_iter().map(Bytes::from).collect(),
        },
    )
}

/// What is left of a request in a version that lacks some of its fields.
fn as_of<'a>(version: i16, request: &Request<'a>) -> Request<'a> {
    let mut request = request.clone();
    if version < 7 {
        request.session_id = 0;
        request.session_epoch = -1;
        request.forgotten_topics.clear();
    }
    if version < 11 {
        request.rack_id = "";
    }
    for partition in request
        .topics
        .iter_mut()
        .flat_map(|topic| &mut topic.partitions)
    {
        if version < 5 {
            partition.log_start_offset = -1;
        }
        if version < 9 {
            partition.current_leader_epoch = -1;
        }
        if version < 12 {
            partition.last_fetched_epoch = -1;
        }
    }
    request
}

fn oracle_request(version: i16, request: &Request<'_>) -> oracle::FetchRequest {
    let tags = || tags(API.is_flexible(version));
    let partition = |partition: &RequestPartition| {
        FetchPartition::default()
            .with_partition(partition.index)
            .with_current_leader_epoch(partition.current_leader_epoch)
            .with_fetch_offset(partition.fetch_offset)
            .with_last_fetched_epoch(partition.last_fetched_epoch)
            .with_log_start_offset(partition.log_start_offset)
            .with_partition_max_bytes(partition.max_bytes)
            .with_unknown_tagged_fields(tags())
    };
    let topic = |topic: &RequestTopic<'_>| {
        FetchTopic::default()
            .with_topic(topic_name(topic.name))
            .with_partitions(topic.partitions.iter().map(partition).collect())
            .with_unknown_tagged_fields(tags())
    };
    let forgotten = |topic: &ForgottenTopic<'_>| {
        OracleForgottenTopic::default()
            .with_topic(topic_name(topic.name))
            .with_partitions(topic.partitions.clone())
            .with_unknown_tagged_fields(tags())
    };
    oracle::FetchRequest::default()
        // A tagged field that version 12 knows, and clients do not send.
        .with_cluster_id((version >= 12).then(|| text_of("cluster")))
        .with_replica_id(request.replica_id.into())
        .with_max_wait_ms(request.max_wait_ms)
        .with_min_bytes(request.min_bytes)
        .with_max_bytes(request.max_bytes)
        .with_isolation_level(request.isolation_level)
        .with_session_id(request.session_id)
        .with_session_epoch(request.session_epoch)
        .with_topics(request.topics.iter().map(topic).collect())
        .with_forgotten_topics_data(request.forgotten_topics.iter().map(forgotten).collect())
        .with_rack_id(text_of(request.rack_id))
        .with_unknown_tagged_fields(tags())
}

proptest! {
    #[test]
    fn requests_of_every_version_are_read_as_they_were_meant(
        numbers: [i32; 6],
        isolation_level: i8,
        topics in few((text(), few(request_partition()))),
        forgotten in few((text(), few(any::<i32>()))),
        rack_id in text(),
    ) {
        let request = Request {
            replica_id: numbers[0],
            max_wait_ms: numbers[1],
            min_bytes: numbers[2],
            max_bytes: numbers[3],
            isolation_level,
            session_id: numbers[4],
            session_epoch: numbers[5],
            topics: topics.iter().map(|(name, partitions)| {
                RequestTopic { name, partitions: partitions.clone() }
            }).collect(),
            forgotten_topics: forgotten.iter().map(|(name, partitions)| {
                ForgottenTopic { name, partitions: partitions.clone() }
            }).collect(),
            rack_id: &rack_id,
        };
        for version in advertised(API) {
            let request = as_of(version, &request);
            let frame = request_frame(API, version, &oracle_request(version, &request));
            let read = Request::decode(version, &mut open(API, version, &frame)).unwrap();
            prop_assert_eq!(read, request);
        }
    }

    #[test]
    fn answers_of_every_version_are_read_by_others_as_they_were_meant(
        throttle_time_ms: i32,
        error_code in error_code(),
        topics in few((text(), few(partition()))),
    ) {
        let topics = topics.iter().map(|(name, partitions)| {
            Topic { name, partitions: partitions.clone() }
        }).collect();
        let response = Response { throttle_time_ms, error_code, topics };
        for version in advertised(API) {
            let read: oracle::FetchResponse =
                answer(API, version, |writer| response.encode(version, writer));
            check(version, &response, &read);
        }
    }
}

fn check(version: i16, sent: &Response<'_>, read: &oracle::FetchResponse) {
    assert_eq!(read.throttle_time_ms, sent.throttle_time_ms);
    assert_eq!(
        read.error_code,
        if version >= 7 {
            sent.error_code.wire()
        } else {
            0
        }
    );
    assert_eq!(read.session_id, 0);
    assert_eq!(read.responses.len(), sent.topics.len());
    for (read, sent) in read.responses.iter().zip(&sent.topics) {
        assert_eq!(read.topic.0.as_str(), sent.name);
        assert_eq!(read.partitions.len(), sent.partitions.len());
        for (read, sent) in read.partitions.iter().zip(&sent.partitions) {
            check_partition(version, sent, read);
        }
    }
}

fn check_partition(version: i16, sent: &Partition, read: &oracle::fetch_response::PartitionData) {
    assert_eq!(
        (read.partition_index, read.error_code),
        (sent.index, sent.error_code.wire())
    );
    assert_eq!(read.high_watermark, sent.high_watermark);
    assert_eq!(read.last_stable_offset, sent.last_stable_offset);
    assert_eq!(
        read.log_start_offset,
        if version >= 5 {
            sent.log_start_offset
        } else {
            -1
        }
    );
    assert_eq!(read.aborted_transactions, None);
    assert_eq!(read.preferred_read_replica.0, -1);
    let nobody = CurrentLeader {
        leader_id: -1,
        leader_epoch: -1,
    };
    let leader = sent
        .current_leader
        .filter(|_| version >= 12)
        .unwrap_or(nobody);
    assert_eq!(read.current_leader.leader_id.0, leader.leader_id);
    assert_eq!(read.current_leader.leader_epoch, leader.leader_epoch);
    assert_eq!(read.records.as_deref(), Some(&sent.records.concat()[..]));
}

#[test]
fn records_of_an_answer_are_sent_from_where_they_lie() {
    let records = [
        Bytes::from(vec![1; 5000]),
        Bytes::new(),
        Bytes::from(vec![2; 7000]),
    ];
    let partition = |index| Partition {
        records: records.to_vec(),
        ..Partition::error(index, ErrorCode::None)
    };
    let response = Response {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        topics: vec![Topic {
            name: "a.b",
            partitions: vec![partition(0), partition(1)],
        }],
    };
    for version in advertised(API) {
        let mut writer = Writer::response(API, version, CORRELATION_ID);
        response.encode(version, &mut writer);
        let pieces = writer.finish();

        let sent = pieces
            .iter()
            .map(|piece| piece.as_ptr())
            .collect::<Vec<_>>();
        let places = [&records[0], &records[2]].map(|piece| piece.as_ptr());
        assert_eq!(sent[1..3], places);
        assert_eq!(sent[4..6], places);
        let framing = [0, 3]
            .map(|piece| pieces[piece].len())
            .iter()
            .sum::<usize>();
        assert!(framing < 150, "{framing} bytes of framing");
    }
}
