//! Bytes as they come: in drops, too large, or no requests at all.

use crate::bench::{Bench, batch_bytes, clicks};
use crate::client::framed;
use crate::fetch::fetch;
use crate::metadata::all_topics;
use crate::produce::{produce, produced};
use felix_kafka::Refused;
use kafka_protocol::messages::{ApiKey, FetchResponse, MetadataResponse, ProduceResponse};
use proptest::prelude::*;

#[test]
fn requests_are_understood_byte_by_byte() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    client.peer.trickle(1);
    let (write, mut bytes) = client.encode(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    let (read, more) = client.encode(ApiKey::Fetch, 12, &fetch("default.clicks", 0, 0));
    bytes.extend(more);
    for byte in bytes {
        client.peer.send(&[byte]);
        bench.turn();
    }
    let answer: ProduceResponse = client.answer(ApiKey::Produce, 9, write);
    assert_eq!(produced(&answer).error_code, 0);
    let answer: FetchResponse = client.answer(ApiKey::Fetch, 12, read);
    let records = answer.responses[0].partitions[0].records.as_ref().unwrap();
    assert_eq!(records.len(), batch_bytes(&["a"]).len());
}

#[test]
fn a_length_out_of_bounds_closes_and_is_counted() {
    for (anonymous, length, reason) in [
        (true, -1, Refused::FrameSize),
        (true, i32::MIN, Refused::FrameSize),
        (true, (8 << 20) + 1, Refused::FrameSize),
        (true, i32::MAX, Refused::FrameSize),
        (false, (64 << 10) + 1, Refused::UnauthenticatedFrameSize),
        (false, -1, Refused::FrameSize),
    ] {
        let mut bench = Bench::with_anonymous(anonymous);
        let client = bench.connect();
        client.peer.send(&i32::to_be_bytes(length));
        bench.turn();
        assert!(client.peer.is_closed(), "{length}");
        assert_eq!(bench.served(), 0);
        assert_eq!(bench.context.metrics.refused(reason), 1);
        assert_eq!(bench.context.metrics.protocol_errors.value(), 1);
    }
}

#[test]
fn the_largest_lengths_are_waited_for() {
    for (anonymous, length) in [(true, 8_i32 << 20), (false, 64 << 10)] {
        let mut bench = Bench::with_anonymous(anonymous);
        let client = bench.connect();
        client.peer.send(&length.to_be_bytes());
        bench.turn();
        assert!(!client.peer.is_closed());
        let rest = vec![0; usize::try_from(length).unwrap()];
        client.peer.send(&rest);
        bench.turn();
        assert!(
            client.peer.is_closed(),
            "then it is read, and found to be no request"
        );
        assert_eq!(bench.context.metrics.refused(Refused::Malformed), 1);
    }
}

#[test]
fn a_slow_reader_is_not_read_from_until_it_takes_its_answers() {
    let mut bench = Bench::new();
    let large = "x".repeat(7 << 20);
    bench.publish(clicks(0), &[&large]);
    let mut client = bench.connect();
    client.peer.take_only(1000);
    for _ in 0..20 {
        client.send(
            ApiKey::Fetch,
            11,
            &fetch("default.clicks", 0, 0).with_max_bytes(1),
        );
    }
    bench.turn();
    let begun = bench.shards.0.borrow().fetches.len();
    assert!((3..=11).contains(&begun), "{begun} answers of 7 MiB");
    let taken = client.peer.taken_by_broker();
    client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    assert_eq!(client.peer.taken_by_broker(), taken, "nothing more is read");

    // Others do not notice.
    let mut other = bench.connect();
    let id = other.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    let _: MetadataResponse = other.answer(ApiKey::Metadata, 9, id);

    client.peer.take_only(usize::MAX);
    bench.turn();
    assert_eq!(std::iter::from_fn(|| client.take()).count(), 21);
}

#[test]
fn a_slow_reader_with_nothing_left_to_begin_is_not_read_from_either() {
    let mut bench = Bench::new();
    for _ in 0..20 {
        bench.publish(clicks(0), &[&"x".repeat(1_000_000)]);
    }
    let mut client = bench.connect();
    client.peer.take_only(0);
    for _ in 0..20 {
        client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
        bench.turn();
    }
    let taken = client.peer.taken_by_broker();
    client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    assert_eq!(client.peer.taken_by_broker(), taken);
    client.peer.take_only(usize::MAX);
    bench.turn();
    assert_eq!(std::iter::from_fn(|| client.take()).count(), 21);
}

#[test]
fn answers_that_wait_for_their_turn_are_bounded_too() {
    let mut bench = Bench::new();
    bench.widen_catalog(8);
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    for _ in 0..150 {
        client.send(ApiKey::Metadata, 9, &all_topics());
    }
    bench.turn();
    let begun = bench.requests("Metadata");
    assert!(
        (10.0..100.0).contains(&begun),
        "{begun} answers of a quarter MiB"
    );
    commits.raise();
    bench.turn();
    assert_eq!(std::iter::from_fn(|| client.take()).count(), 151);
}

