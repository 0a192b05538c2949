//! Peers that mean harm, against the real broker: each is answered with the right error or closed
//! with a line in the log, the broker neither crashes nor grows, and others notice nothing.

use felix_fuzz::seeds::batches::{around, lies};
use felix_fuzz::seeds::bombs::{bomb, compress};
use felix_fuzz::seeds::frames::{framed, produce, refused, request};
use felix_fuzz::{Mutator, corpus};
use felix_kafka::codec::{ApiKey, ErrorCode};
use felix_tests::{Broker, Random, Stream, kcat};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use felix_core::batch::Codec;
use felix_core::limits::BATCH_DECOMPRESSED_BYTES_MAX;

/// The topic that the corpus speaks of.
const TARGET: &str = "default.clicks";
const PEACEFUL: &str = "orders.created";

const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// What the broker may take beyond what it had after its start, at any moment: on each of its two
/// cores a decompressed batch and the half of it that it grew from, requests and answers on their
/// way, and what the allocator keeps.
const GROWTH_BYTES_MAX: u64 = 128 << 20;

const ATTACKERS: u64 = 4;
const CONNECTIONS_EACH: usize = 60;

fn broker() -> Broker {
    let streams = [Stream::new(TARGET, 3), Stream::new(PEACEFUL, 2)];
    Broker::start_with(&streams, &[("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0")])
}

fn memory_bytes(pid: i32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .expect("the kernel says it")
        * 1024
}

/// Asserts that the broker never took more than it may.
fn assert_bounded(broker: &Broker, before: u64) {
    let most = memory_bytes(broker.pid(), "VmHWM:");
    let grown = most.saturating_sub(before);
    assert!(
        grown <= GROWTH_BYTES_MAX,
        "the broker grew by {grown} bytes"
    );
}

fn connect(port: u16) -> TcpStream {
    let peer = TcpStream::connect(("127.0.0.1", port)).expect("the broker listens");
    let limit = Some(Duration::from_secs(60));
    peer.set_read_timeout(limit).expect("not zero");
    peer.set_write_timeout(limit).expect("not zero");
    peer
}

fn is_closing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected
    )
}

/// Sends everything and then a FIN; what the broker answered before it closed. Panics if it keeps
/// the connection.
fn converse(port: u16, sent: &[u8]) -> Vec<Vec<u8>> {
    let mut peer = connect(port);
    let sending = peer.try_clone().expect("a socket can be shared");
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut sending = sending;
            let sent = sending
                .write_all(sent)
                .and_then(|()| sending.shutdown(Shutdown::Write));
            if let Err(error) = sent {
                assert!(
                    is_closing(error.kind()),
                    "the broker stopped reading: {error}"
                );
            }
        });
        let mut answer = Vec::new();
        if let Err(error) = peer.read_to_end(&mut answer) {
            assert!(
                is_closing(error.kind()),
                "the broker keeps the connection: {error}"
            );
        }
        frames(&answer)
    })
}

/// Whole frames; one that a reset cut short is left out.
fn frames(mut answer: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((length, rest)) = answer.split_first_chunk() {
        let length =
            usize::try_from(i32::from_be_bytes(*length)).expect("a length is not negative");
        let Some((frame, rest)) = rest.split_at_checked(length) else {
            break;
        };
        found.push(frame.to_vec());
        answer = rest;
    }
    found
}

/// The error of the one partition in an answer to [`produce`] version 7.
fn produce_error(frame: &[u8]) -> i16 {
    // Id, topics, the name, partitions, the partition.
    let at = 4 + 4 + 2 + TARGET.len() + 4 + 4;
    let code = frame.get(at..).and_then(<[u8]>::first_chunk);
    i16::from_be_bytes(*code.expect("the answer has a partition"))
}

/// Sends a batch and asks for metadata behind it: the error, and that the connection goes on.
fn refusal_of(port: u16, batch: &[u8]) -> i16 {
    let sent = [
        framed(&produce(7, 1, TARGET, -1, batch)),
        framed(&request(ApiKey::Metadata, 5, 2, TARGET)),
    ];
    let answers = converse(port, &sent.concat());
    assert_eq!(answers.len(), 2, "the connection goes on");
    produce_error(&answers[0])
}

