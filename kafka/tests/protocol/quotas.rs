//! Tenants that publish more than they may: it is written, the answer says for how long to wait, and
//! for so long nothing more is read.

use crate::bench::{Bench, batch_bytes, clicks};
use crate::client::Client;
use crate::fetch::fetch;
use crate::metadata::all_topics;
use crate::model::{Event, ModelClock};
use crate::produce::{produce, produce_bytes, produced};
use felix_core::limits::REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX;
use felix_core::memory::Share;
use felix_core::quota::{Budget, Budgets, Charged, Dealer};
use felix_core::shards::Acks;
use felix_core::{Clock, PublishQuota, ShardError};
use felix_kafka::{Ending, Pulse, Signal, serve_watched};
use kafka_protocol::messages::{
    ApiKey, FetchResponse, MetadataResponse, ProduceRequest, ProduceResponse,
};
use std::cell::RefCell;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::Duration;

/// Each millisecond pays for a byte.
const RATE: u64 = 1000;
const THROTTLE_MAX: Duration = Duration::from_secs(20);

/// A dealer on the connections' own core, or one on another that answers when the test says so.
struct Quota {
    dealer: Rc<RefCell<Dealer>>,
    clock: Rc<ModelClock>,
    answer: Option<Signal>,
    uncharged_bytes_max: u64,
}

impl PublishQuota for Quota {
    fn charge(&self, tenant: &str, bytes: u64) -> Charged {
        let now = self.clock.monotonic();
        let throttle = self.dealer.borrow_mut().charge(tenant, bytes, now);
        match &self.answer {
            None => Charged::At(throttle),
            Some(answer) => {
                let raised = answer.raised();
                Charged::Asked(Box::pin(async move {
                    raised.await;
                    throttle
                }))
            }
        }
    }

    fn uncharged_bytes_max(&self, _tenant: &str) -> u64 {
        self.uncharged_bytes_max
    }
}

fn bench_with(burst_bytes: u64, answer: Option<Signal>) -> Bench {
    bench_of(burst_bytes, answer, u64::MAX)
}

fn bench_of(burst_bytes: u64, answer: Option<Signal>, uncharged_bytes_max: u64) -> Bench {
    Bench::with_quota(|clock| {
        let budget = Budget {
            bytes_per_second: NonZeroU64::new(RATE).unwrap(),
            burst_bytes,
        };
        let dealer = Dealer::new(Budgets::same(budget, THROTTLE_MAX), 1);
        Rc::new(Quota {
            dealer: Rc::new(RefCell::new(dealer)),
            clock,
            answer,
            uncharged_bytes_max,
        })
    })
}

/// Of a tenant that may publish one byte at once.
fn bench() -> Bench {
    bench_with(1, None)
}

/// The throttle for so many records "a", each in a batch of its own, of a tenant that had one byte.
fn owed_ms(batches: usize) -> i32 {
    i32::try_from(batches * batch_bytes(&["a"]).len() - 1).unwrap()
}

fn one() -> ProduceRequest {
    produce("default.clicks", 0, &["a"], -1)
}

fn millis(millis: i32) -> Duration {
    Duration::from_millis(millis.unsigned_abs().into())
}

/// Takes the answer to a produce, which was written; the throttle that it tells.
fn throttle(client: &mut Client, version: i16, id: i32) -> i32 {
    let answer: ProduceResponse = client.answer(ApiKey::Produce, version, id);
    assert_eq!(produced(&answer).error_code, 0);
    answer.throttle_time_ms
}

/// Asks for Metadata; whether it is answered.
fn is_answered(bench: &mut Bench, client: &mut Client) -> bool {
    let id = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    if client.is_unanswered() {
        return false;
    }
    let _: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
    true
}

#[test]
fn every_version_tells_the_throttle_at_once_and_reads_on_when_it_is_over() {
    for version in 3..=11 {
        let mut bench = bench();
        let mut client = bench.connect();
        let id = client.send(ApiKey::Produce, version, &one());
        bench.turn();
        assert_eq!(throttle(&mut client, version, id), owed_ms(1), "v{version}");
        assert_eq!(bench.counted("felix_kafka_throttled_connections", &[]), 1.0);
        let taken = client.peer.taken_by_broker();
        let id = client.send(ApiKey::Metadata, 9, &all_topics());
        bench.turn();
        bench.wait(millis(owed_ms(1) - 1));
        assert!(client.is_unanswered());
        assert_eq!(client.peer.taken_by_broker(), taken, "not a byte is read");
        bench.wait(millis(1));
        let _: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
        assert_eq!(bench.counted("felix_kafka_throttled_connections", &[]), 0.0);
        assert_eq!(bench.counted("felix_kafka_throttles_total", &[]), 1.0);
        let told = bench.counted("felix_kafka_throttle_ms_total", &[]);
        assert_eq!(told, f64::from(owed_ms(1)));
    }
}

