//! What a core's connections hold together, and what each of them shows of itself.

use crate::bench::{Bench, clicks};
use crate::client::Client;
use crate::fetch::fetch;
use crate::metadata::all_topics;
use crate::produce::{produce, produced};
use felix_core::memory::{Share, Short};
use felix_kafka::{Ending, Holding, Pulse, serve_watched};
use kafka_protocol::messages::{
    ApiKey, FetchRequest, FetchResponse, MetadataResponse, ProduceResponse,
};
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
fn who_waits_for_memory_is_not_idle_and_who_leaves_its_own_request_unfinished_is() {
    let mut bench = Bench::with_memory(LEAST);
    let (mut client, pulse) = watched(&mut bench);
    let (id, bytes) = large(&mut client, 5 << 20);
    let (begin, rest) = bytes.split_at(100 << 10);
    let pool = Rc::clone(&bench.context.memory.inbound);
    let others = Share::new(&pool);
    others.overdraw(pool.free());
    client.peer.send(begin);
    bench.turn();
    assert!(pulse.is_busy(), "it cannot go on");
    drop(others);
    bench.turn();
    assert!(!pulse.is_busy(), "its peer can, and does not");
    client.peer.send(rest);
    bench.turn();
    committed(&mut client, id);
    assert!(!pulse.is_busy());
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
    assert!(pulse.holding().answer_bytes > 0);
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
    assert!(pulse.is_busy() && pulse.holding().answer_bytes > 0);
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
    assert_eq!(pulse.holding().request_bytes, bytes.len() - 4);
    pulse.end(Ending::AtOnce);
    bench.turn();
    assert!(client.peer.is_dropped());
    assert_eq!(bench.served(), 0);
    assert_eq!(bench.context.memory.inbound.used(), 0);
}

/// A Fetch of everything there is, by a client that says that one byte is enough.
fn fetch_a_byte(partition: i32, offset: i64) -> FetchRequest {
    let mut request = fetch("default.clicks", partition, offset).with_max_bytes(1);
    request.topics[0].partitions[0].partition_max_bytes = 1;
    request
}

fn records_bytes(answer: &FetchResponse) -> usize {
    let records = answer.responses[0].partitions[0].records.as_ref();
    records.map_or(0, bytes::Bytes::len)
}

#[test]
fn batches_larger_than_a_fetch_may_bring_are_paid_for_first_and_all_get_theirs() {
    const LARGE: usize = 7 << 20;
    let mut bench = Bench::with_memory(LEAST);
    bench.publish(clicks(0), &[&"x".repeat(LARGE)]);
    bench.publish(clicks(1), &[&"x".repeat(60 << 10)]);
    let mut readers: Vec<Client> = (0..20).map(|_| bench.connect()).collect();
    let mut ids = Vec::new();
    for reader in &mut readers {
        reader.peer.take_only(0);
        ids.push(reader.send(ApiKey::Fetch, 11, &fetch_a_byte(0, 0)));
        bench.turn();
    }
    let memory = bench.context.memory.clone();
    let used = memory.outbound.used();
    assert!((2 * LARGE..=LEAST / 2).contains(&used), "{used} bytes");
    assert_eq!(memory.outbound.waits(), 18);
    assert!(memory.short().answers);

    // What is small is paid for afterwards.
    let mut other = bench.connect();
    let id = other.send(ApiKey::Fetch, 11, &fetch_a_byte(1, 0));
    bench.turn();
    let answer: FetchResponse = other.answer(ApiKey::Fetch, 11, id);
    assert!(records_bytes(&answer) > 60 << 10);

    // One that waits gives up, one that holds is closed, and the others take what they asked for.
    readers.remove(19).peer.vanish();
    readers.remove(0).peer.vanish();
    ids.remove(0);
    for (mut reader, id) in readers.into_iter().zip(ids) {
        bench.turn();
        assert!(memory.outbound.used() <= LEAST / 2);
        reader.peer.take_only(usize::MAX);
        bench.turn();
        let answer: FetchResponse = reader.answer(ApiKey::Fetch, 11, id);
        assert!(records_bytes(&answer) > LARGE);
    }
    assert_eq!(memory.outbound.used(), 0);
    assert_eq!(memory.outbound.unpromised(), memory.outbound.free());
}

#[test]
fn an_answer_is_held_until_the_last_byte_of_its_batch_is_taken() {
    const LARGE: usize = 7 << 20;
    let mut bench = Bench::with_memory(LEAST);
    bench.publish(clicks(0), &[&"x".repeat(LARGE)]);
    let mut reader = bench.connect();
    reader.peer.take_only(LARGE - 1000);
    let id = reader.send(ApiKey::Fetch, 11, &fetch_a_byte(0, 0));
    bench.turn();
    let used = bench.context.memory.outbound.used();
    assert!(used > LARGE, "{used} bytes");
    reader.peer.take_only(usize::MAX);
    bench.turn();
    let _: FetchResponse = reader.answer(ApiKey::Fetch, 11, id);
    assert_eq!(bench.context.memory.outbound.used(), 0);
}

#[test]
fn fetches_that_wait_for_memory_behind_and_before_others_never_wait_in_a_circle() {
    const LARGE: usize = 7 << 20;
    let mut bench = Bench::with_memory(LEAST);
    bench.publish(clicks(1), &[&"x".repeat(60 << 10)]);
    bench.publish(clicks(2), &[&"x".repeat(LARGE)]);
    // The first of each connection waits for records, and those behind it for their turn: small
    // ones with their answers, so that they hold all there is together, and a large one.
    let mut clients: Vec<Client> = (0..45).map(|_| bench.connect()).collect();
    let mut ids = Vec::new();
    for client in &mut clients {
        let mut sent = vec![client.send(ApiKey::Fetch, 11, &fetch_a_byte(0, 0))];
        for _ in 0..5 {
            sent.push(client.send(ApiKey::Fetch, 11, &fetch_a_byte(1, 0)));
        }
        sent.push(client.send(ApiKey::Fetch, 11, &fetch_a_byte(2, 0)));
        ids.push(sent);
        bench.turn();
    }
    let memory = bench.context.memory.clone();
    assert!(
        memory.outbound.free() < LARGE,
        "{} bytes",
        memory.outbound.free()
    );
    assert_eq!(memory.outbound.waits(), 0, "it is nobody's turn");
    bench.publish(clicks(0), &[&"x".repeat(LARGE)]);
    for (client, sent) in clients.iter_mut().zip(ids) {
        let bytes = sent.into_iter().map(|id| {
            bench.turn();
            records_bytes(&client.answer(ApiKey::Fetch, 11, id))
        });
        let bytes: Vec<usize> = bytes.collect();
        let large: Vec<bool> = bytes.iter().map(|bytes| *bytes > LARGE).collect();
        assert!(bytes.iter().all(|bytes| *bytes > 0));
        assert_eq!(large, [true, false, false, false, false, false, true]);
    }
    assert!(memory.outbound.waits() > 0);
    assert_eq!(memory.outbound.used(), 0);
}