#[test]
fn answers_arrive_whole_through_a_narrow_connection() {
    let mut bench = Bench::new();
    bench.publish(clicks(0), &["a", "b"]);
    let mut client = bench.connect();
    client.peer.take_only(0);
    let read = client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    let look = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    let mut got = Vec::new();
    for _ in 0..2000 {
        client.peer.take_only(1);
        bench.turn();
        got.extend(client.peer.received());
    }
    let length = i32::from_be_bytes(got[..4].try_into().unwrap());
    let first = 4 + usize::try_from(length).unwrap();
    assert_eq!(got[4..8], read.to_be_bytes());
    assert_eq!(got[first + 4..first + 8], look.to_be_bytes());
}

#[test]
fn a_peer_that_ends_is_answered_first_and_its_polls_do_not_wait() {
    let mut bench = Bench::new();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let write = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    let poll = client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 1, 0));
    client.peer.end();
    bench.turn();
    assert!(!client.peer.is_closed());
    commits.raise();
    bench.turn();
    let _: ProduceResponse = client.answer(ApiKey::Produce, 9, write);
    let _: FetchResponse = client.answer(ApiKey::Fetch, 11, poll);
    assert!(client.peer.is_closed());
    assert_eq!(bench.served(), 0);
}

#[test]
fn connections_and_bytes_are_counted() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    assert_eq!(bench.context.metrics.connections.value(), 1);
    let (_, bytes) = client.encode(ApiKey::Metadata, 9, &all_topics());
    client.peer.send(&bytes);
    bench.turn();
    let metrics = &bench.context.metrics;
    assert_eq!(
        metrics.request_bytes.value(),
        u64::try_from(bytes.len()).unwrap()
    );
    let answered = client.peer.received().len();
    assert_eq!(
        metrics.response_bytes.value(),
        u64::try_from(answered).unwrap()
    );
    client.peer.vanish();
    bench.turn();
    assert_eq!(bench.context.metrics.connections.value(), 0);
}

/// Requests of every API, to be damaged.
fn whole_requests() -> Vec<Vec<u8>> {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    let mut requests = Vec::new();
    for version in [3, 9, 11] {
        let body = produce("default.clicks", 0, &["a"], -1);
        requests.push(client.encode(ApiKey::Produce, version, &body).1);
    }
    for version in [4, 7, 12] {
        let body = fetch("default.clicks", 0, 0).with_max_wait_ms(0);
        requests.push(client.encode(ApiKey::Fetch, version, &body).1);
    }
    for version in [1, 9, 12] {
        requests.push(client.encode(ApiKey::Metadata, version, &all_topics()).1);
    }
    requests
}

proptest! {
    #[test]
    fn random_frames_never_panic_and_never_hang(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8),
        key in 0_u8..25,
        version in 0_u8..14,
    ) {
        let mut bench = Bench::new();
        let client = bench.connect();
        for mut frame in frames {
            // Often enough a header that leads somewhere.
            for (to, from) in frame.iter_mut().zip([0, key, 0, version]) {
                *to = from;
            }
            client.peer.send(&framed(&frame));
        }
        client.peer.end();
        bench.turn();
        prop_assert_eq!(bench.served(), 0);
    }

    #[test]
    fn damaged_requests_never_panic_and_never_hang(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut requests = whole_requests();
        let mut request = requests.swap_remove(which.index(requests.len()));
        let at = 4 + at.index(request.len() - 4);
        request[at] ^= 1 << bit;
        if let Some(cut) = cut {
            request.truncate(4 + cut.index(request.len() - 4));
            let length = i32::try_from(request.len() - 4).unwrap();
            request[..4].copy_from_slice(&length.to_be_bytes());
        }
        let mut bench = Bench::new();
        let client = bench.connect();
        client.peer.send(&request);
        client.peer.end();
        bench.turn();
        prop_assert_eq!(bench.served(), 0);
    }
}

#[test]
fn a_large_request_that_cannot_be_read_gives_its_memory_back_though_answers_are_not_taken() {
    let mut bench = Bench::new();
    bench.publish(clicks(0), &[&"x".repeat(100_000)]);
    let mut client = bench.connect();
    client.peer.take_only(0);
    client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    bench.turn();
    let (_, mut bytes) = client.encode(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &[&"x".repeat(1 << 20)], -1),
    );
    // Where the number of topics stands: one that no number ends.
    bytes[28..48].fill(0xff);
    client.peer.send(&bytes);
    bench.turn();
    assert_eq!(bench.served(), 1, "it still has an answer to take");
    assert!(bench.context.memory.outbound.used() > 100_000);
    assert_eq!(bench.context.memory.inbound.used(), 0);
    assert_eq!(bench.context.metrics.protocol_errors.value(), 1);
}