#[test]
fn within_the_budget_and_for_what_is_refused_nobody_waits() {
    let mut bench = bench_with(1000, None);
    let mut client = bench.connect();
    let id = client.send(ApiKey::Produce, 9, &one());
    bench.turn();
    assert_eq!(throttle(&mut client, 9, id), 0);
    for _ in 0..100 {
        let refused = produce_bytes("default.clicks", 0, Some(vec![0; 100].into()), -1);
        let id = client.send(ApiKey::Produce, 9, &refused);
        bench.turn();
        let answer: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
        assert_ne!(produced(&answer).error_code, 0);
        assert_eq!(answer.throttle_time_ms, 0);
    }
    assert!(is_answered(&mut bench, &mut client));
    assert_eq!(bench.counted("felix_kafka_throttles_total", &[]), 0.0);
}

#[test]
fn who_waits_as_told_is_not_made_to_wait_again() {
    let mut bench = bench();
    let mut client = bench.connect();
    let mut first = 0;
    for round in 0..5 {
        let id = client.send(ApiKey::Produce, 9, &one());
        bench.turn();
        let told = throttle(&mut client, 9, id);
        // After the first, which found one byte, each pays for itself.
        assert_eq!(told, owed_ms(1) + i32::from(round > 0), "round {round}");
        first = first.max(told);
        bench.wait(millis(told));
    }
    // And who does not wait is read at the same moment.
    assert!(is_answered(&mut bench, &mut client));
}

#[test]
fn what_was_read_together_is_written_and_its_waits_are_not_added_up() {
    let mut bench = bench();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let ids: Vec<i32> = (0..3)
        .map(|_| client.send(ApiKey::Produce, 9, &one()))
        .collect();
    bench.turn();
    commits.raise();
    bench.turn();
    for (id, batches) in ids.into_iter().zip(1..) {
        assert_eq!(throttle(&mut client, 9, id), owed_ms(batches));
    }
    assert_eq!(bench.counted("felix_kafka_throttled_connections", &[]), 1.0);
    let id = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.wait(millis(owed_ms(3) - 1));
    assert!(client.is_unanswered());
    bench.wait(millis(1));
    let _: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
}

#[test]
fn what_was_sent_after_the_answer_is_not_begun_though_it_was_read_in_part() {
    let mut bench = bench();
    let mut client = bench.connect();
    let (first, mut bytes) = client.encode(ApiKey::Produce, 9, &one());
    let (second, more) = client.encode(ApiKey::Produce, 9, &one());
    let (half, rest) = more.split_at(more.len() / 2);
    bytes.extend(half);
    client.peer.send(&bytes);
    bench.turn();
    assert_eq!(throttle(&mut client, 9, first), owed_ms(1));
    client.peer.send(rest);
    bench.turn();
    assert!(client.is_unanswered());
    assert_eq!(bench.requests("Produce"), 1.0);
    bench.wait(millis(owed_ms(1)));
    assert_eq!(throttle(&mut client, 9, second), owed_ms(1) + 1);
}

#[test]
fn what_was_received_and_had_no_room_is_not_begun_either() {
    let mut bench = bench();
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let begun = REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX;
    for _ in 0..begun + 5 {
        client.send(ApiKey::Produce, 9, &one());
    }
    bench.turn();
    commits.raise();
    bench.turn();
    assert_eq!(bench.requests("Produce"), begun as f64);
    bench.wait(millis(owed_ms(begun)));
    assert!(bench.requests("Produce") > begun as f64);
}

#[test]
fn little_is_begun_before_the_first_of_it_is_charged() {
    let mut bench = bench_of(1, None, 500);
    let commits = bench.hold_commits();
    let mut client = bench.connect();
    let (_, frame) = client.encode(ApiKey::Produce, 9, &one());
    for _ in 0..20 {
        client.send(ApiKey::Produce, 9, &one());
    }
    bench.turn();
    let begun = 500 / (frame.len() - 4);
    assert!(begun > 1);
    assert_eq!(bench.requests("Produce"), begun as f64);
    commits.raise();
    bench.turn();
    assert_eq!(bench.requests("Produce"), begun as f64, "now it is muted");
    bench.wait(millis(owed_ms(begun)));
    assert!(bench.requests("Produce") > begun as f64);
}

