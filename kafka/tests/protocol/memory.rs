//! What a core's connections hold together, and what each of them shows of itself.

use crate::bench::{Bench, clicks};
use crate::client::Client;
use crate::fetch::fetch;
use crate::metadata::all_topics;
use crate::produce::{produce, produced};
use felix_core::memory::Short;
use felix_kafka::{Ending, Holding, Pulse, serve_watched};
use kafka_protocol::messages::{ApiKey, FetchResponse, MetadataResponse, ProduceResponse};
use std::rc::Rc;
use std::time::Duration;

/// The least that a core may have: half for requests, half for answers.
const LEAST: usize = 32 << 20;

/// A produce of this many bytes, and its correlation id.
fn large(client: &mut Client, bytes: usize) -> (i32, Vec<u8>) {
    let body = produce("default.clicks", 0, &[&"x".repeat(bytes)], -1);
    client.encode(ApiKey::Produce, 9, &body)
}

fn committed(client: &mut Client, id: i32) {
    let answer: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
    assert_eq!(produced(&answer).error_code, 0);
}

#[test]
fn large_requests_are_received_as_there_is_memory_and_all_are_answered() {
    let mut bench = Bench::with_memory(LEAST);
    let commits = bench.hold_commits();
    let mut clients: Vec<Client> = (0..10).map(|_| bench.connect()).collect();
    let mut ids = Vec::new();
    for client in &mut clients {
        let (id, bytes) = large(client, 5 << 20);
        client.peer.send(&bytes);
        ids.push(id);
        bench.turn();
    }
    let pool = Rc::clone(&bench.context.memory.inbound);
    assert!(pool.used() <= LEAST / 2, "{} bytes", pool.used());
    assert_eq!(pool.waits(), 7, "three of five MiB fit sixteen");
    for waiting in &clients[3..] {
        let taken = waiting.peer.taken_by_broker();
        assert!(taken <= 16 << 10, "{taken} bytes of a request that waits");
    }
    commits.raise();
    bench.turn();
    for (client, id) in clients.iter_mut().zip(ids) {
        committed(client, id);
    }
    assert_eq!(pool.used(), 0, "everything is given back");
    assert_eq!(bench.context.memory.outbound.used(), 0);
}

#[test]
fn small_requests_never_wait_for_those_who_hold_the_memory() {
    let mut bench = Bench::with_memory(LEAST);
    let mut hoarders: Vec<Client> = (0..5).map(|_| bench.connect()).collect();
    for hoarder in &mut hoarders {
        let (_, bytes) = large(hoarder, 7 << 20);
        hoarder.peer.send(&bytes[..300 << 10]);
        bench.turn();
    }
    assert!(bench.context.memory.short().requests);
    let mut client = bench.connect();
    for _ in 0..20 {
        let id = client.send(
            ApiKey::Produce,
            9,
            &produce("default.clicks", 0, &["a"], -1),
        );
        let poll = client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
        bench.turn();
        committed(&mut client, id);
        let _: FetchResponse = client.answer(ApiKey::Fetch, 11, poll);
    }
}

#[test]
fn producers_of_a_stuck_shard_wait_with_what_they_sent_and_nobody_else_does() {
    let mut bench = Bench::with_memory(LEAST);
    let stuck = bench.hold_queues();
    let mut waiting: Vec<(Client, i32)> = Vec::new();
    for _ in 0..100 {
        let mut client = bench.connect();
        let (id, bytes) = large(&mut client, 100 << 10);
        client.peer.send(&bytes);
        // What stands behind is not read.
        client.peer.send(&bytes);
        bench.turn();
        waiting.push((client, id));
    }
    let used = bench.context.memory.inbound.used();
    assert!(used <= LEAST / 2, "{used} bytes");
    bench.shards.0.borrow_mut().queue_gate = None;
    let mut other = bench.connect();
    for _ in 0..20 {
        let body = produce("default.clicks", 1, &[&"y".repeat(200 << 10)], -1);
        let id = other.send(ApiKey::Produce, 9, &body);
        bench.turn();
        committed(&mut other, id);
    }
    stuck.raise();
    bench.turn();
    for (client, id) in &mut waiting {
        committed(client, *id);
        committed(client, *id);
    }
    assert_eq!(bench.context.memory.inbound.used(), 0);
}

