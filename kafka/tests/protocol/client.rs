//! A client made of an independent implementation of the protocol.

use crate::pipe::Peer;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use std::collections::VecDeque;

pub(crate) struct Client {
    pub(crate) peer: Peer,
    next_correlation_id: i32,
    received: BytesMut,
    answers: VecDeque<Bytes>,
}

impl Client {
    pub(crate) fn new(peer: Peer) -> Self {
        Self {
            peer,
            next_correlation_id: 1,
            received: BytesMut::new(),
            answers: VecDeque::new(),
        }
    }

    /// A whole request with its length prefix, and its correlation id.
    pub(crate) fn encode(
        &mut self,
        api: ApiKey,
        version: i16,
        body: &impl Encodable,
    ) -> (i32, Vec<u8>) {
        let id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let mut frame = BytesMut::new();
        RequestHeader::default()
            .with_request_api_key(api as i16)
            .with_request_api_version(version)
            .with_correlation_id(id)
            .with_client_id(Some(StrBytes::from_static_str("tester")))
            .encode(&mut frame, api.request_header_version(version))
            .unwrap();
        body.encode(&mut frame, version).unwrap();
        (id, framed(&frame))
    }

    /// Sends a request; its correlation id.
    pub(crate) fn send(&mut self, api: ApiKey, version: i16, body: &impl Encodable) -> i32 {
        let (id, bytes) = self.encode(api, version, body);
        self.peer.send(&bytes);
        id
    }

    /// The next answer, if it has arrived: header and body.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        self.received.put_slice(&self.peer.received());
        while let Some(prefix) = self.received.first_chunk::<4>() {
            let length = usize::try_from(i32::from_be_bytes(*prefix)).unwrap();
            if self.received.len() < 4 + length {
                break;
            }
            let frame = self.received.split_to(4 + length).freeze();
            self.answers.push_back(frame.slice(4..));
        }
        self.answers.pop_front()
    }

    /// The next answer, which has arrived and belongs to this request.
    pub(crate) fn answer<R: Decodable>(&mut self, api: ApiKey, version: i16, id: i32) -> R {
        let mut frame = self.take().expect("an answer has arrived");
        let header =
            ResponseHeader::decode(&mut frame, api.response_header_version(version)).unwrap();
        assert_eq!(
            header.correlation_id, id,
            "answers come in the order of the requests"
        );
        let body = R::decode(&mut frame, version).unwrap();
        assert!(frame.is_empty(), "{} bytes left over", frame.len());
        body
    }

    /// Whether nothing has arrived.
    pub(crate) fn is_unanswered(&mut self) -> bool {
        match self.take() {
            Some(answer) => {
                self.answers.push_front(answer);
                false
            }
            None => self.received.is_empty(),
        }
    }
}

pub(crate) fn framed(frame: &[u8]) -> Vec<u8> {
    let mut bytes = i32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(frame);
    bytes
}
