//! How often the broker asks the device, as the kernel counts it and as the broker does: a flush is
//! one request on a ring for each file with something new in each round, not one for each append;
//! what the page cache has costs none, and what it does not have costs one for each piece; and a
//! broker that has nothing to do asks for nothing.
//!
//! Needs root and tracefs, like `flush_trace.rs`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::trace::{self, Ringed, Trace, Tracing};
use felix_tests::wire::{Wire, batch, produce_request};
use felix_tests::{Broker, Descriptors, Metrics, Policy, Stream, traced_answers};
use kafka_protocol::messages::ProduceRequest;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

const CLIENTS: usize = 12;
/// Requests that a client has under way.
const DEPTH: usize = 4;
const PRODUCE_VERSION: i16 = 7;
/// What `Wire::fetch` asks for at most.
const FETCH_BYTES: usize = 1 << 20;

/// What happened while a piece of work was done: the kernel's view and the broker's.
struct Counted {
    trace: Trace,
    before: Metrics,
    after: Metrics,
}

impl Counted {
    /// `None` where tracing is impossible and need not be.
    fn of(broker: &Broker, work: impl FnOnce()) -> Option<Self> {
        let before = broker.metrics();
        let tracing = match Tracing::start(broker.pid()) {
            Ok(tracing) => tracing,
            Err(reason) => {
                trace::not_checked("how often the device is asked", &reason);
                return None;
            }
        };
        work();
        Some(Self {
            trace: tracing.stop(),
            before,
            after: broker.metrics(),
        })
    }

    /// By how much one of the broker's counters rose.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counters are whole numbers that only rise"
    )]
    fn rose(&self, name: &str) -> usize {
        let value = |metrics: &Metrics| metrics.sum(name).unwrap();
        (value(&self.after) - value(&self.before)) as usize
    }
}

/// The only segment of a shard, and its number in the broker.
fn segment(broker: &Broker, topic: &str, partition: u32) -> (PathBuf, i32) {
    let path = broker
        .shard_dir(topic, partition)
        .join(format!("{:020}.log", 0));
    let descriptor = Descriptors::of(broker.pid()).file(&path);
    (path, descriptor)
}

/// Sends so many requests of one record each, each time `depth` in one piece, and awaits the answers.
fn produce(port: u16, topic: &'static str, partition: i32, requests: usize, depth: usize) {
    let mut wire = Wire::connect(port);
    for _ in 0..requests / depth {
        let request = produce_request(topic, partition, batch(&[b'x'; 300]));
        let frames: Vec<u8> = (0..depth)
            .flat_map(|_| wire.frame::<ProduceRequest>(&request, PRODUCE_VERSION))
            .collect();
        wire.socket().write_all(&frames).unwrap();
        for _ in 0..depth {
            assert_eq!(wire.receive_produce().0, 0);
        }
    }
}

/// One at a time for a file, and each for at least one write of its own. What is written between a
/// flush being decided on and its submission is the next one's, so the writes are counted.
fn assert_each_has_something_new(trace: &Trace, descriptor: i32) -> Vec<Ringed> {
    let (writes, flushes) = (trace.writes(descriptor), trace.flushes(descriptor));
    for (number, flush) in flushes.iter().enumerate() {
        assert!(
            number == 0 || flushes[number - 1].end < flush.begin,
            "two at once: {flush:?}"
        );
        let before = writes.iter().filter(|write| write.end < flush.begin);
        assert!(before.count() > number, "{flush:?} is for nothing");
    }
    flushes
}

#[test]
fn a_producer_that_waits_for_each_answer_has_a_flush_for_each() {
    const TOPIC: &str = "counted.alone";
    let broker = Broker::start(&[Stream::new(TOPIC, 1).flushed(Policy::OnCommit)]);
    let answers = traced_answers();
    let port = broker.port();
    let Some(counted) = Counted::of(&broker, || produce(port, TOPIC, 0, answers, 1)) else {
        return;
    };
    let (_, descriptor) = segment(&broker, TOPIC, 0);
    let flushes = assert_each_has_something_new(&counted.trace, descriptor);
    assert_eq!(flushes.len(), answers);
    assert_eq!(counted.trace.submitted("FSYNC"), answers);
    assert_eq!(counted.rose("felix_storage_sync_total"), answers);
    assert_eq!(counted.rose("felix_storage_sync_appends_total"), answers);
    // Nor does the core ask for anything else with each: it sets a timer only for a sleep that no
    // timer would end as early (decision 12).
    let timers = ["TIMEOUT", "TIMEOUT_REMOVE"].map(|kind| counted.trace.submitted(kind));
    assert!(
        timers.iter().sum::<usize>() * 4 <= answers,
        "{timers:?} for {answers}"
    );
}

#[test]
fn producers_of_one_shard_share_flushes_and_each_is_one_request_on_the_ring() {
    const TOPIC: &str = "counted.together";
    let broker = Broker::start(&[Stream::new(TOPIC, 1).flushed(Policy::OnCommit)]);
    let answers = CLIENTS * traced_answers();
    let port = broker.port();
    let together = || {
        let client = || thread::spawn(move || produce(port, TOPIC, 0, traced_answers(), DEPTH));
        let clients: Vec<_> = (0..CLIENTS).map(|_| client()).collect();
        for client in clients {
            client.join().unwrap();
        }
    };
    let Some(counted) = Counted::of(&broker, together) else {
        return;
    };
    let (_, descriptor) = segment(&broker, TOPIC, 0);
    let flushes = assert_each_has_something_new(&counted.trace, descriptor).len();
    assert_eq!(counted.trace.submitted("FSYNC"), flushes);
    assert_eq!(counted.rose("felix_storage_sync_total"), flushes);
    assert_eq!(counted.rose("felix_storage_sync_appends_total"), answers);
    assert!(flushes <= counted.rose("felix_storage_sync_rounds_total"));
    assert!(flushes * 2 <= answers, "{flushes} for {answers}");
}

