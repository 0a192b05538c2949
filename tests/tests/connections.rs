//! Peers that are slow, half gone, numerous or not Kafka at all. Each costs itself its connection
//! at most; whoever else is connected notices nothing.

use felix_tests::{Broker, Stream, eventually, kcat, wire::Wire, within};
use kafka_protocol::messages::MetadataRequest;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const TOPIC: &str = "peers.many";

fn broker() -> Broker {
    Broker::start(&[Stream::new(TOPIC, 2)])
}

/// Bytes the broker sent before it closed; panics if it does not close.
fn until_closed(mut peer: TcpStream) -> usize {
    peer.set_read_timeout(Some(Duration::from_secs(30)))
        .expect("not zero");
    let mut answer = Vec::new();
    match peer.read_to_end(&mut answer) {
        Ok(count) => count,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => answer.len(),
        Err(error) => panic!("the broker keeps the connection: {error}"),
    }
}

/// One record goes in and comes out, within a time no healthy broker needs.
fn serves(broker: &Broker, value: &str) {
    serves_over(&mut Wire::connect(broker.port()), value);
}

/// The same over a connection that is there.
fn serves_over(wire: &mut Wire, value: &str) {
    let answer = within(Duration::from_secs(5), || {
        let (error, offset) = wire.produce(TOPIC, 1, value.as_bytes());
        assert_eq!(error, 0);
        wire.fetch(TOPIC, 1, offset, 0)
    });
    let records = answer.responses[0].partitions[0]
        .records
        .as_ref()
        .expect("it was written");
    assert!(
        records
            .windows(value.len())
            .any(|window| window == value.as_bytes())
    );
}

#[test]
fn clients_connect_by_name_and_by_address() {
    let broker = broker();
    for host in ["127.0.0.1", "localhost"] {
        let listing = kcat::output(&format!("{host}:{}", broker.port()), &["-L"]);
        assert!(listing.contains(TOPIC), "{host}: {listing}");
    }
}

#[test]
fn garbage_closes_the_connection_and_nothing_else() {
    let broker = broker();
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        &[0xff; 64],
        &[0; 64],
        // A length that fits and a request that is nonsense.
        &[0, 0, 0, 8, 0x7f, 0xff, 0x7f, 0xff, 1, 2, 3, 4],
        // The header of a Metadata request whose topic count is four thousand million.
        &[
            0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff,
        ],
        // A TLS client says hello.
        &[
            0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03,
        ],
    ] {
        let mut peer = TcpStream::connect(("127.0.0.1", broker.port())).unwrap();
        peer.write_all(garbage).unwrap();
        assert_eq!(until_closed(peer), 0, "{garbage:?} is not answered");
    }
    serves(&broker, "after the garbage");
}

#[test]
fn a_length_over_the_limit_closes_the_connection_before_any_body_is_read() {
    let broker = broker();
    for length in [(8 << 20) + 1, i32::MAX, -1, i32::MIN] {
        let mut peer = TcpStream::connect(("127.0.0.1", broker.port())).unwrap();
        peer.write_all(&length.to_be_bytes()).unwrap();
        assert_eq!(until_closed(peer), 0, "{length}");
    }
    serves(&broker, "after the lengths");
}

#[test]
fn a_peer_that_sends_no_more_gets_its_answers_and_is_let_go() {
    let broker = broker();
    let mut wire = Wire::connect(broker.port());
    wire.send_fetch(TOPIC, 0, 0, 0).unwrap();
    wire.socket().shutdown(Shutdown::Write).unwrap();
    assert_eq!(
        wire.receive_fetch().responses[0].partitions[0].error_code,
        0
    );
    assert_eq!(until_closed(wire.socket().try_clone().unwrap()), 0);
}

#[test]
fn a_request_cut_short_harms_nobody() {
    let broker = broker();
    let mut peer = TcpStream::connect(("127.0.0.1", broker.port())).unwrap();
    peer.write_all(&[0, 0, 1, 0, 0, 3, 0, 1]).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_closed(peer), 0);
    serves(&broker, "after the cut");
}

