//! Tenants that may publish so many bytes a second, on a real broker: what they get, what they are
//! told, and who does not notice.

#![expect(
    clippy::disallowed_methods,
    reason = "what may have been written by now is told by a clock"
)]

use felix_tests::wire::{Wire, batch, produce_request};
use felix_tests::{Broker, Stream, Token, python, within};
use kafka_protocol::messages::ProduceRequest;
use std::thread;
use std::time::{Duration, Instant};

const TOPIC: &str = "orders.created";
const VERSION: i16 = 7;

fn broker(tokens: &[&Token], settings: &[(&'static str, &'static str)]) -> Broker {
    let streams = ["t1", "t2"].map(|tenant| Stream::new(TOPIC, 2).of(tenant));
    Broker::start_with_tokens(&streams, &Token::file(tokens), settings)
}

/// What a connection was told.
#[derive(Default)]
struct Told {
    bytes: u64,
    throttle_ms: u64,
    throttles: u64,
}

/// Writes batches of one record, one after the other, until so much time has passed. Each answer
/// comes no sooner than the one before has said.
fn write(port: u16, token: &Token, partition: i32, size: usize, time: Duration) -> Told {
    let mut wire = Wire::authenticated(port, token);
    let records = batch(&vec![b'x'; size]);
    let begun = Instant::now();
    let mut told = Told::default();
    let mut earliest = begun;
    while begun.elapsed() < time {
        let sent = Instant::now();
        let request = produce_request(TOPIC, partition, records.clone());
        let answer = wire.call::<ProduceRequest>(&request, VERSION);
        let place = &answer.responses[0].partition_responses[0];
        assert_eq!(place.error_code, 0, "what is over budget is no error");
        assert!(
            Instant::now() >= earliest,
            "read before its time: {:?} too early",
            earliest - Instant::now()
        );
        let throttle = u64::try_from(answer.throttle_time_ms).expect("no time is negative");
        // The broker counts from its answer, which was after the request was sent.
        earliest = sent + Duration::from_millis(throttle);
        told.bytes += u64::try_from(records.len()).expect("64 bits");
        told.throttle_ms += throttle;
        told.throttles += u64::from(throttle > 0);
    }
    told
}

#[test]
fn a_tenant_gets_what_it_may_over_all_cores_and_nobody_else_notices() {
    const RATE: u64 = 400_000;
    const BURST: u64 = 200_000;
    const SIZE: usize = 10_000;
    let (one, two) = (Token::new("t1", "one"), Token::new("t2", "two"));
    let settings = [
        ("FELIX_TENANT_PUBLISH_BYTES_PER_SEC", "400000"),
        ("FELIX_TENANT_PUBLISH_BURST_BYTES", "200000"),
    ];
    let broker = broker(&[&one, &two], &settings);
    let begun = Instant::now();
    let writers: Vec<_> = (0..broker.cores())
        .flat_map(|core| [core, core])
        .map(|core| {
            let (port, token) = (broker.core_port(core), one.clone());
            thread::spawn(move || write(port, &token, core.into(), SIZE, Duration::from_secs(3)))
        })
        .collect();

    // Meanwhile the other tenant has all of its own, and this one is read.
    let other = broker.core_port(1);
    let modest = write(other, &two, 0, 100, Duration::from_millis(200));
    // A fast loop may spend even small batches' budget, so it is looked at only where it did not.
    assert!(modest.bytes > BURST || modest.throttles == 0);
    let mut reader = Wire::authenticated(broker.core_port(0), &one);
    let read = reader.fetch(TOPIC, 0, 0, 10_000);
    assert_eq!((read.error_code, read.throttle_time_ms), (0, 0));
    assert!(reader.received_bytes() > 100, "there was something to read");

    let told: Vec<Told> = writers
        .into_iter()
        .map(|writer| writer.join().expect("it wrote"))
        .collect();
    let elapsed = begun.elapsed();
    let bytes: u64 = told.iter().map(|told| told.bytes).sum();
    // By the time that passed here, which is never less than passed there; and one batch of each
    // connection, which is written whatever is owed.
    let over = told.len() as u64 * (told[0].bytes / told[0].bytes.div_ceil(SIZE as u64));
    let due = RATE as f64 * elapsed.as_secs_f64() * 1.05;
    let bound = (BURST + over) as f64 + due;
    assert!(bytes as f64 <= bound, "{bytes} of {bound} in {elapsed:?}");
    assert!(told.iter().all(|told| told.throttles > 0));
    let told_ms: u64 = told.iter().map(|told| told.throttle_ms).sum();
    let counted = broker.metric("felix_kafka_throttle_ms_total");
    assert!(counted >= told_ms as f64, "{counted} of {told_ms}");
    println!("{bytes} bytes of {bound:.0} in {elapsed:?}");
}

#[test]
fn librdkafka_is_told_and_all_that_it_writes_arrives() {
    let token = Token::new("t1", "one");
    let settings = [
        ("FELIX_TENANT_PUBLISH_BYTES_PER_SEC", "200000"),
        ("FELIX_TENANT_PUBLISH_BURST_BYTES", "50000"),
    ];
    let broker = broker(&[&token], &settings);
    let begun = Instant::now();
    let bootstrap = broker.bootstrap();
    let args = [&*bootstrap, "t1", &token.text, TOPIC, "400", "1000"];
    let finished = python::run("throttled.py", &args, None);
    let elapsed = begun.elapsed();
    let text = finished.text();
    let mut words = text.split_whitespace();
    let mut number = || -> f64 {
        words
            .next()
            .expect("three numbers")
            .parse()
            .expect("numbers")
    };
    let (delivered, throttled, longest_s) = (number(), number(), number());
    assert_eq!(delivered, 400.0);
    assert!(throttled > 0.0, "{text}");
    assert!(longest_s > 0.0 && longest_s <= 20.0, "{text}");
    // 400,000 bytes and a little for batches, of which the burst was there.
    let least = Duration::from_millis(1000);
    assert!(elapsed >= least, "{elapsed:?}");
    assert!(broker.metric("felix_kafka_throttles_total") >= throttled);
}

#[test]
fn a_muted_connection_outlives_the_idle_timeout_and_ends_with_the_broker_at_once() {
    let token = Token::new("t1", "one");
    let settings = [
        ("FELIX_TENANT_PUBLISH_BYTES_PER_SEC", "10000"),
        ("FELIX_TENANT_PUBLISH_BURST_BYTES", "1"),
        ("FELIX_KAFKA_IDLE_TIMEOUT_MS", "300"),
    ];
    let mut broker = broker(&[&token], &settings);
    let mut wire = Wire::authenticated(broker.core_port(1), &token);
    let request = produce_request(TOPIC, 0, batch(&[b'x'; 15_000]));
    let told = wire
        .call::<ProduceRequest>(&request, VERSION)
        .throttle_time_ms;
    assert!((1500..1600).contains(&told), "{told}");
    assert_eq!(wire.metadata().topics.len(), 1, "it was not closed");

    let request = produce_request(TOPIC, 0, batch(&[b'x'; 150_000]));
    let told = wire
        .call::<ProduceRequest>(&request, VERSION)
        .throttle_time_ms;
    assert!(told > 13_000, "{told}");
    assert_eq!(broker.metric("felix_kafka_throttled_connections"), 1.0);
    let ended = within(Duration::from_secs(10), || broker.terminate());
    assert!(ended.success());
}
