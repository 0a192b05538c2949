//! Consumers that wait: hundreds of long polls cost the broker nothing until there is something to
//! read, and then each of them is answered.

use felix_tests::wire::Wire;
use felix_tests::{Broker, Stream, eventually};
use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

const TOPIC: &str = "polls.stream";
const PARTITIONS: i32 = 4;
const POLLS: usize = 600;

/// How long the broker is watched, and each poll waits for longer.
const WATCHED: Duration = Duration::from_secs(2);
const WAIT_MS: i32 = 30_000;

/// Processor time that the broker has used, in the kernel's ticks of 10 ms.
fn ticks(broker: &Broker) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", broker.pid())).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("its name is in parentheses");
    // User and system time: the 14th and 15th field, of which two come before the parenthesis.
    let times = fields.split_whitespace().skip(11).take(2);
    times
        .map(|time| time.parse::<u64>().expect("a number"))
        .sum()
}

/// The processor time that goes by while no answer comes on this connection.
fn ticks_of_silence(broker: &Broker, wire: &Wire) -> u64 {
    let before = ticks(broker);
    let socket = wire.socket();
    socket.set_read_timeout(Some(WATCHED)).expect("not zero");
    let early = socket.peek(&mut [0]).expect_err("nothing is answered");
    assert!(matches!(
        early.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut
    ));
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("not zero");
    ticks(broker) - before
}

fn partition(number: usize) -> i32 {
    i32::try_from(number).expect("few") % PARTITIONS
}

#[test]
fn hundreds_of_polls_that_wait_cost_nothing_until_records_come_and_all_are_answered() {
    let settings = [("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0")];
    let broker = Broker::start_with(&[Stream::new(TOPIC, 4)], &settings);
    let mut wires: Vec<Wire> = (0..POLLS).map(|_| Wire::connect(broker.port())).collect();
    let idle = ticks_of_silence(&broker, &wires[0]);
    for (number, wire) in wires.iter_mut().enumerate() {
        let sent = wire.send_fetch(TOPIC, partition(number), 0, WAIT_MS);
        sent.expect("the broker reads");
    }
    eventually("all polls wait", || {
        broker.metric("felix_kafka_requests_total") >= POLLS as f64
    });
    let waiting = ticks_of_silence(&broker, &wires[0]);
    // A look at every poll a few times a second, however cheap, would be more than this.
    assert!(
        waiting <= idle + 10,
        "{waiting} ticks, and {idle} without polls"
    );
    for wire in &wires {
        wire.assert_unanswered();
    }
    let mut writer = Wire::connect(broker.port());
    for index in 0..PARTITIONS {
        assert_eq!(writer.produce(TOPIC, index, b"here"), (0, 0));
    }
    for (number, wire) in wires.iter_mut().enumerate() {
        let answer = wire.receive_fetch();
        let told = &answer.responses[0].partitions[0];
        let place = (told.error_code, told.partition_index);
        assert_eq!((place, told.high_watermark), ((0, partition(number)), 1));
        let records = told.records.as_ref();
        assert!(records.is_some_and(|records| !records.is_empty()));
    }
}
