//! A whole Kafka connection over an in-memory stream and model shards, and another beside it.

use crate::bench::Bench;
use crate::memory::bounded;
use bytes::Bytes;
use felix_core::PlacedBatch;
use felix_core::limits::{
    AUTHENTICATION_FAILURE_DELAY, OUTBOUND_BYTES_PER_CONNECTION_MAX, REFUSED_PARTING_MAX,
    REQUEST_BYTES_MAX,
};
use kafka_protocol::messages::{ApiKey, MetadataRequest, MetadataResponse};

/// Bits of the first byte of an input.
const UNAUTHENTICATED: u8 = 1;
const TRICKLES: u8 = 2;

/// An input that arrives byte by byte is cut to this.
const TRICKLED_BYTES_MAX: usize = 2 << 10;

/// What one connection may hold, whatever its peer sends: what it has received, what it has been
/// answered, and one batch as it is looked into.
const BYTES_MAX: usize = REQUEST_BYTES_MAX + OUTBOUND_BYTES_PER_CONNECTION_MAX + (48 << 20);

/// The first byte says how the rest is sent. Accepted: the broker keeps the connection to the end.
///
/// Whatever is sent: every answer is a whole frame and belongs to a request, what reaches a shard
/// is a batch, the connection ends when its peer does, and another one is served.
pub fn run(data: &[u8]) -> bool {
    let Some((how, mut sent)) = data.split_first() else {
        return false;
    };
    let trickles = how & TRICKLES != 0;
    if trickles {
        sent = &sent[..sent.len().min(TRICKLED_BYTES_MAX)];
    }
    bounded(BYTES_MAX, || {
        serve(sent, how & UNAUTHENTICATED == 0, trickles)
    })
}

fn serve(sent: &[u8], anonymous: bool, trickles: bool) -> bool {
    let mut bench = Bench::with_anonymous(anonymous);
    let client = bench.connect();
    if trickles {
        client.peer.trickle(1);
    }
    client.peer.send(sent);
    let mut taken = None;
    while taken != Some(client.peer.taken_by_broker()) {
        taken = Some(client.peer.taken_by_broker());
        bench.turn();
    }
    // Credentials that are refused are answered after a while, and the end comes a while behind.
    bench.wait(AUTHENTICATION_FAILURE_DELAY);
    bench.wait(REFUSED_PARTING_MAX);
    let kept = !client.peer.is_closed();
    client.peer.end();
    bench.turn();
    assert!(client.peer.is_closed(), "nothing is left to wait for");
    assert!(client.peer.is_dropped());
    check_answers(sent, client.peer.received());
    check_logs(&bench);
    serves_another(&mut bench, anonymous);
    kept
}

/// The ids of the frames that were sent, as far as they are frames.
fn asked(mut sent: &[u8]) -> Vec<i32> {
    let mut ids = Vec::new();
    while let Some((length, rest)) = sent.split_first_chunk() {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            break;
        };
        let Some((frame, rest)) = rest.split_at_checked(length) else {
            break;
        };
        let id = frame.get(4..).and_then(<[u8]>::first_chunk);
        ids.extend(id.map(|id| i32::from_be_bytes(*id)));
        sent = rest;
    }
    ids
}

/// Whole frames, in the order of the requests.
fn check_answers(sent: &[u8], received: Vec<u8>) {
    let mut asked = asked(sent).into_iter();
    let mut received = &received[..];
    while let Some((length, rest)) = received.split_first_chunk() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap();
        let (frame, rest) = rest.split_at_checked(length).expect("an answer is whole");
        received = rest;
        if frame.is_empty() {
            // To a token without a header, which has no id either.
            continue;
        }
        let id = i32::from_be_bytes(*frame.first_chunk().expect("an answer has an id"));
        assert!(asked.any(|asked| asked == id), "nobody asked for {id}");
    }
    assert!(received.is_empty());
}

fn check_logs(bench: &Bench) {
    let model = bench.shards.0.borrow();
    for (header, bytes) in model.logs.values().flat_map(|log| &log.batches) {
        let mut bytes: Bytes = bytes.clone();
        let batch = PlacedBatch::split_from(&mut bytes).expect("a shard has batches only");
        assert!(bytes.is_empty());
        assert_eq!(batch.header(), header);
    }
}

fn serves_another(bench: &mut Bench, anonymous: bool) {
    let mut client = bench.connect();
    let request = MetadataRequest::default().with_topics(None);
    let id = client.send(ApiKey::Metadata, 9, &request);
    bench.turn();
    if anonymous {
        let answer: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
        assert_eq!(answer.brokers.len(), 2);
    }
    client.peer.end();
    bench.turn();
    assert_eq!(bench.served(), 0);
}