#[test]
fn each_lie_in_a_batch_is_answered_with_its_error_and_the_connection_goes_on() {
    let broker = broker();
    let honest = felix_fuzz::seeds::batches::plain(3, Codec::Zstd);
    assert_eq!(refusal_of(broker.port(), &honest), 0);
    for (name, batch) in lies() {
        let expected = match name {
            "checksum" => ErrorCode::CorruptMessage,
            "magic-0" | "magic-1" => ErrorCode::UnsupportedForMessageFormat,
            "codec-unknown" => ErrorCode::UnsupportedCompressionType,
            "append-time" => ErrorCode::InvalidTimestamp,
            "transactional" => ErrorCode::TransactionalIdAuthorizationFailed,
            _ => ErrorCode::InvalidRecord,
        };
        assert_eq!(refusal_of(broker.port(), &batch), expected.wire(), "{name}");
    }
}

#[test]
fn a_bomb_in_any_codec_is_too_large_and_takes_no_more_memory_than_an_honest_batch() {
    let broker = broker();
    let before = memory_bytes(broker.pid(), "VmRSS:");
    for codec in CODECS {
        for bytes in [BATCH_DECOMPRESSED_BYTES_MAX + 1, 128 << 20] {
            let bomb = bomb(codec, bytes).expect("the codec compresses");
            let batch = around(1, codec, &bomb);
            if batch.len() > 7 << 20 {
                continue;
            }
            for _ in 0..8 {
                let error = refusal_of(broker.port(), &batch);
                assert_eq!(error, ErrorCode::MessageTooLarge.wire(), "{codec} {bytes}");
            }
        }
    }
    assert_bounded(&broker, before);
}

#[test]
fn many_records_in_few_bytes_can_be_searched_without_growing() {
    let broker = broker();
    let before = memory_bytes(broker.pid(), "VmRSS:");
    // As many records as decompress to the most that is allowed, each with nothing in it.
    let record = |delta: i32| {
        let mut rest = delta.cast_unsigned() << 1;
        let mut offset = Vec::new();
        while rest >= 0x80 {
            offset.push(u8::try_from(rest & 0x7f).expect("seven bits") | 0x80);
            rest >>= 7;
        }
        offset.push(u8::try_from(rest).expect("seven bits"));
        let length = u8::try_from(5 + offset.len()).expect("it is small") << 1;
        [&[length, 0, 0], &offset[..], &[1, 1, 0]].concat()
    };
    let count = 1_600_000;
    let records: Vec<u8> = (0..count).flat_map(record).collect();
    assert!(records.len() <= BATCH_DECOMPRESSED_BYTES_MAX);
    let packed = compress(Codec::Gzip, &records).expect("the codec compresses");
    assert_eq!(
        refusal_of(broker.port(), &around(count, Codec::Gzip, &packed)),
        0
    );
    let search = framed(&request(ApiKey::ListOffsets, 7, 1, TARGET));
    let port = broker.port();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(converse(port, &search).len(), 1));
        }
    });
    assert_bounded(&broker, before);
}

#[test]
fn what_is_no_request_is_closed_and_logged() {
    let mut broker = broker();
    let frames = refused();
    for (name, frame) in &frames {
        // What came before is answered, what comes after is not.
        let before = request(ApiKey::Metadata, 9, 1, TARGET);
        let sent = [framed(&before), framed(frame), framed(&before)].concat();
        assert_eq!(converse(broker.port(), &sent).len(), 1, "{name}");
    }
    for length in [-1, i32::MIN, i32::MAX, (8 << 20) + 1] {
        assert!(converse(broker.port(), &length.to_be_bytes()).is_empty());
    }
    let closed = frames.len() + 4;
    let errors = broker.metrics().sum("felix_kafka_protocol_errors_total");
    let expected = f64::from(u32::try_from(closed).expect("it is small"));
    assert_eq!(errors, Some(expected));
    // Where one core got more than ten of a kind in a second, it counts those it did not write.
    let left_out = broker.metrics().sum("felix_log_left_out_total");
    let lines = |log: &str| {
        let lines = log.matches("closing a Kafka connection").count();
        f64::from(u32::try_from(lines).expect("it is small"))
    };
    let written = expected - left_out.expect("it is counted");
    let log = broker.logged(|log| lines(log) >= written);
    assert_eq!(lines(&log), written, "{log}");
}

