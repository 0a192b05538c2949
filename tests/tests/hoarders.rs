//! Peers of one address that hold all the memory there is, as cheaply as they can, with as many
//! connections as they like. Whoever comes from another address is served as soon as one of those
//! who hold it has to go, and memory stays within its bounds.

use felix_tests::{Broker, Stream, eventually, wire::Wire, within};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const TOPIC: &str = "hoarders.many";

/// The least memory a core may have: half of it for requests, half for answers.
const MEMORY: [(&str, &str); 3] = [
    ("FELIX_MEMORY_PER_CORE_BYTES", "33554432"),
    ("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0"),
    ("FELIX_TAIL_CACHE_BYTES", "1048576"),
];

/// Those who hoard, and those who do not.
const HOARDER: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

/// One who hardly goes on has ten seconds, and is seen a few later.
const ONE_HOLDER: Duration = Duration::from_secs(25);

/// Longer than anything here takes on a healthy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The whole of a claimed request.
const CLAIM_BYTES: i32 = 8 << 20;

fn broker() -> Broker {
    Broker::start_with(&[Stream::new(TOPIC, 2)], &MEMORY)
}

#[expect(clippy::disallowed_methods, reason = "drips take their time")]
fn pause() {
    thread::sleep(Duration::from_millis(50));
}

/// A connection from this address, whose kernel keeps next to nothing for it where `narrow`.
fn connect(from: [u8; 4], port: u16, narrow: bool) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
    if narrow {
        socket.set_recv_buffer_size(4096).expect("it is small");
    }
    let local: SocketAddr = (from, 0).into();
    socket.bind(&local.into()).expect("it is of this machine");
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    socket.connect(&address.into()).expect("the broker listens");
    TcpStream::from(socket)
}

/// Claims a large request, and sends as much of it as makes the broker hold memory for all of it.
fn claim(port: u16) -> TcpStream {
    let mut socket = connect(HOARDER, port, false);
    socket.set_write_timeout(Some(PATIENCE)).expect("not zero");
    let mut bytes = vec![0; 4 + (16 << 10)];
    bytes[..4].copy_from_slice(&CLAIM_BYTES.to_be_bytes());
    socket.write_all(&bytes).expect("the kernel takes it");
    socket
}

