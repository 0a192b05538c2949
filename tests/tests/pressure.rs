//! A broker under pressure: peers that say nothing, peers that take nothing, memory that is used
//! up, and cores that never sleep. Whoever behaves is served, and memory stays within its bounds.

use bytes::Bytes;
use felix_core::Timestamp;
use felix_core::batch::BatchBuilder;
use felix_tests::wire::{Wire, expect_end, produce_request};
use felix_tests::{Broker, Stream, eventually, within};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TOPIC: &str = "pressure.many";

/// The least memory a core may have, and what two cores of it hold.
const MEMORY: (&str, &str) = ("FELIX_MEMORY_PER_CORE_BYTES", "33554432");
const MEMORY_BYTES: usize = 2 * (32 << 20);
/// Half of it is for answers, and with the last sixteenth of that they are short.
const USED_UP_BYTES: f64 = 15.0 * (2 << 20) as f64;
const NO_LIMIT: [(&str, &str); 2] = [
    ("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0"),
    ("FELIX_KAFKA_MAX_CONNECTIONS", "5000"),
];

/// Longer than anything here takes on a healthy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn broker(settings: &[(&'static str, &'static str)]) -> Broker {
    Broker::start_with(&[Stream::new(TOPIC, 2)], settings)
}

/// A connection whose kernel keeps next to nothing for it.
fn narrow(port: u16) -> Wire {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
    socket.set_recv_buffer_size(4096).expect("it is small");
    let address: std::net::SocketAddr = ([127, 0, 0, 1], port).into();
    socket.connect(&address.into()).expect("the broker listens");
    Wire::over(TcpStream::from(socket))
}

/// Asks for more than anybody holds for one reader, and takes none of it.
fn take_nothing(wire: &mut Wire, number: usize) {
    for fetch in 0..20 {
        let offset = i64::try_from((number + fetch * 19) % 380).expect("small");
        wire.send_fetch(TOPIC, 0, offset, 0)
            .expect("small enough for the kernel");
    }
}

/// Writes and reads rounds of a well-behaved client on one partition.
fn behaves(wire: &mut Wire, partition: i32, bytes: usize, rounds: usize) {
    let value = vec![b'v'; bytes];
    for _ in 0..rounds {
        let (error, offset) = wire.produce(TOPIC, partition, &value);
        assert_eq!(error, 0);
        let answer = wire.fetch(TOPIC, partition, offset, 0);
        let part = &answer.responses[0].partitions[0];
        assert_eq!(part.error_code, 0);
        let records = part.records.as_ref().expect("it was written");
        assert!(
            records.len() > bytes,
            "{} bytes of one record",
            records.len()
        );
    }
}

#[test]
fn a_connection_that_asks_nothing_is_closed_with_a_clean_end_and_a_waiting_one_is_not() {
    let broker = broker(&[("FELIX_KAFKA_IDLE_TIMEOUT_MS", "300")]);
    let mut polling = Wire::connect(broker.port());
    polling.send_fetch(TOPIC, 0, 0, 2000).expect("it is read");
    let mut idle: Vec<Wire> = (0..5).map(|_| Wire::connect(broker.port())).collect();
    for wire in &mut idle {
        drop(wire.metadata());
    }
    // A request that never arrives whole is none.
    let mut half = TcpStream::connect(("127.0.0.1", broker.port())).expect("it listens");
    half.write_all(&[0, 0, 0, 100, 0]).expect("it is read");
    for wire in idle {
        within(PATIENCE, || expect_end(wire.socket()));
    }
    half.set_read_timeout(Some(PATIENCE)).expect("not zero");
    expect_end(&half);
    // All of the above were idle for longer than this one has waited.
    let answer = polling.receive_fetch();
    assert_eq!(answer.responses[0].partitions[0].error_code, 0);
    expect_end(polling.socket());
    assert_eq!(broker.metric("felix_kafka_idle_closed_total"), 7.0);
    eventually("they leave nothing behind", || {
        broker.metric("felix_kafka_connections") == 0.0
    });
}

#[test]
fn a_request_that_takes_longer_than_the_idle_timeout_to_arrive_is_not_idle() {
    const TIMEOUT_MS: u64 = 500;
    const PART_BYTES: usize = 32 << 10;
    let broker = broker(&[("FELIX_KAFKA_IDLE_TIMEOUT_MS", "500")]);
    let value = vec![b'v'; 1 << 20];
    let batch = BatchBuilder::new().record(Timestamp(1), None, Some(&value));
    let request = produce_request(TOPIC, 0, batch.build().freeze());
    let mut wire = Wire::connect(broker.port());
    let frame = wire.frame(&request, 7);
    #[expect(clippy::disallowed_methods, reason = "a test owns its clock")]
    let begun = Instant::now();
    for part in frame.chunks(PART_BYTES) {
        wire.socket().write_all(part).expect("the broker reads");
        #[expect(clippy::disallowed_methods, reason = "an upload takes its time")]
        thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() > 3 * Duration::from_millis(TIMEOUT_MS));
    let answer = wire.receive::<ProduceRequest>(7);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    // With nothing more to say it is idle like any other.
    expect_end(wire.socket());
    assert_eq!(broker.metric("felix_kafka_idle_closed_total"), 1.0);
}