#[test]
fn who_gives_up_makes_room_for_the_next_in_line() {
    let mut bench = Bench::with_memory(LEAST);
    let mut clients: Vec<Client> = (0..4).map(|_| bench.connect()).collect();
    let mut requests = Vec::new();
    for client in &mut clients {
        let (id, bytes) = large(client, 7 << 20);
        client.peer.send(&bytes[..20 << 10]);
        bench.turn();
        requests.push((id, bytes));
    }
    // Two hold fourteen of sixteen MiB, and one of those in line goes before those that hold.
    clients[2].peer.vanish();
    clients[0].peer.vanish();
    bench.turn();
    let (id, bytes) = &requests[3];
    clients[3].peer.send(&bytes[20 << 10..]);
    bench.turn();
    committed(&mut clients[3], *id);
    drop(clients);
    bench.turn();
}

#[test]
fn a_refused_request_keeps_no_memory() {
    let mut bench = Bench::with_memory(LEAST);
    let client = bench.connect();
    let mut bytes = vec![0xff; 4 + (1 << 20)];
    bytes[..4].copy_from_slice(&(1_i32 << 20).to_be_bytes());
    client.peer.send(&bytes);
    bench.turn();
    assert!(client.peer.is_closed());
    assert_eq!(bench.context.memory.inbound.used(), 0);
}

#[test]
fn readers_that_take_nothing_hold_a_bounded_part_and_others_go_on_reading() {
    let mut bench = Bench::with_memory(LEAST);
    // Batches of 60 KiB: no single one is more than what a Fetch may bring in any case.
    for _ in 0..400 {
        bench.publish(clicks(0), &[&"x".repeat(60 << 10)]);
    }
    let mut slow: Vec<Client> = (0..50).map(|_| bench.connect()).collect();
    for reader in &mut slow {
        reader.peer.take_only(0);
        for _ in 0..10 {
            reader.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
        }
        bench.turn();
    }
    let memory = bench.context.memory.clone();
    let used = memory.outbound.used();
    let bound = LEAST / 2 + 50 * (65 << 10);
    assert!((LEAST / 2..=bound).contains(&used), "{used} bytes");

    let mut reader = bench.connect();
    for _ in 0..5 {
        let poll = reader.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
        bench.turn();
        let answer: FetchResponse = reader.answer(ApiKey::Fetch, 11, poll);
        let records = answer.responses[0].partitions[0].records.as_ref().unwrap();
        assert!(!records.is_empty());
    }
    for reader in &mut slow {
        reader.peer.take_only(usize::MAX);
    }
    bench.turn();
    for mut reader in slow {
        assert_eq!(std::iter::from_fn(|| reader.take()).count(), 10);
    }
    assert_eq!(memory.outbound.used(), 0);
}

#[test]
fn polls_that_wait_hold_nothing_and_leave_a_reader_all_there_is() {
    let mut bench = Bench::with_memory(LEAST);
    let memory = bench.context.memory.clone();
    for _ in 0..40 {
        bench.publish(clicks(1), &[&"x".repeat(60 << 10)]);
    }
    let alone = fetched_bytes(&mut bench);
    assert!(alone > 900 << 10, "{alone} bytes, close to a MiB");
    let mut polls: Vec<Client> = (0..1000).map(|_| bench.connect()).collect();
    for poll in &mut polls {
        poll.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    }
    bench.turn();
    assert_eq!(
        (memory.outbound.used(), memory.short()),
        (0, Short::default())
    );
    assert_eq!(memory.outbound.unpromised(), memory.outbound.free());
    assert_eq!(fetched_bytes(&mut bench), alone);

    // A consumer that pauses holds its answer, and is in nobody's way.
    let (mut paused, pulse) = watched(&mut bench);
    paused.peer.take_only(0);
    paused.send(ApiKey::Fetch, 11, &fetch("default.clicks", 1, 0));
    bench.turn();
    assert!(pulse.holding().answers);
    assert_eq!(memory.short(), Short::default());

    bench.publish(clicks(0), &["a"]);
    for poll in &mut polls {
        assert!(poll.take().is_some());
    }
    paused.peer.take_only(usize::MAX);
    bench.turn();
    assert_eq!(memory.outbound.used(), 0);
}

