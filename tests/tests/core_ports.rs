//! One Kafka node per CPU core. A client that follows Metadata connects to the core that owns a
//! partition, and no request hops between cores; a request at the wrong core is served all the
//! same, with one hop. Every core is one thread on a processor of its own.

use felix_tests::{Broker, Stream, kcat, python, wire::Wire};

const TOPIC: &str = "cores.spread";
const SHARDS: u32 = 4;
const HOPS: &str = "felix_shard_hops_total";

fn broker() -> Broker {
    Broker::start(&[Stream::new(TOPIC, SHARDS)])
}

fn hops(broker: &Broker) -> f64 {
    let metrics = broker.metrics();
    metrics
        .sum(HOPS)
        .unwrap_or_else(|| panic!("no {HOPS} in\n{}", metrics.page()))
}

/// The port of each partition's leader.
fn leaders(broker: &Broker) -> Vec<u16> {
    let metadata = Wire::connect(broker.port()).metadata();
    let port_of = |id| {
        let node = metadata
            .brokers
            .iter()
            .find(|node| node.node_id == id)
            .expect("it is listed");
        u16::try_from(node.port).expect("a port is 16 bits wide")
    };
    let mut leaders: Vec<(i32, u16)> = metadata.topics[0]
        .partitions
        .iter()
        .map(|partition| (partition.partition_index, port_of(partition.leader_id)))
        .collect();
    leaders.sort_unstable();
    leaders.into_iter().map(|(_, port)| port).collect()
}

#[test]
fn kcat_lists_one_node_per_core_with_its_port() {
    let broker = broker();
    let listing = kcat::output(&broker.bootstrap(), &["-L"]);
    let nodes: Vec<&str> = listing
        .lines()
        .filter(|line| line.trim_start().starts_with("broker "))
        .collect();
    assert_eq!(nodes.len(), usize::from(broker.cores()), "{listing}");
    for core in 0..broker.cores() {
        let address = format!(" at 127.0.0.1:{}", broker.core_port(core));
        assert!(
            nodes.iter().any(|node| node.contains(&address)),
            "{address} in\n{listing}"
        );
    }
    assert!(
        listing.contains(&format!("topic \"{TOPIC}\" with {SHARDS} partitions")),
        "{listing}"
    );
    // Consecutive shards go to consecutive cores.
    let mut ports = leaders(&broker);
    ports.sort_unstable();
    let (first, second) = (broker.core_port(0), broker.core_port(1));
    assert_eq!(ports, [first, first, second, second]);
}

#[test]
fn confluent_kafka_lists_all_topics_as_consumer_and_as_producer() {
    let broker = broker();
    let listing = python::run("topics.py", &[&broker.bootstrap()], None).text();
    assert_eq!(listing, format!("{TOPIC} {SHARDS}\n{TOPIC} {SHARDS}\n"));
}

#[test]
fn a_client_that_follows_the_listing_makes_no_hop() {
    let broker = broker();
    for partition in 0..4 {
        let lines: String = (0..1000).map(|n| format!("{partition}-{n}\n")).collect();
        kcat::produce(&broker.bootstrap(), TOPIC, partition, &lines);
    }
    assert_eq!(kcat::read_all(&broker.bootstrap(), TOPIC).len(), 4000);
    assert_eq!(hops(&broker), 0.0);
}

#[test]
fn a_request_at_the_wrong_core_is_served_with_a_hop() {
    let broker = broker();
    let leaders = leaders(&broker);
    for (partition, leader) in (0..).zip(&leaders) {
        let wrong = (0..broker.cores()).map(|core| broker.core_port(core));
        let wrong = wrong
            .clone()
            .find(|port| port != leader)
            .expect("there are two cores");
        let mut there = Wire::connect(*leader);
        let mut elsewhere = Wire::connect(wrong);

        let before = hops(&broker);
        assert_eq!(there.produce(TOPIC, partition, b"at the owner"), (0, 0));
        assert_eq!(hops(&broker), before, "the owner needs no hop");
        assert_eq!(elsewhere.produce(TOPIC, partition, b"elsewhere"), (0, 1));
        assert_eq!(hops(&broker), before + 1.0, "one hop a request");

        let read = elsewhere.fetch(TOPIC, partition, 0, 0);
        assert_eq!(hops(&broker), before + 2.0, "one hop a request");
        let here = there.fetch(TOPIC, partition, 0, 0);
        assert_eq!(hops(&broker), before + 2.0);
        let part = &read.responses[0].partitions[0];
        assert_eq!((part.error_code, part.high_watermark), (0, 2));
        assert!(
            part.records
                .as_ref()
                .is_some_and(|records| !records.is_empty())
        );
        assert_eq!(read.responses, here.responses, "both cores tell the same");
    }
}

#[test]
fn every_core_is_one_thread_on_a_processor_of_its_own() {
    let broker = broker();
    let threads = broker.threads();
    let mut cores: Vec<&(String, Vec<u16>)> = threads
        .iter()
        .filter(|(name, _)| name.starts_with("felix-core"))
        .collect();
    cores.sort();
    let pinned: Vec<Vec<u16>> = cores.iter().map(|(_, cpus)| cpus.clone()).collect();
    let expected: Vec<Vec<u16>> = broker.cpus().into_iter().map(|cpu| vec![cpu]).collect();
    assert_eq!(pinned, expected, "all threads: {threads:?}");
    // Whoever else is pinned may only be a core's own helper.
    let free = threads.iter().filter(|(_, cpus)| cpus.len() > 1).count();
    assert!(free > 0, "side threads are not pinned: {threads:?}");
}
