//! Produce requests, encoded once by an independent implementation and sent as often as wanted.

use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ProduceRequest, ProduceResponse, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

/// Bytes of each record's value.
pub(crate) const VALUE_BYTES: usize = 1024;
/// Records whose batch is just below [`BATCH_BYTES_MAX`].
pub(crate) const RECORDS_PER_BATCH: usize = 63;
const BATCH_BYTES_MAX: usize = 64 << 10;

const VERSION: i16 = 9;

/// The frame that asks to append a batch to partition 0 with acks=all.
pub(crate) fn request(topic: &str, batch: &Bytes) -> Vec<u8> {
    let data = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(batch.clone()));
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partition_data(vec![data]);
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic]);
    let header = RequestHeader::default()
        .with_request_api_key(ProduceRequest::KEY)
        .with_request_api_version(VERSION)
        .with_correlation_id(1)
        .with_client_id(Some(StrBytes::from_static_str("felix-benches")));
    let mut body = BytesMut::new();
    header
        .encode(&mut body, ProduceRequest::header_version(VERSION))
        .expect("the header is valid");
    request
        .encode(&mut body, VERSION)
        .expect("the request is valid");
    let length = u32::try_from(body.len()).expect("a request is small");
    [&length.to_be_bytes(), body.as_ref()].concat()
}

/// The base offset in an answer, length prefix included. Panics if the answer is an error.
pub(crate) fn base_offset(answer: &[u8]) -> i64 {
    let mut frame = Bytes::copy_from_slice(&answer[4..]);
    let header = ProduceResponse::header_version(VERSION);
    ResponseHeader::decode(&mut frame, header).expect("the header is valid");
    let answer = ProduceResponse::decode(&mut frame, VERSION).expect("the answer is valid");
    let place = &answer.responses[0].partition_responses[0];
    assert_eq!(place.error_code, 0, "the broker appends");
    place.base_offset
}

/// An uncompressed batch of `records` records of [`VALUE_BYTES`] each.
pub(crate) fn batch(records: usize) -> Bytes {
    let value = Bytes::from_iter((0..=u8::MAX).cycle().take(VALUE_BYTES));
    let records: Vec<Record> = (0..i32::try_from(records).expect("a batch is small"))
        .map(|place| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            timestamp_type: TimestampType::Creation,
            offset: place.into(),
            // The encoder begins a new batch where sequences do not follow. The first is -1: none.
            sequence: place - 1,
            timestamp: 1,
            key: None,
            value: Some(value.clone()),
            headers: IndexMap::new(),
        })
        .collect();
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    let mut encoded = BytesMut::new();
    RecordBatchEncoder::encode(&mut encoded, &records, &options).expect("the records are valid");
    assert!(encoded.len() <= BATCH_BYTES_MAX);
    encoded.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_batch_is_one_batch_and_one_record_short_of_64_kib() {
        let bytes = batch(RECORDS_PER_BATCH).len();
        let per_record = batch(2).len() - batch(1).len();
        assert!(bytes + per_record > BATCH_BYTES_MAX);
        // One header of 61 bytes; varints of a longer batch take no more than a few bytes.
        assert!(bytes - 61 < RECORDS_PER_BATCH * (per_record + 1));
    }
}