/// What an attacker sends on one connection.
fn attack(mutator: &mut Mutator, known: &[Vec<u8>]) -> Vec<u8> {
    let pick = |mutator: &mut Mutator| &known[mutator.below(known.len())];
    match mutator.below(6) {
        // Rubbish.
        0 => (0..mutator.below(4096))
            .map(|_| u8::try_from(mutator.below(256)).expect("it is below 256"))
            .collect(),
        // A length, and less than that, or nothing.
        1 => {
            let length = u32::try_from(mutator.below(8 << 20)).expect("it is small");
            let some = vec![0x55; mutator.below(1 << 16)];
            [&length.to_be_bytes()[..], &some].concat()
        }
        // A known conversation, cut.
        2 => {
            let whole = pick(mutator);
            whole[..mutator.below(whole.len())].to_vec()
        }
        // Several of them, changed.
        3 => {
            let (one, other) = (pick(mutator).clone(), pick(mutator).clone());
            [mutator.child(&one, &other), mutator.child(&other, &one)].concat()
        }
        _ => {
            let (one, other) = (pick(mutator).clone(), pick(mutator).clone());
            mutator.child(&one, &other)
        }
    }
}

#[test]
fn hostile_peers_harm_nobody_while_a_client_works_on() {
    let seed = Random::from_environment().within(0..u64::MAX);
    let mut broker = broker();
    let bootstrap = broker.bootstrap();
    // The first byte of an input says how it is sent there; here it is sent at once.
    let known = corpus::load("connection").expect("the corpus can be read");
    let known: Vec<Vec<u8>> = known
        .into_iter()
        .map(|seed| seed.bytes[1..].to_vec())
        .collect();
    let before = memory_bytes(broker.pid(), "VmRSS:");
    let port = broker.port();
    let over = AtomicBool::new(false);
    let (over, known) = (&over, &known);
    let written = thread::scope(|scope| {
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|attacker| {
                scope.spawn(move || {
                    let mut mutator = Mutator::new(seed ^ attacker);
                    for _ in 0..CONNECTIONS_EACH {
                        drop(converse(port, &attack(&mut mutator, known)));
                    }
                })
            })
            .collect();
        let client = scope.spawn(move || {
            let mut written = 0;
            while written == 0 || !over.load(Ordering::Relaxed) {
                let lines: String = (written..written + 50).map(|n| format!("{n}\n")).collect();
                kcat::produce(&bootstrap, PEACEFUL, 1, &lines);
                written += 50;
                let read = kcat::read_all(&bootstrap, PEACEFUL);
                assert_eq!(read.len(), written);
            }
            written
        });
        let ended: Vec<_> = attackers
            .into_iter()
            .map(|attacker| attacker.join())
            .collect();
        over.store(true, Ordering::Relaxed);
        assert!(
            ended.iter().all(Result::is_ok),
            "the broker answers attackers too"
        );
        client.join().expect("the client works on")
    });
    assert!(written > 0);
    assert!(broker.is_running());
    assert_bounded(&broker, before);
    let errors = broker.metrics().sum("felix_kafka_protocol_errors_total");
    assert!(errors > Some(0.0), "attacks are counted");
    let is_told = |log: &str| log.contains("closing a Kafka connection");
    assert!(is_told(&broker.logged(is_told)));
    // What they wrote can be read, batch for batch.
    assert!(broker.terminate().success());
    broker.start_again();
    drop(kcat::read_all(&broker.bootstrap(), TARGET));
}
