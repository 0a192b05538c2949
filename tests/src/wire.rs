//! Bare Kafka requests to one port, encoded by an independent implementation, for what no client
//! would do.

use crate::token::Token;
use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    FetchRequest, FetchResponse, InitProducerIdRequest, MetadataRequest, MetadataResponse,
    ProduceRequest, RequestHeader, ResponseHeader, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const METADATA_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 11;
const PRODUCE_VERSION: i16 = 7;
const INIT_PRODUCER_ID_VERSION: i16 = 4;
const HANDSHAKE_VERSION: i16 = 1;
const AUTHENTICATE_VERSION: i16 = 2;

/// A connection that speaks when told to.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    correlation: i32,
    received_bytes: u64,
}

impl Wire {
    /// Connects to a port of this machine.
    #[must_use]
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
        Self::over(stream)
    }

    /// Speaks over a connection that is there already.
    #[must_use]
    pub fn over(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("not zero");
        stream
            .set_write_timeout(Some(Duration::from_secs(60)))
            .expect("not zero");
        Self {
            stream,
            correlation: 0,
            received_bytes: 0,
        }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Bytes of the answers read so far.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Sends a request and does not wait for the answer.
    ///
    /// # Errors
    /// The broker closed the connection, or does not read.
    pub fn send<R: Request>(&mut self, request: &R, version: i16) -> io::Result<()> {
        let frame = self.frame(request, version);
        self.stream.write_all(&frame)
    }

    /// The bytes of the next request, for whoever sends them through [`Wire::socket`] in a way of
    /// its own.
    pub fn frame<R: Request>(&mut self, request: &R, version: i16) -> Vec<u8> {
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("felix-tests")));
        let mut body = BytesMut::new();
        header
            .encode(&mut body, R::header_version(version))
            .expect("the header is valid");
        request
            .encode(&mut body, version)
            .expect("the request is valid");
        let length = u32::try_from(body.len()).expect("a request is small");
        [&length.to_be_bytes(), body.as_ref()].concat()
    }

    /// Waits for the answer to the oldest request not yet answered.
    pub fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let mut length = [0; 4];
        self.stream
            .read_exact(&mut length)
            .expect("the broker answers");
        let mut frame = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("64 bits")];
        self.stream
            .read_exact(&mut frame)
            .expect("the broker answers whole");
        self.received_bytes += 4 + u64::try_from(frame.len()).expect("64 bits");
        let mut frame = Bytes::from(frame);
        let header = R::Response::header_version(version);
        ResponseHeader::decode(&mut frame, header).expect("the header is valid");
        let answer = R::Response::decode(&mut frame, version).expect("the answer is valid");
        assert!(!frame.has_remaining(), "nothing is left over");
        answer
    }

    /// Asserts that not a byte of an answer has come.
    pub fn assert_unanswered(&self) {
        let set = |nonblocking| {
            let set = self.stream.set_nonblocking(nonblocking);
            set.expect("it is a socket");
        };
        set(true);
        let early = self
            .stream
            .peek(&mut [0])
            .expect_err("nothing was answered");
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        set(false);
    }

    /// Sends a request and waits for its answer.
    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.send(request, version).expect("the broker reads");
        self.receive::<R>(version)
    }

    /// Agrees on SASL/PLAIN.
    pub fn shake_hands(&mut self) {
        let mechanism = StrBytes::from_static_str("PLAIN");
        let request = SaslHandshakeRequest::default().with_mechanism(mechanism);
        let answer = self.call(&request, HANDSHAKE_VERSION);
        assert_eq!(answer.error_code, 0);
    }

    /// Shows a token; what the broker says to it.
    pub fn authenticate(&mut self, token: &Token) -> SaslAuthenticateResponse {
        self.shake_hands();
        let message = Bytes::from(token.plain());
        let request = SaslAuthenticateRequest::default().with_auth_bytes(message);
        self.call(&request, AUTHENTICATE_VERSION)
    }

    /// Connects to a port of this machine, and shows a token that is taken.
    #[must_use]
    pub fn authenticated(port: u16, token: &Token) -> Self {
        let mut wire = Self::connect(port);
        let answer = wire.authenticate(token);
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        wire
    }

    /// All nodes and topics.
    pub fn metadata(&mut self) -> MetadataResponse {
        self.call(
            &MetadataRequest::default().with_topics(None),
            METADATA_VERSION,
        )
    }

    /// Reads one partition from an offset, waiting at most `wait_ms` for a first byte.
    pub fn fetch(
        &mut self,
        topic: &'static str,
        partition: i32,
        offset: i64,
        wait_ms: i32,
    ) -> FetchResponse {
        self.call(&fetch(topic, partition, offset, wait_ms), FETCH_VERSION)
    }

    /// Asks to read and does not wait for the answer.
    ///
    /// # Errors
    /// The broker closed the connection, or does not read.
    pub fn send_fetch(
        &mut self,
        topic: &'static str,
        partition: i32,
        offset: i64,
        wait_ms: i32,
    ) -> io::Result<()> {
        self.send(&fetch(topic, partition, offset, wait_ms), FETCH_VERSION)
    }

    /// The answer to [`Wire::send_fetch`].
    pub fn receive_fetch(&mut self) -> FetchResponse {
        self.receive::<FetchRequest>(FETCH_VERSION)
    }

    /// Writes one record with acks=all; error code and base offset.
    pub fn produce(&mut self, topic: &'static str, partition: i32, value: &[u8]) -> (i16, i64) {
        self.send_produce(topic, partition, value)
            .expect("the broker reads");
        self.receive_produce()
    }

    /// Asks to write one record with acks=all and does not wait for the answer.
    ///
    /// # Errors
    /// The broker closed the connection, or does not read.
    pub fn send_produce(
        &mut self,
        topic: &'static str,
        partition: i32,
        value: &[u8],
    ) -> io::Result<()> {
        let request = produce_request(topic, partition, batch(value));
        self.send(&request, PRODUCE_VERSION)
    }

    /// The same, to be answered within so many milliseconds.
    ///
    /// # Errors
    /// The broker closed the connection, or does not read.
    pub fn send_produce_within(
        &mut self,
        timeout_ms: i32,
        topic: &'static str,
        partition: i32,
        value: &[u8],
    ) -> io::Result<()> {
        let request = produce_request(topic, partition, batch(value)).with_timeout_ms(timeout_ms);
        self.send(&request, PRODUCE_VERSION)
    }

    /// A new producer id, whose epoch is 0.
    pub fn producer_id(&mut self) -> i64 {
        // By default the oracle has one that is empty.
        let request = InitProducerIdRequest::default().with_transactional_id(None);
        let answer = self.call(&request, INIT_PRODUCER_ID_VERSION);
        assert_eq!((answer.error_code, answer.producer_epoch), (0, 0));
        answer.producer_id.0
    }

    /// Writes these records with acks=all; all that is said of them.
    pub fn produce_records(
        &mut self,
        topic: &'static str,
        partition: i32,
        records: Bytes,
    ) -> PartitionProduceResponse {
        let request = produce_request(topic, partition, records);
        let mut answer = self.call(&request, PRODUCE_VERSION);
        answer.responses.remove(0).partition_responses.remove(0)
    }

    /// The answer to [`Wire::send_produce`]: error code and base offset.
    pub fn receive_produce(&mut self) -> (i16, i64) {
        let answer = self.receive::<ProduceRequest>(PRODUCE_VERSION);
        let place = &answer.responses[0].partition_responses[0];
        (place.error_code, place.base_offset)
    }
}

