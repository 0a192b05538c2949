//! Bare Kafka requests about partition 0 of the stream that `--dev` brings.

use crate::harness::PATIENCE;
use felix_core::Timestamp;
use felix_core::batch::BatchBuilder;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

const PRODUCE: i16 = 0;
const PRODUCE_VERSION: i16 = 3;
const FETCH: i16 = 1;
const FETCH_VERSION: i16 = 4;
const LIST_OFFSETS: i16 = 2;
const LIST_OFFSETS_VERSION: i16 = 1;
const TOPIC: &str = "default.clicks";

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A Produce with `acks=all` of one batch with one record.
pub(crate) fn produce(value: &[u8]) -> Vec<u8> {
    let batch = BatchBuilder::new()
        .record(Timestamp(1), None, Some(value))
        .build();
    let mut body = Vec::new();
    body.extend((-1_i16).to_be_bytes()); // no transaction
    body.extend((-1_i16).to_be_bytes()); // acks
    body.extend(30_000_i32.to_be_bytes());
    partition_0(&mut body);
    body.extend(u32::try_from(batch.len()).unwrap().to_be_bytes());
    body.extend(batch);
    request(PRODUCE, PRODUCE_VERSION, &body)
}

/// The offset that an answer to [`produce`] tells.
pub(crate) fn base_offset(answer: &[u8]) -> i64 {
    let partition = &answer[4 + 4 + 2 + TOPIC.len() + 4..];
    assert_eq!(partition[..6], [0; 6], "partition 0, no error");
    i64::from_be_bytes(*partition[6..].first_chunk().unwrap())
}

/// The end of the log, as readers are shown it.
pub(crate) fn end_offset(address: SocketAddr) -> i64 {
    let mut body = Vec::new();
    body.extend((-1_i32).to_be_bytes()); // no replica
    partition_0(&mut body);
    body.extend((-1_i64).to_be_bytes()); // the latest
    let answer = call(address, &request(LIST_OFFSETS, LIST_OFFSETS_VERSION, &body));
    assert_eq!(answer[answer.len() - 18..][..2], [0; 2], "no error");
    i64::from_be_bytes(*answer.last_chunk().unwrap())
}

/// Whether a Fetch from the beginning brings this value.
pub(crate) fn is_readable(address: SocketAddr, value: &[u8]) -> bool {
    let mut body = Vec::new();
    body.extend((-1_i32).to_be_bytes()); // no replica
    body.extend(0_i32.to_be_bytes()); // no waiting
    body.extend(0_i32.to_be_bytes());
    body.extend((1_i32 << 20).to_be_bytes());
    body.push(0); // uncommitted, too
    partition_0(&mut body);
    body.extend(0_i64.to_be_bytes()); // from offset 0
    body.extend((1_i32 << 20).to_be_bytes());
    let answer = call(address, &request(FETCH, FETCH_VERSION, &body));
    answer.windows(value.len()).any(|window| window == value)
}

/// The next answer; `None`: the broker has ended the connection in order.
pub(crate) fn answer(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut answer)?;
    Ok(Some(answer))
}

/// Asks, and waits for the answer.
pub(crate) fn call(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    answer(&mut stream).unwrap().expect("an answer")
}

/// One topic with one partition, of which more may follow.
fn partition_0(body: &mut Vec<u8>) {
    body.extend(1_i32.to_be_bytes());
    body.extend(u16::try_from(TOPIC.len()).unwrap().to_be_bytes());
    body.extend(TOPIC.as_bytes());
    body.extend(1_i32.to_be_bytes());
    body.extend(0_i32.to_be_bytes());
}

fn request(api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(u32::try_from(10 + body.len()).unwrap().to_be_bytes());
    frame.extend(api.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(0_i32.to_be_bytes()); // correlation id
    frame.extend((-1_i16).to_be_bytes()); // no client id
    frame.extend(body);
    frame
}
