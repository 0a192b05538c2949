use crate::harness::{Broker, PATIENCE};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tempfile::tempdir;

/// ApiVersions version 0 with correlation id 7 and no client id.
const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 255, 255];

/// A connection that was let in, as its first answer shows; `None`: it was closed on arrival.
fn enter(address: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A connection closed on arrival may break at any step.
    stream.write_all(&API_VERSIONS).ok()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut answer).ok()?;
    assert_eq!(answer.first_chunk(), Some(&[0, 0, 0, 7]));
    Some(stream)
}

/// Tries again until the broker has noticed that there is room. Each try is a round trip.
fn enter_at_last(address: SocketAddr) -> TcpStream {
    (0..10_000)
        .find_map(|_| enter(address))
        .expect("a connection that ends makes room")
}

#[test]
fn connections_of_one_address_are_capped_over_all_cores_and_make_room_when_they_end() {
    let temp = tempdir().unwrap();
    let mut broker = Broker::start(temp.path(), &["--kafka-max-connections-per-ip=3"]);
    let address = broker.kafka();
    let mut held: Vec<TcpStream> = (0..3).map(|_| enter(address).unwrap()).collect();
    // The kernel spreads these over the cores; each must know of all.
    for _ in 0..8 {
        assert!(enter(address).is_none());
    }
    let refused = broker.metric("felix_kafka_refused_total{reason=\"per_ip_limit\"}");
    assert_eq!(refused, Some(8.0));
    held.pop();
    held.push(enter_at_last(address));
    assert!(enter(address).is_none());
}

#[test]
fn connections_in_all_are_capped_for_each_node() {
    let temp = tempdir().unwrap();
    let flags = [
        "--kafka-max-connections=2",
        "--kafka-max-connections-per-ip=0",
    ];
    let mut broker = Broker::start(temp.path(), &flags);
    let shared = broker.kafka();
    let node = broker.line("Kafka node");
    let core: SocketAddr = crate::harness::field(&node, "address").parse().unwrap();
    let held: Vec<TcpStream> = (0..2).map(|_| enter(shared).unwrap()).collect();
    assert!(enter(shared).is_none());
    // A core port is another node.
    let more: Vec<TcpStream> = (0..2).map(|_| enter(core).unwrap()).collect();
    assert!(enter(core).is_none());
    let refused = broker.metric("felix_kafka_refused_total{reason=\"connection_limit\"}");
    assert_eq!(refused, Some(2.0));
    drop((held, more));
    enter_at_last(shared);
}

#[test]
fn a_shutdown_closes_idle_connections_and_does_not_wait_for_them() {
    let temp = tempdir().unwrap();
    let mut broker = Broker::start(temp.path(), &["--shutdown-drain-timeout-ms=3600000"]);
    let mut idle = enter(broker.kafka()).unwrap();
    broker.signal(rustix::process::Signal::TERM);
    assert_eq!(idle.read_to_end(&mut Vec::new()).unwrap(), 0);
    let (status, lines) = broker.wait();
    assert_eq!(status.code(), Some(0), "{lines:#?}");
}