#[test]
fn zero_lets_idle_connections_live() {
    let broker = broker(&[("FELIX_KAFKA_IDLE_TIMEOUT_MS", "0")]);
    let mut idle = Wire::connect(broker.port());
    drop(idle.metadata());
    let mut busy = Wire::connect(broker.port());
    behaves(&mut busy, 0, 100, 200);
    drop(idle.metadata());
    assert_eq!(broker.metric("felix_kafka_idle_closed_total"), 0.0);
}

#[test]
fn a_peer_that_is_closed_while_it_sends_still_gets_what_it_was_answered() {
    let broker = broker(&[]);
    for _ in 0..20 {
        let mut wire = Wire::connect(broker.port());
        wire.send_fetch(TOPIC, 0, 0, 0).expect("it is read");
        // A length out of bounds, and more than one receive takes.
        wire.socket()
            .write_all(&[0xff; 200 << 10])
            .expect("the kernel takes it");
        let answer = wire.receive_fetch();
        assert_eq!(answer.responses[0].partitions[0].error_code, 0);
        expect_end(wire.socket());
        // A socket that is closed for good would answer the first of these with a reset, and the
        // next would fail.
        for _ in 0..3 {
            let late = wire.socket().write_all(b"what was on its way");
            late.expect("it is read until we end, too");
        }
    }
    eventually("none is kept once its peer has ended", || {
        broker.metric("felix_net_open_connections") == 0.0
    });
}

#[test]
fn a_thousand_readers_that_take_nothing_hold_a_bounded_memory_and_nobody_else_waits() {
    const READERS: usize = 1000;
    const BATCH_BYTES: usize = 50_000;
    // What each may hold beyond the pool: its buffers, and what a Fetch brings in any case.
    const PER_READER_BYTES: usize = (64 << 10) + BATCH_BYTES + (32 << 10);
    // The allocator's slack, and what the broker needs to serve at all.
    const CONSTANT_BYTES: usize = 64 << 20;
    // A small tail, so that what is read takes memory of its own.
    let tail = ("FELIX_TAIL_CACHE_BYTES", "1048576");
    let broker = broker(&[MEMORY, NO_LIMIT[0], NO_LIMIT[1], tail]);
    let mut writer = Wire::connect(broker.port());
    let batch = vec![b'x'; BATCH_BYTES];
    for _ in 0..400 {
        assert_eq!(writer.produce(TOPIC, 0, &batch).0, 0);
    }
    let before = broker.resident_bytes();
    let mut slow: Vec<Wire> = (0..READERS).map(|_| narrow(broker.port())).collect();
    for (number, wire) in slow.iter_mut().enumerate() {
        take_nothing(wire, number);
    }
    // Others write little and much, on both partitions, on both cores, and read it.
    for core in 0..broker.cores() {
        let mut wire = Wire::connect(broker.core_port(core));
        for partition in 0..2 {
            behaves(&mut wire, partition, 100, 50);
            behaves(&mut wire, partition, 500_000, 5);
        }
    }
    let held = broker.resident_bytes().saturating_sub(before);
    let bound = MEMORY_BYTES + READERS * PER_READER_BYTES + CONSTANT_BYTES;
    assert!(
        held <= bound,
        "{held} bytes held, at most {bound} were promised"
    );
    // However the kernel spread the readers over the cores: all that there is for answers is held.
    eventually("the memory for answers is used up", || {
        let used_up = broker.metric("felix_memory_used_bytes") >= USED_UP_BYTES;
        if !used_up {
            for core in 0..broker.cores() {
                let mut wire = narrow(broker.core_port(core));
                take_nothing(&mut wire, 0);
                slow.push(wire);
            }
        }
        used_up
    });

    // Those who hold what others want, and do nothing, have to go in the end.
    eventually("stalled readers are closed", || {
        broker.metric("felix_kafka_stalled_closed_total") > 0.0
    });
    drop(slow);
    eventually("all is given back", || {
        broker.metric("felix_memory_used_bytes") == 0.0
    });
}

