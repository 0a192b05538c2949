//! Clients of all kinds come, and are killed at moments a seed chooses: 20 seconds of it here, half an
//! hour in the full run. When the last is gone nothing is left of them: every gauge is zero, no shard
//! has failed, and the broker has the memory it had when it was warm.
#![expect(
    clippy::disallowed_methods,
    reason = "a test owns its clock, and clients live for as long as it says"
)]

use felix_tests::wire::Wire;
use felix_tests::{
    Broker, Kept, Policy, Process, Random, SIGKILL, SIGTERM, Stream, endurance, eventually, java,
    kcat, python,
};
use std::io::Write;
use std::time::{Duration, Instant};

const SHARDS: u32 = 2;
const TOPICS: [&str; 3] = ["long.periodic", "long.none", "long.on_commit"];
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// Clients at once.
const CLIENTS: usize = 8;
/// What a broker may have more at the end than when it was warm: allocators keep what they had at
/// their busiest.
const GROWN_BYTES_MAX: usize = 48 << 20;
/// Small, so that retention goes on all the time and the disk does not fill.
const SMALL_SEGMENTS: (&str, &str) = ("FELIX_DURABLE_SEGMENT_BYTES", "8388608");
const KEPT_BYTES: u64 = 64 << 20;
/// What counts clients, or what is done or held for them.
const GAUGES: [&str; 6] = [
    "felix_kafka_connections",
    "felix_memory_used_bytes",
    "felix_shard_parked_appends",
    "felix_shard_waiting_fetches",
    "felix_shard_watches",
    "felix_shard_failed",
];

fn streams() -> [Stream; 3] {
    let policies = [Policy::Periodic, Policy::None, Policy::OnCommit];
    std::array::from_fn(|number| {
        Stream::new(TOPICS[number], SHARDS)
            .flushed(policies[number])
            .keeping(Kept::For(KEPT_BYTES), Kept::Unsaid)
    })
}

/// Its memory without recent batches, which are kept up to a bound of their own.
fn held_bytes(broker: &Broker) -> usize {
    let tail = broker.metric("felix_shard_tail_bytes");
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes of one process's memory"
    )]
    broker.resident_bytes().saturating_sub(tail as usize)
}

/// A client that lives until it is killed, or has had enough.
fn start(random: &mut Random, bootstrap: &str, number: u64, again: &java::Program) -> Process {
    let mut below = |end: u64| random.within(0..end);
    let topic = TOPICS[usize::try_from(below(3)).expect("few")];
    let codec = CODECS[usize::try_from(below(5)).expect("few")];
    let partition = below(SHARDS.into()).to_string();
    let (shards, name) = (SHARDS.to_string(), format!("c{number}"));
    let compressed = format!("compression.type={codec}");
    match below(7) {
        0 => python::start(
            "load.py",
            &[bootstrap, topic, &shards, &name, &compressed],
            None,
        ),
        1 => {
            let args = [bootstrap, &shards, &name, topic, &compressed];
            python::start("again.py", &args, None)
        }
        2 => again.start(&[bootstrap, &shards, &name, topic, &compressed, "linger.ms=1"]),
        3 => {
            let lines = format!("{name}\n").repeat(20_000).into_bytes();
            let args = ["-P", "-t", topic, "-p", &partition, "-z", codec];
            kcat::start(bootstrap, &args, Some(lines))
        }
        4 => kcat::start(
            bootstrap,
            &["-C", "-q", "-t", topic, "-o", "beginning", "-f", ""],
            None,
        ),
        5 => kcat::start(
            bootstrap,
            &["-C", "-q", "-t", topic, "-o", "end", "-f", ""],
            None,
        ),
        _ => kcat::start(
            bootstrap,
            &[
                "-C", "-q", "-t", topic, "-p", &partition, "-o", "-5000", "-e", "-f", "",
            ],
            None,
        ),
    }
}

/// Breaks off in the middle of a request, with a fetch that waits before it.
fn break_off(random: &mut Random, port: u16) {
    let mut wire = Wire::connect(port);
    let sent = wire.send_fetch(TOPICS[0], 0, 0, 500);
    sent.expect("the broker reads");
    let length = i32::try_from(random.within(8..1 << 20)).expect("it is small");
    let mut socket = wire.socket();
    let begun = socket.write_all(&length.to_be_bytes());
    begun
        .and_then(|()| socket.write_all(&[0; 7]))
        .expect("the broker reads");
}

#[test]
fn nothing_is_left_of_clients_that_came_and_were_killed() {
    let mut broker = Broker::start_with(&streams(), &[SMALL_SEGMENTS]);
    let again = java::Program::compile("Again");
    let mut random = Random::from_environment();
    let bootstrap = broker.bootstrap();
    let mut clients: Vec<Process> = Vec::new();
    let begun = Instant::now();
    let mut warm_bytes = None;
    let mut number = 0;
    while begun.elapsed() < endurance() {
        if begun.elapsed() > endurance() / 3 && warm_bytes.is_none() {
            warm_bytes = Some(held_bytes(&broker));
        }
        clients.retain_mut(|client| !client.has_ended());
        if clients.len() >= CLIENTS {
            let chosen = random.within(0..u64::try_from(CLIENTS).expect("few"));
            let mut client = clients.swap_remove(usize::try_from(chosen).expect("few"));
            let signal = if random.within(0..4) == 0 {
                SIGTERM
            } else {
                SIGKILL
            };
            client.signal(signal);
            client.wait(Duration::from_secs(120));
        }
        clients.push(start(&mut random, &bootstrap, number, &again));
        number += 1;
        break_off(&mut random, broker.port());
        // The clients are to get somewhere.
        std::thread::sleep(Duration::from_millis(random.within(50..400)));
        assert!(broker.is_running(), "{}", broker.log());
    }
    eprintln!("{number} clients");
    let written = broker.metric("felix_kafka_produce_records_total");
    let read = broker.metric("felix_kafka_fetch_bytes_total");
    assert!(
        written > 1000.0 && read > 100_000.0,
        "{written} records, {read} bytes"
    );
    for client in &mut clients {
        client.signal(SIGKILL);
    }
    drop(clients);
    for gauge in GAUGES {
        eventually(gauge, || broker.metric(gauge) == 0.0);
    }
    let warm = warm_bytes.expect("it has lasted long enough");
    let left = held_bytes(&broker);
    assert!(
        left <= warm + GROWN_BYTES_MAX,
        "{left} bytes at the end and {warm} when it was warm"
    );
    assert_eq!(broker.metric("felix_shard_failures_total"), 0.0);
    assert!(broker.terminate().success());
}