#[test]
fn each_dirty_shard_of_a_round_is_one_request_and_a_broker_at_rest_asks_for_nothing() {
    const TOPIC: &str = "counted.apart";
    const SHARDS: u32 = 5;
    let quick = [("FELIX_DURABLE_FSYNC_INTERVAL_MS", "5")];
    let stream = Stream::new(TOPIC, SHARDS).flushed(Policy::Periodic);
    let broker = Broker::start_with(&[stream], &quick);
    let port = broker.port();
    let is_clean = || broker.metric("felix_storage_unsynced_bytes") < 0.5;
    let apart = || {
        let client = |partition| {
            thread::spawn(move || produce(port, TOPIC, partition, traced_answers(), DEPTH))
        };
        let clients: Vec<_> = (0..5).map(client).collect();
        for client in clients {
            client.join().unwrap();
        }
        felix_tests::eventually("all is durable", is_clean);
    };
    let Some(counted) = Counted::of(&broker, apart) else {
        return;
    };
    let rounds = counted.rose("felix_storage_sync_rounds_total");
    let mut flushes = 0;
    for partition in 0..SHARDS {
        let (_, descriptor) = segment(&broker, TOPIC, partition);
        let of_shard = assert_each_has_something_new(&counted.trace, descriptor).len();
        assert!(0 < of_shard && of_shard <= rounds, "{of_shard} in {rounds}");
        flushes += of_shard;
    }
    assert_eq!(counted.trace.submitted("FSYNC"), flushes);
    assert_eq!(counted.rose("felix_storage_sync_total"), flushes);
    assert!(flushes < 5 * traced_answers());

    // Every look at its numbers wakes all cores, some intervals pass, and nothing is dirty.
    let at_rest = || (0..30).for_each(|_| drop(broker.metrics()));
    let counted = Counted::of(&broker, at_rest).unwrap();
    assert_eq!(counted.trace.submitted("FSYNC"), 0);
    assert_eq!(counted.rose("felix_storage_sync_rounds_total"), 0);
    assert_eq!(counted.rose("felix_storage_device_reads_total"), 0);
}

/// Has the kernel drop what it holds of the file in memory.
fn evict(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// Whether files of this directory are nowhere but in memory.
fn is_in_memory(path: &Path) -> bool {
    // Of tmpfs.
    rustix::fs::statfs(path).unwrap().f_type == 0x0102_1994
}

/// Fetches every record, as many as a page holds in each request; how many requests.
fn fetch_all(port: u16, topic: &'static str, records: i64) -> usize {
    let mut wire = Wire::connect(port);
    let (mut offset, mut requests) = (0, 0);
    while offset < records {
        let answer = wire.fetch(topic, 0, offset, 0);
        let found = answer.responses[0].partitions[0].records.clone().unwrap();
        assert!(found.len() <= FETCH_BYTES);
        // The first offset of each batch, and the length of the rest.
        let mut rest = &found[..];
        while let Some((head, _)) = rest.split_at_checked(12) {
            let length = u32::from_be_bytes(head[8..].try_into().unwrap());
            assert_eq!(head[..8], offset.to_be_bytes());
            rest = &rest[12 + usize::try_from(length).unwrap()..];
            offset += 1;
        }
        requests += 1;
    }
    requests
}

#[test]
fn what_the_page_cache_has_costs_no_read_on_the_ring_and_what_it_lacks_one_for_each_piece() {
    const TOPIC: &str = "counted.cold";
    const RECORDS: i64 = 24;
    let mut broker = Broker::start(&[Stream::new(TOPIC, 1).flushed(Policy::OnCommit)]);
    let mut wire = Wire::connect(broker.port());
    for _ in 0..RECORDS {
        assert_eq!(wire.produce(TOPIC, 0, &[b'x'; 400 << 10]).0, 0);
    }
    // What was written last is in the broker's own memory until it starts again.
    assert!(broker.terminate().success());
    broker.start_again();
    // An idle shard has no file open; the first reader opens it.
    fetch_all(broker.port(), TOPIC, RECORDS);
    let (path, descriptor) = segment(&broker, TOPIC, 0);
    if is_in_memory(&path) {
        trace::not_checked(TOPIC, "temporary files are on no device");
        return;
    }
    let port = broker.port();
    let reads = || {
        let mut requests = 0;
        let counted = Counted::of(&broker, || requests = fetch_all(port, TOPIC, RECORDS))?;
        assert_eq!(counted.rose("felix_shard_tail_reads_total"), 0);
        let asked = counted.trace.reads(descriptor).len();
        assert_eq!(counted.rose("felix_storage_device_reads_total"), asked);
        Some((
            asked,
            counted.rose("felix_shard_cold_reads_total"),
            requests,
        ))
    };

    evict(&path);
    let Some((asked, waited, requests)) = reads() else {
        return;
    };
    assert!(asked > 0, "nothing was read from the device");
    assert!(0 < waited && waited <= requests, "{waited} of {requests}");
    // The next one is a fetch for the same bytes, which are in the page cache now.
    let (asked, ..) = reads().unwrap();
    assert_eq!(asked, 0);
    evict(&path);
    let (asked, waited, _) = reads().unwrap();
    assert!(asked > 0 && waited > 0, "{asked}, {waited}");
}
