//! Requests are handed over and answered in order; only the wait for a commit is pipelined.

use crate::bench::{Bench, clicks};
use crate::fetch::fetch;
use crate::metadata::all_topics;
use crate::model::Event;
use crate::produce::{produce, produced};
use felix_core::shards::Acks;
use kafka_protocol::messages::{ApiKey, FetchResponse, MetadataResponse, ProduceResponse};
use std::time::Duration;

#[test]
fn a_second_produce_is_queued_before_the_first_is_committed_and_answers_keep_their_order() {
    let mut bench = Bench::new();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let first = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a", "b"], -1),
    );
    let second = client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["c"], 1));
    bench.turn();
    let queued = |acks| Event::Queued { index: 0, acks };
    assert_eq!(bench.events(), [queued(Acks::All), queued(Acks::Leader)]);
    assert!(client.is_unanswered());
    commits.raise();
    bench.turn();
    let first: ProduceResponse = client.answer(ApiKey::Produce, 9, first);
    let second: ProduceResponse = client.answer(ApiKey::Produce, 9, second);
    assert_eq!(produced(&first).base_offset, 0);
    assert_eq!(produced(&second).base_offset, 2);
}

#[test]
fn an_answer_that_is_ready_waits_for_those_before_it() {
    let mut bench = Bench::new();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let write = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    let look = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    assert!(client.is_unanswered());
    commits.raise();
    bench.turn();
    let _: ProduceResponse = client.answer(ApiKey::Produce, 9, write);
    let _: MetadataResponse = client.answer(ApiKey::Metadata, 9, look);
}

#[test]
fn while_a_batch_awaits_its_queue_nothing_more_is_read_and_earlier_answers_are_written() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    let commits = bench.hold_commits();
    let first = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    bench.turn();
    let queues = bench.hold_queues();
    client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["b"], -1),
    );
    bench.turn();
    bench.events();
    let taken = client.peer.taken_by_broker();
    client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["c"], -1),
    );
    bench.turn();
    assert_eq!(client.peer.taken_by_broker(), taken);
    commits.raise();
    bench.turn();
    let first: ProduceResponse = client.answer(ApiKey::Produce, 9, first);
    assert_eq!(produced(&first).base_offset, 0);
    assert!(client.is_unanswered());
    assert_eq!(bench.events(), [Event::Committed { index: 0 }]);
    queues.raise();
    bench.turn();
    let queued = Event::Queued {
        index: 0,
        acks: Acks::All,
    };
    let committed = Event::Committed { index: 0 };
    assert_eq!(
        bench.events(),
        [queued.clone(), committed.clone(), queued, committed]
    );
    assert!(client.take().is_some());
    assert!(client.take().is_some());
}

#[test]
fn a_request_behind_a_long_poll_ends_it_at_once() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    let poll = client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    bench.turn();
    assert!(client.is_unanswered());
    let look = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    let poll: FetchResponse = client.answer(ApiKey::Fetch, 11, poll);
    assert_eq!(poll.responses[0].partitions[0].error_code, 0);
    let _: MetadataResponse = client.answer(ApiKey::Metadata, 9, look);
}

#[test]
fn a_fetch_behind_a_fetch_begins_at_once_and_is_answered_in_its_turn() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    let first = client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    let second = client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 1, 0));
    bench.turn();
    assert_eq!(bench.events(), [Event::FetchBegun, Event::FetchBegun]);
    bench.publish(clicks(1), &["for the second"]);
    assert!(bench.events().contains(&Event::FetchEnded));
    assert!(client.is_unanswered());
    bench.publish(clicks(0), &["for the first"]);
    let first: FetchResponse = client.answer(ApiKey::Fetch, 11, first);
    let second: FetchResponse = client.answer(ApiKey::Fetch, 11, second);
    assert_eq!(first.responses[0].partitions[0].partition_index, 0);
    assert_eq!(second.responses[0].partitions[0].partition_index, 1);
    assert!(
        second.responses[0].partitions[0]
            .records
            .as_ref()
            .is_some_and(|r| !r.is_empty())
    );
}

#[test]
fn a_request_behind_two_long_polls_ends_both() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    for partition in 0..2 {
        client.send(ApiKey::Fetch, 11, &fetch("default.clicks", partition, 0));
    }
    client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 2, &["a"], -1),
    );
    bench.turn();
    for _ in 0..3 {
        assert!(client.take().is_some());
    }
}

#[test]
fn more_fetches_than_may_wait_end_those_that_do() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    for _ in 0..9 {
        client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    }
    bench.turn();
    for _ in 0..8 {
        assert!(client.take().is_some());
    }
    assert!(client.is_unanswered(), "the ninth waits as it asked");
    bench.wait(Duration::from_secs(30));
    assert!(client.take().is_some());
}

#[test]
fn requests_in_flight_are_bounded_and_go_on_when_some_are_answered() {
    let mut bench = Bench::new();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    for _ in 0..300 {
        client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["a"], 1));
    }
    bench.turn();
    assert_eq!(bench.events().len(), 256);
    commits.raise();
    bench.turn();
    let mut next = 0;
    while let Some(answer) = client.take() {
        drop(answer);
        next += 1;
    }
    assert_eq!(next, 300);
}

#[test]
fn bytes_of_unanswered_produces_are_bounded_by_their_sum() {
    let mut bench = Bench::new();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let large = "x".repeat(3 << 20);
    for _ in 0..7 {
        client.send(
            ApiKey::Produce,
            9,
            &produce("default.clicks", 0, &[&large], 1),
        );
    }
    bench.turn();
    assert_eq!(bench.events().len(), 5, "a sixth would pass 16 MiB");
    commits.raise();
    bench.turn();
    assert_eq!(std::iter::from_fn(|| client.take()).count(), 7);
}