/// Connections that claim, and go on by `drip` bytes twenty times a second for as long as this
/// lives. One that is closed claims anew.
struct Claimers {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Claimers {
    fn start(port: u16, count: usize, drip: usize) -> Self {
        let mut sockets: Vec<TcpStream> = (0..count).map(|_| claim(port)).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for socket in &mut sockets {
                    socket.set_nonblocking(true).expect("it can be");
                    let closed = matches!(socket.peek(&mut [0]), Ok(0))
                        || socket.take_error().is_ok_and(|error| error.is_some());
                    let sent = socket.write(&vec![0; drip]);
                    let full =
                        |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
                    if closed || sent.is_err_and(|error| !full(&error)) {
                        *socket = claim(port);
                    }
                }
                pause();
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Claimers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn another_address_publishes_beside(count: usize, drip: usize) {
    let broker = broker();
    let port = broker.core_port(0);
    let _claimers = Claimers::start(port, count, drip);
    eventually("all but two wait", || {
        let waits = broker.metric("felix_memory_waits_total");
        waits >= f64::from(u32::try_from(count).expect("few") - 2)
    });
    let mut wire = Wire::over(connect(OTHER, port, false));
    let value = vec![b'v'; 20_000];
    for _ in 0..2 {
        let (error, _) = within(ONE_HOLDER, || wire.produce(TOPIC, 0, &value));
        assert_eq!(error, 0);
    }
}

#[test]
fn requests_that_are_claimed_and_drip_in_faster_than_a_little_hold_up_another_address_once() {
    // Seven thousand bytes a second.
    another_address_publishes_beside(17, 350);
}

#[test]
fn requests_that_are_claimed_again_and_again_hold_up_another_address_once() {
    another_address_publishes_beside(60, 0);
}

#[test]
fn readers_that_ask_for_a_byte_of_large_batches_and_take_nothing_hold_a_bounded_memory() {
    const READERS: usize = 100;
    const BATCHES: usize = 8;
    const BATCH_BYTES: usize = 7_500_000;
    // What a connection holds beside the pool, and the allocator's slack.
    const PER_READER_BYTES: usize = 64 << 10;
    const CONSTANT_BYTES: usize = 64 << 20;
    const MEMORY_BYTES: usize = 2 * (32 << 20);
    let broker = broker();
    let port = broker.core_port(0);
    let mut writer = Wire::connect(port);
    for _ in 0..BATCHES {
        assert_eq!(writer.produce(TOPIC, 0, &vec![b'x'; BATCH_BYTES]).0, 0);
    }
    let before = broker.resident_bytes();
    let slow: Vec<Wire> = (0..READERS)
        .map(|number| {
            let mut wire = Wire::over(connect(HOARDER, port, true));
            let offset = i64::try_from(number % BATCHES).expect("small");
            wire.send_fetch(TOPIC, 0, offset, 0).expect("it is read");
            wire
        })
        .collect();
    eventually("most wait", || {
        let waits = broker.metric("felix_memory_waits_total");
        waits >= f64::from(u32::try_from(READERS - 2).expect("few"))
    });
    let held = broker.resident_bytes().saturating_sub(before);
    let bound = MEMORY_BYTES + READERS * PER_READER_BYTES + CONSTANT_BYTES;
    assert!(held <= bound, "{held} bytes, at most {bound} were promised");

    // Small batches never wait, and a large one for another address once.
    let mut other = Wire::over(connect(OTHER, port, false));
    let (error, offset) = other.produce(TOPIC, 1, b"small");
    assert_eq!(error, 0);
    let answer = other.fetch(TOPIC, 1, offset, 0);
    assert!(answer.responses[0].partitions[0].records.is_some());
    let answer = within(ONE_HOLDER, || other.fetch(TOPIC, 0, 0, 0));
    let records = answer.responses[0].partitions[0].records.as_ref();
    assert!(records.is_some_and(|records| records.len() > BATCH_BYTES));
    assert!(broker.metric("felix_kafka_stalled_closed_total") > 0.0);

    drop(slow);
    eventually("all is given back", || {
        broker.metric("felix_memory_used_bytes") == 0.0
    });
}

/// A poll of all of a stream's shards that waits for as long as one may.
fn poll_everything(shards: i32) -> FetchRequest {
    let parts = (0..shards).map(|shard| {
        FetchPartition::default()
            .with_partition(shard)
            .with_current_leader_epoch(-1)
            .with_partition_max_bytes(1 << 20)
    });
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_static_str(TOPIC)))
        .with_partitions(parts.collect());
    FetchRequest::default()
        .with_max_wait_ms(30_000)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

#[test]
fn polls_of_everything_watch_a_bounded_number_of_shards_and_slow_down_no_poll_of_a_few() {
    const SHARDS: u32 = 1024;
    const CONNECTIONS: usize = 50;
    const POLLS: usize = 8;
    const WATCHED_MAX: usize = 1 << 17;
    // What a shard takes that is watched, and what any that is asked for takes meanwhile.
    const WATCHED_BYTES: usize = 256;
    const ASKED_BYTES: usize = 128;
    let broker = Broker::start_with(&[Stream::new(TOPIC, SHARDS)], &MEMORY[1..]);
    let port = broker.core_port(0);
    let before = broker.resident_bytes();
    let request = poll_everything(i32::try_from(SHARDS).expect("few"));
    let mut hoarders: Vec<Wire> = (0..CONNECTIONS)
        .map(|_| Wire::over(connect(HOARDER, port, false)))
        .collect();
    let count = |polls: usize| f64::from(u32::try_from(polls).expect("few"));
    // Round by round: what reads at the same time is promised memory, and where nothing is left to
    // promise, polls end.
    for round in 1..=POLLS {
        for wire in &mut hoarders {
            wire.send(&request, 11).expect("it is read");
        }
        eventually("all polls wait", || {
            broker.metric("felix_shard_waiting_fetches") >= count(round * CONNECTIONS)
        });
    }
    let held = broker.resident_bytes().saturating_sub(before);
    let bound = WATCHED_MAX * WATCHED_BYTES + CONNECTIONS * POLLS * 1024 * ASKED_BYTES;
    assert!(held <= bound, "{held} bytes, at most {bound} were promised");
    // 128 of them watch 1024 shards each: all that one core's connections may.
    let unwatched = broker.metric("felix_shard_unwatched_polls_total");
    assert_eq!(unwatched, count(CONNECTIONS * POLLS - 128));
    let mut reader = Wire::over(connect(OTHER, port, false));
    reader.send_fetch(TOPIC, 7, 0, 30_000).expect("it is read");
    let mut writer = Wire::over(connect(OTHER, port, false));
    within(Duration::from_secs(10), || {
        assert_eq!(writer.produce(TOPIC, 7, b"news").0, 0);
        let answer = reader.receive_fetch();
        assert!(answer.responses[0].partitions[0].records.is_some());
    });
}