/// Awaits the end of a connection, before which nothing more may come. A reset is none, and a read
/// that a stopped and continued process interrupts is taken up again.
pub fn expect_end(mut stream: &TcpStream) {
    let before = stream.read_to_end(&mut Vec::new());
    assert_eq!(
        before.expect("an end, not a reset"),
        0,
        "bytes before the end"
    );
}

/// A request to write these records to one partition with acks=all.
#[must_use]
pub fn produce_request(topic: &'static str, partition: i32, records: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default()
        .with_index(partition)
        .with_records(Some(records));
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_static_str(topic)))
        .with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic])
}

fn fetch(topic: &'static str, partition: i32, offset: i64, wait_ms: i32) -> FetchRequest {
    let part = FetchPartition::default()
        .with_partition(partition)
        .with_current_leader_epoch(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_static_str(topic)))
        .with_partitions(vec![part]);
    FetchRequest::default()
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_id(0)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// A batch of one record.
#[must_use]
pub fn batch(value: &[u8]) -> Bytes {
    batch_of(&[value])
}

/// A batch of these records of an idempotent producer: its id and epoch, and the sequence of the first
/// record.
#[must_use]
pub fn sequenced(id: i64, epoch: i16, sequence: i32, values: &[&[u8]]) -> Bytes {
    let mut batch = BytesMut::from(batch_of(values));
    stamp(&mut batch, id, epoch, sequence);
    batch.freeze()
}

/// Gives the batch at the beginning of these bytes, and only that, another producer, and the checksum
/// that follows from it.
pub fn stamp(bytes: &mut [u8], id: i64, epoch: i16, sequence: i32) {
    let length = i32::from_be_bytes(*bytes[8..].first_chunk().expect("a batch has a header"));
    let end = 12 + usize::try_from(length).expect("a batch has a length");
    bytes[43..51].copy_from_slice(&id.to_be_bytes());
    bytes[51..53].copy_from_slice(&epoch.to_be_bytes());
    bytes[53..57].copy_from_slice(&sequence.to_be_bytes());
    let checksum = crc32c::crc32c(&bytes[21..end]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
}

fn batch_of(values: &[&[u8]]) -> Bytes {
    let records: Vec<Record> = (0..)
        .zip(values)
        .map(|(at, value)| record(at, value))
        .collect();
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    let mut encoded = BytesMut::new();
    RecordBatchEncoder::encode(&mut encoded, &records, &options).expect("the records are valid");
    encoded.freeze()
}

fn record(at: i32, value: &[u8]) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset: at.into(),
        // The encoder puts those into one batch that count on in step with their offsets.
        sequence: at - 1,
        timestamp: 1,
        key: None,
        value: Some(Bytes::copy_from_slice(value)),
        headers: IndexMap::new(),
    }
}
