//! Real records go in and come out the same. Every flight that left New York City in 2013 is one
//! JSON line keyed by its tail number; kcat writes them into four shards with each codec, and a
//! second client, confluent-kafka, does so too. Each reads what either wrote.

use felix_tests::{Broker, Record, Stream, flights, flights_rows, kcat, python};

const TOPIC: &str = "flights.departed";
const SHARDS: u32 = 4;

fn kcat_round_trip(codec: &str) {
    let (flights, lines) = flights::read(flights_rows());
    let broker = Broker::start(&[Stream::new(TOPIC, SHARDS)]);
    let args = ["-P", "-t", TOPIC, "-z", codec, "-K", "\t", "-Z"];
    drop(kcat::run(&broker.bootstrap(), &args, Some(lines)).ok());
    flights::assert_same(
        &flights,
        &kcat::read_all(&broker.bootstrap(), TOPIC),
        SHARDS,
    );
}

#[test]
fn flights_come_back_as_kcat_sent_them_uncompressed() {
    kcat_round_trip("none");
}

#[test]
fn flights_come_back_as_kcat_sent_them_with_gzip() {
    kcat_round_trip("gzip");
}

#[test]
fn flights_come_back_as_kcat_sent_them_with_snappy() {
    kcat_round_trip("snappy");
}

#[test]
fn flights_come_back_as_kcat_sent_them_with_lz4() {
    kcat_round_trip("lz4");
}

#[test]
fn flights_come_back_as_kcat_sent_them_with_zstd() {
    kcat_round_trip("zstd");
}

#[test]
fn flights_go_through_confluent_kafka_and_each_client_reads_what_it_wrote() {
    let (flights, lines) = flights::read(flights_rows());
    let broker = Broker::start(&[Stream::new(TOPIC, SHARDS)]);
    let bootstrap = broker.bootstrap();
    let args = [&bootstrap, TOPIC, "compression.type=zstd"];
    let places = python::run("produce.py", &args, Some(lines)).text();

    let read = Record::parse_all(&python::run("consume.py", &[&bootstrap, TOPIC], None).stdout);
    flights::assert_same(&flights, &read, SHARDS);
    flights::assert_same(&flights, &kcat::read_all(&bootstrap, TOPIC), SHARDS);

    // What the producer was told is where the records are.
    let mut told: Vec<(i32, i64, &[u8])> = places
        .lines()
        .zip(&flights)
        .map(|(place, flight)| {
            let (partition, offset) = place.split_once(' ').unwrap();
            (
                partition.parse().unwrap(),
                offset.parse().unwrap(),
                flight.value.as_slice(),
            )
        })
        .collect();
    told.sort_unstable();
    let mut found: Vec<(i32, i64, &[u8])> = read
        .iter()
        .map(|record| (record.partition, record.offset, &*record.value))
        .collect();
    found.sort_unstable();
    assert!(
        told == found,
        "acknowledged places differ from where the records are"
    );
}