#[test]
fn five_hundred_idle_peers_do_not_keep_another_from_being_served() {
    let settings = [("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0")];
    let broker = Broker::start_with(&[Stream::new(TOPIC, 2)], &settings);
    let mut peers: Vec<Wire> = (0..500).map(|_| Wire::connect(broker.port())).collect();
    for peer in &mut peers {
        assert_eq!(peer.metadata().brokers.len(), usize::from(broker.cores()));
    }
    serves(&broker, "beside the idle");
    for peer in &mut peers {
        assert_eq!(peer.metadata().brokers.len(), usize::from(broker.cores()));
    }
}

#[test]
fn a_peer_over_the_limit_is_closed_on_arrival_and_a_place_left_is_given_again() {
    let settings = [("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "3")];
    let broker = Broker::start_with(&[Stream::new(TOPIC, 2)], &settings);
    let mut peers: Vec<Wire> = (0..3).map(|_| Wire::connect(broker.port())).collect();
    for peer in &mut peers {
        drop(peer.metadata());
    }
    let fourth = TcpStream::connect(("127.0.0.1", broker.port())).unwrap();
    assert_eq!(until_closed(fourth), 0);
    let leaving = peers.pop().unwrap();
    leaving.socket().shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_closed(leaving.socket().try_clone().unwrap()), 0);
    // The end of a connection reaches its peer before the core that counts them all.
    let mut let_in = None;
    eventually("the place that was left is given again", || {
        let mut peer = Wire::connect(broker.port());
        // Whoever is closed on arrival has nothing to read.
        let is_asked = peer.send(&MetadataRequest::default(), 4).is_ok();
        let is_answered = is_asked && matches!(peer.socket().peek(&mut [0]), Ok(1));
        let_in = is_answered.then_some(peer);
        is_answered
    });
    let mut let_in = let_in.unwrap();
    drop(let_in.receive::<MetadataRequest>(4));
    serves_over(&mut let_in, "in the place that was left");
}

#[test]
fn a_reader_that_takes_nothing_slows_nobody() {
    let broker = broker();
    let bootstrap = broker.bootstrap();
    // Sixteen megabytes to read, asked for two hundred times over.
    let line = "x".repeat(100_000);
    let lines: String = (0..160).map(|_| format!("{line}\n")).collect();
    kcat::produce(&bootstrap, TOPIC, 0, &lines);
    let mut slow: Vec<Wire> = (0..4).map(|_| Wire::connect(broker.port())).collect();
    for wire in &mut slow {
        wire.socket().set_nonblocking(true).unwrap();
        for offset in 0..200 {
            // Once the broker stops reading this peer, the socket fills; that is the point.
            if wire.send_fetch(TOPIC, 0, offset % 160, 0).is_err() {
                break;
            }
        }
    }
    for n in 0..20 {
        serves(&broker, &format!("beside the slow {n}"));
    }
    assert_eq!(kcat::read_all(&bootstrap, TOPIC).len(), 180);
    // The slow one gets all of it once it reads.
    let first = &mut slow[0];
    first.socket().set_nonblocking(false).unwrap();
    for _ in 0..50 {
        let answer = first.receive_fetch();
        assert_eq!(answer.responses[0].partitions[0].error_code, 0);
    }
}

#[test]
fn a_waiting_fetch_is_woken_by_the_write_and_not_by_its_deadline() {
    let broker = broker();
    let mut reader = Wire::connect(broker.port());
    let mut writer = Wire::connect(broker.port());
    reader.send_fetch(TOPIC, 0, 0, 30_000).unwrap();
    assert_eq!(writer.produce(TOPIC, 0, b"wake up"), (0, 0));
    let answer = within(Duration::from_secs(10), || reader.receive_fetch());
    assert_eq!(answer.responses[0].partitions[0].high_watermark, 1);
}
