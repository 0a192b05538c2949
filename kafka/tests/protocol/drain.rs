//! A broker that shuts down: polls end, what was begun is answered, nothing more is begun.

use crate::bench::Bench;
use crate::fetch::fetch;
use crate::metadata::all_topics;
use crate::produce::{produce, produced};
use kafka_protocol::messages::{ApiKey, FetchResponse, ProduceResponse};

#[test]
fn an_idle_connection_is_closed_at_once() {
    let mut bench = Bench::new();
    let client = bench.connect();
    bench.context.drain.raise();
    bench.turn();
    assert!(client.peer.is_closed());
    assert_eq!(bench.served(), 0);
}

#[test]
fn what_was_begun_is_answered_and_polls_end() {
    let mut bench = Bench::new();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let write = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    let poll = client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 1, 0));
    bench.turn();
    bench.context.drain.raise();
    bench.turn();
    client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    assert!(!client.peer.is_closed());
    commits.raise();
    bench.turn();
    let write: ProduceResponse = client.answer(ApiKey::Produce, 9, write);
    assert_eq!(produced(&write).error_code, 0);
    let _: FetchResponse = client.answer(ApiKey::Fetch, 11, poll);
    assert!(
        client.is_unanswered(),
        "nothing was begun after the word was given"
    );
    assert!(client.peer.is_closed());
    assert_eq!(bench.served(), 0);
}

#[test]
fn a_batch_that_awaits_its_queue_is_still_written_and_answered() {
    let mut bench = Bench::new();
    let queues = bench.hold_queues();
    let mut client = bench.connect();
    let write = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    bench.turn();
    bench.context.drain.raise();
    bench.turn();
    assert!(!client.peer.is_closed());
    queues.raise();
    bench.turn();
    let write: ProduceResponse = client.answer(ApiKey::Produce, 9, write);
    assert_eq!(produced(&write).error_code, 0);
    assert!(client.peer.is_closed());
}

#[test]
fn a_connection_that_arrives_late_is_closed() {
    let mut bench = Bench::new();
    bench.context.drain.raise();
    let client = bench.connect();
    assert!(client.peer.is_closed());
}