#[test]
fn without_an_answer_the_connection_is_muted_all_the_same() {
    let mut bench = bench();
    let mut client = bench.connect();
    client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["a"], 0));
    bench.turn();
    assert!(!is_answered(&mut bench, &mut client));
    assert!(bench.events().contains(&Event::Queued {
        index: 0,
        acks: Acks::None
    }));
    bench.wait(millis(owed_ms(1)));
    assert!(client.take().is_some(), "the Metadata");
    assert!(client.is_unanswered());
}

#[test]
fn other_connections_of_the_tenant_are_read_and_those_that_write_share_the_debt() {
    let mut bench = bench();
    let mut writer = bench.connect();
    let mut reader = bench.connect();
    let mut other = bench.connect();
    let id = writer.send(ApiKey::Produce, 9, &one());
    bench.turn();
    assert_eq!(throttle(&mut writer, 9, id), owed_ms(1));
    let id = reader.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    bench.turn();
    let read: FetchResponse = reader.answer(ApiKey::Fetch, 11, id);
    assert_eq!(read.throttle_time_ms, 0);
    assert!(is_answered(&mut bench, &mut reader));
    let id = other.send(ApiKey::Produce, 9, &one());
    bench.turn();
    assert_eq!(throttle(&mut other, 9, id), owed_ms(2));
}

#[test]
fn a_throttle_has_a_bound_and_the_debt_has_none() {
    let mut bench = bench();
    let mut client = bench.connect();
    let large = "x".repeat(30_000);
    let request = produce("default.clicks", 0, &[&large], -1);
    let id = client.send(ApiKey::Produce, 9, &request);
    bench.turn();
    assert_eq!(throttle(&mut client, 9, id), 20_000);
    bench.wait(THROTTLE_MAX);
    let id = client.send(ApiKey::Produce, 9, &one());
    bench.turn();
    let left = throttle(&mut client, 9, id);
    assert!((10_000..10_300).contains(&left), "{left}");
}

#[test]
fn an_answer_waits_for_the_dealer_and_what_was_written_stays_so() {
    let answer = Signal::default();
    let mut bench = bench_with(1, Some(answer.clone()));
    let mut client = bench.connect();
    let id = client.send(ApiKey::Produce, 9, &one());
    bench.turn();
    assert!(client.is_unanswered());
    assert_eq!(bench.log(clicks(0), |log| log.batches.len()), 1);
    answer.raise();
    bench.turn();
    assert_eq!(throttle(&mut client, 9, id), owed_ms(1));
}

#[test]
fn a_muted_connection_ends_at_once_when_the_broker_shuts_down() {
    let mut bench = bench();
    let mut client = bench.connect();
    let id = client.send(ApiKey::Produce, 9, &one());
    bench.turn();
    assert_eq!(throttle(&mut client, 9, id), owed_ms(1));
    client.send(ApiKey::Produce, 9, &one());
    bench.context.drain.raise();
    bench.turn();
    assert!(client.peer.is_closed());
    assert_eq!(bench.served(), 0);
    assert_eq!(bench.counted("felix_kafka_throttled_connections", &[]), 0.0);
}

/// A connection, and what it shows of itself.
fn watched(bench: &mut Bench) -> (Client, Rc<Pulse>) {
    let pulse: Rc<Pulse> = Rc::default();
    let watched = Rc::clone(&pulse);
    let client = bench.connect_with(|context, stream, peer| {
        Box::pin(async move {
            drop(serve_watched(context, stream, peer, watched).await);
        })
    });
    (client, pulse)
}

/// A produce that is paid for whole.
fn large(client: &mut Client) -> (i32, Vec<u8>) {
    let large = "x".repeat(1 << 20);
    let large = produce("default.clicks", 0, &[&large], -1);
    client.encode(ApiKey::Produce, 9, &large)
}

#[test]
fn what_a_muted_connection_holds_of_a_request_is_awaited_from_it_and_it_is_busy() {
    // Half a large request, or all of one that is not begun because of those before it.
    for whole in [false, true] {
        let mut bench = bench();
        let pool = Rc::clone(&bench.context.memory.inbound);
        let (mut client, pulse) = watched(&mut bench);
        let commits = bench.hold_commits();
        let before = if whole {
            REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
        } else {
            1
        };
        let ids: Vec<_> = (0..before)
            .map(|_| client.send(ApiKey::Produce, 9, &one()))
            .collect();
        let (second, large) = large(&mut client);
        let sent = if whole { large.len() } else { 100_000 };
        client.peer.send(&large[..sent]);
        bench.turn();
        assert!(pool.used() > 1 << 20, "it is paid for whole");
        assert_eq!(pulse.holding().request_bytes > 0, !whole);
        commits.raise();
        bench.turn();
        for (id, batches) in ids.into_iter().zip(1..) {
            assert_eq!(throttle(&mut client, 9, id), owed_ms(batches).min(20_000));
        }
        assert!(pulse.is_busy(), "muted");
        // Others may wait for it: the sweep takes it for stalled then.
        assert!(pulse.holding().request_bytes > 1 << 20);
        bench.wait(millis(owed_ms(before).min(20_000)));
        client.peer.send(&large[sent..]);
        bench.turn();
        assert_eq!(throttle(&mut client, 9, second), 20_000);
        assert_eq!(pool.used(), 0);
    }
}

