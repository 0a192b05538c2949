//! What is there for all clients to read, written by clients that are none of the matrix but kcat.

use bytes::BytesMut;
use felix_tests::wire::{Wire, produce_request};
use felix_tests::{Broker, Stream, kcat};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

const READ: &str = "given.read";
const FORMS: &str = "given.forms";
const BATCHES: i64 = 10;
const RECORDS_PER_BATCH: i64 = 10;
/// The timestamp of the first record; each is a second later than the one before.
const BEGIN_MS: i64 = 1_700_000_000_000;
const PRODUCE_VERSION: i16 = 7;

/// The streams that [`write`] fills.
pub(crate) fn streams() -> Vec<Stream> {
    vec![
        Stream::new(READ, 2).stamped_by_producers(),
        Stream::new(FORMS, 1),
    ]
}

/// Records at 0 to 99 of one partition with times of their own; and one of each kind of header, key
/// and value.
pub(crate) fn write(broker: &Broker) {
    let mut wire = Wire::connect(broker.port());
    for number in 0..BATCHES {
        let records: Vec<Record> = (0..RECORDS_PER_BATCH)
            .map(|place| record(number * RECORDS_PER_BATCH + place, place))
            .collect();
        let options = RecordEncodeOptions {
            version: 2,
            compression: Compression::None,
        };
        let mut batch = BytesMut::new();
        RecordBatchEncoder::encode(&mut batch, &records, &options).expect("they are valid");
        let request = produce_request(READ, 0, batch.freeze());
        wire.send(&request, PRODUCE_VERSION)
            .expect("the broker reads");
        let answer = wire.receive::<ProduceRequest>(PRODUCE_VERSION);
        let told = &answer.responses[0].partition_responses[0];
        assert_eq!(
            (told.error_code, told.base_offset),
            (0, number * RECORDS_PER_BATCH)
        );
    }
    let forms: [(&str, &[&str]); 5] = [
        (
            "k=headers",
            &["-H", "a=1", "-H", "a=2", "-H", "b", "-H", "c="],
        ),
        ("null-value=", &["-Z"]),
        ("empty-value=", &[]),
        ("=null-key", &["-Z"]),
        ("=empty-key", &[]),
    ];
    for (line, more) in forms {
        let args = [&["-P", "-t", FORMS, "-p", "0", "-K", "="], more].concat();
        drop(kcat::run(&broker.bootstrap(), &args, Some(format!("{line}\n").into())).ok());
    }
}

/// What lies before the end that a client follows.
pub(crate) fn write_old(broker: &Broker, client: &str) {
    let topic = topic(client, "tail");
    kcat::produce(&broker.bootstrap(), topic, 0, "old-0\nold-1\nold-2\n");
}

/// Without a producer id nobody looks at the sequence but the encoder, which begins a new batch where
/// it does not rise.
fn record(number: i64, offset: i64) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset,
        sequence: i32::try_from(offset).expect("it is small"),
        timestamp: BEGIN_MS + number * 1000,
        key: None,
        value: Some(format!("given-{number}").into()),
        headers: IndexMap::new(),
    }
}

/// A topic of a client's own.
pub(crate) fn topic(client: &str, suffix: &str) -> &'static str {
    leak(format!("{client}.{suffix}"))
}

/// For what tests name by literals.
pub(crate) fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}