#[test]
fn a_small_batch_that_is_kept_does_not_keep_the_large_request_it_came_in() {
    const REQUESTS: usize = 400;
    const JUNK_BYTES: usize = 1 << 20;
    let broker = broker(&[]);
    let small = BatchBuilder::new()
        .record(Timestamp(1), None, Some(b"v"))
        .build()
        .freeze();
    let junk = Bytes::from(vec![0; JUNK_BYTES]);
    let parts = [small, junk].into_iter().zip(0..);
    let parts = parts.map(|(records, partition)| {
        PartitionProduceData::default()
            .with_index(partition)
            .with_records(Some(records))
    });
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_static_str(TOPIC)))
        .with_partition_data(parts.collect());
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic]);
    let mut wire = Wire::connect(broker.port());
    let before = broker.resident_bytes();
    for _ in 0..REQUESTS {
        wire.send(&request, 7).expect("the broker reads");
        let answer = wire.receive::<ProduceRequest>(7);
        let [kept, refused] = &*answer.responses[0].partition_responses else {
            panic!("{answer:?}");
        };
        assert_eq!(kept.error_code, 0);
        assert_ne!(refused.error_code, 0);
    }
    let held = broker.resident_bytes().saturating_sub(before);
    assert!(held <= REQUESTS * JUNK_BYTES / 4, "{held} bytes held");
}

/// Peers that each begin a request of seven MiB, `begun` bytes of it, and go on with a byte now and
/// then for as long as this lives.
struct Drippers {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drippers {
    fn start(port: u16, count: usize, begun: usize) -> Self {
        let mut sockets: Vec<TcpStream> = (0..count)
            .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it listens"))
            .collect();
        for socket in &mut sockets {
            let mut bytes = vec![0; begun];
            bytes[..4].copy_from_slice(&(7_i32 << 20).to_be_bytes());
            socket.set_write_timeout(Some(PATIENCE)).expect("not zero");
            socket.write_all(&bytes).expect("the kernel takes it");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // Those that were closed are done with.
                sockets.retain_mut(|socket| socket.write_all(&[0]).is_ok());
                #[expect(clippy::disallowed_methods, reason = "dripping takes its time")]
                thread::sleep(Duration::from_millis(100));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Drippers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[test]
fn requests_that_are_only_claimed_hold_up_nobody() {
    let broker = broker(&[MEMORY, NO_LIMIT[0], NO_LIMIT[1]]);
    let port = broker.core_port(0);
    let _drippers = Drippers::start(port, 16, 4);
    behaves(&mut Wire::connect(port), 0, 900_000, 20);
    assert_eq!(broker.metric("felix_memory_waits_total"), 0.0);
}

#[test]
fn requests_that_never_arrive_whole_hold_up_large_ones_for_a_while_and_small_ones_never() {
    let broker = broker(&[MEMORY, NO_LIMIT[0], NO_LIMIT[1]]);
    let port = broker.core_port(0);
    let _drippers = Drippers::start(port, 5, 200 << 10);
    eventually("the memory is used up", || {
        broker.metric("felix_memory_waits_total") > 0.0
    });
    behaves(&mut Wire::connect(port), 0, 1000, 100);
    assert_eq!(broker.metric("felix_kafka_stalled_closed_total"), 0.0);
    // The other core's memory is its own.
    behaves(&mut Wire::connect(broker.core_port(1)), 1, 900_000, 3);
    // On the same core a large request gets its turn once those who hardly go on have to go.
    behaves(&mut Wire::connect(port), 0, 900_000, 1);
    assert!(broker.metric("felix_kafka_stalled_closed_total") > 0.0);
}

#[test]
fn cores_that_look_before_they_sleep_do_not_sleep_between_requests_and_lose_nothing() {
    let broker = broker(&[("FELIX_SPIN_US", "1000000")]);
    // One of the two partitions belongs to the other core, so every round crosses the lanes.
    let mut wire = Wire::connect(broker.core_port(0));
    behaves(&mut wire, 0, 100, 1);
    behaves(&mut wire, 1, 100, 1);
    let before = broker.metric("felix_net_parks_total");
    behaves(&mut wire, 0, 100, 100);
    behaves(&mut wire, 1, 100, 100);
    let slept = broker.metric("felix_net_parks_total") - before;
    assert_eq!(slept, 0.0, "sleeps in four hundred round trips");
    assert!(broker.metric("felix_shard_hops_total") > 0.0);
    for partition in 0..2 {
        let answer = wire.fetch(TOPIC, partition, 0, 0);
        assert_eq!(answer.responses[0].partitions[0].high_watermark, 101);
    }
}

#[test]
fn idle_cores_ask_their_sockets_nothing() {
    let broker = broker(&[]);
    let mut idle: Vec<Wire> = (0..50).map(|_| Wire::connect(broker.port())).collect();
    for wire in &mut idle {
        drop(wire.metadata());
    }
    let polls = || broker.metric("felix_net_polls_total");
    let mut before = polls();
    eventually("they come to rest", || {
        let now = polls();
        std::mem::replace(&mut before, now) == now
    });
    #[expect(clippy::disallowed_methods, reason = "nothing is to happen meanwhile")]
    thread::sleep(Duration::from_millis(500));
    assert_eq!(polls(), before);
}
