use crate::harness::Broker;
use crate::wire::{answer, base_offset, connect, end_offset, produce};
use rustix::process::Signal;
use std::io::Write;
use std::net::Shutdown;
use std::thread;
use tempfile::tempdir;

/// Records written before the broker is asked to end. Their answers fill the producer's socket and
/// more: what it has not taken when the broker closes is what a reset would take away.
const RECORDS_BEFORE: f64 = 10_000.0;

#[test]
fn every_acknowledgement_of_a_shutdown_arrives_though_the_producer_never_stops_sending() {
    let temp = tempdir().unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    let mut reader = connect(broker.kafka());
    let mut writer = reader.try_clone().unwrap();
    let request = produce(&[7; 100]);
    // Whatever the broker does not read any more is in its socket when it ends.
    let sending = thread::spawn(move || while writer.write_all(&request).is_ok() {});
    // Each look is a round trip.
    while broker.metric("felix_kafka_produce_records_total") < Some(RECORDS_BEFORE) {}
    broker.signal(Signal::TERM);
    broker.line("shutting down");
    let mut answers = 0;
    let end = loop {
        match answer(&mut reader) {
            Ok(Some(answer)) => assert_eq!(base_offset(&answer), answers),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        answers += 1;
    };
    drop(reader.shutdown(Shutdown::Both));
    sending.join().unwrap();
    let (status, lines) = broker.wait();
    assert_eq!(status.code(), Some(0), "{lines:#?}");

    let mut broker = Broker::start(temp.path(), &[]);
    assert_eq!(end_offset(broker.kafka()), answers, "{end:?}");
    end.expect("an end in order, not a reset");
}