#[test]
fn a_large_request_that_has_hardly_begun_to_arrive_is_given_back_while_muted() {
    let mut bench = bench();
    let pool = Rc::clone(&bench.context.memory.inbound);
    let (mut client, pulse) = watched(&mut bench);
    let commits = bench.hold_commits();
    let first = client.send(ApiKey::Produce, 9, &one());
    bench.turn();
    let (second, large) = large(&mut client);
    let (begin, rest) = large.split_at(16 << 10);
    client.peer.send(begin);
    bench.turn();
    assert!(pool.used() > 1 << 20);
    commits.raise();
    bench.turn();
    assert_eq!(throttle(&mut client, 9, first), owed_ms(1));
    assert_eq!((pool.used(), pulse.holding().request_bytes), (0, 0));
    client.peer.send(rest);
    bench.turn();
    assert_eq!(pool.used(), 0);
    bench.wait(millis(owed_ms(1)));
    assert_eq!(throttle(&mut client, 9, second), 20_000);
}

#[test]
fn a_muted_connection_does_not_stay_in_line_for_memory() {
    let mut bench = bench();
    let pool = Rc::clone(&bench.context.memory.inbound);
    let mut client = bench.connect();
    let commits = bench.hold_commits();
    let first = client.send(ApiKey::Produce, 9, &one());
    bench.turn();
    let others = Share::new(&pool);
    others.overdraw(pool.free());
    let (second, large) = large(&mut client);
    client.peer.send(&large);
    bench.turn();
    assert!(pool.has_waiting());
    commits.raise();
    bench.turn();
    assert_eq!(throttle(&mut client, 9, first), owed_ms(1));
    assert!(!pool.has_waiting(), "others come first");
    drop(others);
    bench.turn();
    assert_eq!(pool.used(), 0);
    bench.wait(millis(owed_ms(1)));
    assert_eq!(throttle(&mut client, 9, second), 20_000);
}

#[test]
fn a_large_request_that_may_not_be_begun_yet_is_not_paid_for() {
    let mut bench = bench_of(1, None, 1 << 20);
    let pool = Rc::clone(&bench.context.memory.inbound);
    let mut client = bench.connect();
    let commits = bench.hold_commits();
    let first = client.send(ApiKey::Produce, 9, &one());
    let (second, large) = large(&mut client);
    client.peer.send(&large);
    bench.turn();
    assert!(pool.used() < 1 << 10, "{} bytes", pool.used());
    commits.raise();
    bench.turn();
    assert_eq!(throttle(&mut client, 9, first), owed_ms(1));
    bench.wait(millis(owed_ms(1)));
    assert_eq!(throttle(&mut client, 9, second), 20_000);
}

#[test]
fn who_breaks_the_connection_before_the_commit_has_paid_for_what_it_brought() {
    // While it is committed, and while it waits for its place.
    for place in [false, true] {
        let mut bench = bench();
        let gate = if place {
            bench.hold_queues()
        } else {
            bench.hold_commits()
        };
        let (mut broken, pulse) = watched(&mut bench);
        broken.send(ApiKey::Produce, 9, &one());
        bench.turn();
        if place {
            pulse.end(Ending::AtOnce);
        } else {
            broken.peer.vanish();
        }
        bench.turn();
        assert_eq!(bench.served(), 0);
        gate.raise();
        let mut client = bench.connect();
        let id = client.send(ApiKey::Produce, 9, &one());
        bench.turn();
        assert_eq!(throttle(&mut client, 9, id), owed_ms(2), "{place}");
    }
}

#[test]
fn what_stands_behind_a_lost_produce_is_charged_though_nobody_is_told() {
    let mut bench = bench();
    let commits = bench.hold_commits();
    let mut lost = bench.connect();
    bench.log(clicks(1), |log| {
        log.append_error = Some(ShardError::NotLeader)
    });
    lost.send(ApiKey::Produce, 9, &produce("default.clicks", 1, &["a"], 0));
    lost.send(ApiKey::Produce, 9, &one());
    bench.turn();
    commits.raise();
    bench.turn();
    assert!(lost.peer.is_closed());
    let mut client = bench.connect();
    let id = client.send(ApiKey::Produce, 9, &one());
    bench.turn();
    assert_eq!(throttle(&mut client, 9, id), owed_ms(2));
}