/// Bytes of records that one Fetch of a new reader brings.
fn fetched_bytes(bench: &mut Bench) -> usize {
    let mut reader = bench.connect();
    let id = reader.send(ApiKey::Fetch, 11, &fetch("default.clicks", 1, 0));
    bench.turn();
    let answer: FetchResponse = reader.answer(ApiKey::Fetch, 11, id);
    let records = answer.responses[0].partitions[0].records.as_ref();
    records.expect("there are some").len()
}

#[test]
fn requests_that_are_only_claimed_hold_nothing_and_no_large_one_waits_for_them() {
    let mut bench = Bench::with_memory(LEAST);
    let mut drippers: Vec<Client> = (0..16).map(|_| bench.connect()).collect();
    for dripper in &mut drippers {
        let (_, bytes) = large(dripper, 7 << 20);
        dripper.peer.send(&bytes[..4]);
        bench.turn();
        dripper.peer.send(&bytes[4..16 << 10][..(16 << 10) - 5]);
        bench.turn();
    }
    let pool = Rc::clone(&bench.context.memory.inbound);
    assert_eq!((pool.used(), pool.waits()), (0, 0));
    let mut client = bench.connect();
    let (id, bytes) = large(&mut client, 7 << 20);
    client.peer.send(&bytes);
    bench.turn();
    committed(&mut client, id);
    assert_eq!(pool.waits(), 0);
}

#[test]
fn a_request_that_is_here_whole_and_waits_for_others_is_not_its_peers_fault() {
    let mut bench = Bench::with_memory(2 * LEAST);
    let (mut client, pulse) = watched(&mut bench);
    let commits = bench.hold_commits();
    let ids = [7, 7, 2].map(|mib| {
        let (id, bytes) = large(&mut client, mib << 20);
        client.peer.send(&bytes);
        bench.turn();
        id
    });
    let taken = client.peer.taken_by_broker();
    assert!(taken > 16 << 20, "{taken}: the third is here");
    assert_eq!(pulse.holding(), Holding::default());
    commits.raise();
    bench.turn();
    for id in ids {
        committed(&mut client, id);
    }
}

/// A connection that is watched over.
fn watched(bench: &mut Bench) -> (Client, Rc<Pulse>) {
    let pulse: Rc<Pulse> = Rc::default();
    let client = bench.connect_with(|context, stream, peer| {
        let served = serve_watched(context, stream, peer, Rc::clone(&pulse));
        Box::pin(async move { drop(served.await) })
    });
    (client, pulse)
}

#[test]
fn a_pulse_tells_requests_bytes_and_what_is_under_way() {
    let mut bench = Bench::new();
    let (mut client, pulse) = watched(&mut bench);
    assert_eq!(
        (pulse.requests(), pulse.bytes(), pulse.is_busy()),
        (0, 0, false)
    );
    let id = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    let _: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
    let bytes = pulse.bytes();
    assert!(bytes > 0);
    assert_eq!((pulse.requests(), pulse.is_busy()), (1, false));
    client.send(ApiKey::Fetch, 11, &fetch("default.clicks", 0, 0));
    bench.turn();
    assert!(pulse.is_busy(), "a long poll is under way");
    assert_eq!(pulse.holding(), Holding::default());
    bench.wait(Duration::from_secs(40));
    assert!(!pulse.is_busy());
    client.peer.take_only(0);
    client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    assert!(pulse.is_busy() && pulse.holding().answers);
}

#[test]
fn a_connection_told_to_end_cleanly_answers_what_was_begun_first() {
    let mut bench = Bench::new();
    let (mut client, pulse) = watched(&mut bench);
    let commits = bench.hold_commits();
    let id = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    bench.turn();
    pulse.end(Ending::Cleanly);
    bench.turn();
    assert!(!client.peer.is_closed());
    commits.raise();
    bench.turn();
    committed(&mut client, id);
    assert!(client.peer.is_closed());
    assert_eq!(bench.served(), 0);
}

#[test]
fn a_connection_told_to_end_at_once_does() {
    let mut bench = Bench::with_memory(LEAST);
    let (mut client, pulse) = watched(&mut bench);
    let (_, bytes) = large(&mut client, 7 << 20);
    client.peer.send(&bytes[..300 << 10]);
    bench.turn();
    assert!(pulse.holding().request);
    pulse.end(Ending::AtOnce);
    bench.turn();
    assert!(client.peer.is_dropped());
    assert_eq!(bench.served(), 0);
    assert_eq!(bench.context.memory.inbound.used(), 0);
}
