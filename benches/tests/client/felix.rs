//! What Felix answers.

use crate::batch::{RECORDS, batch};
use crate::round_trip::every_codec_comes_back;
use crate::security::none;
use crate::talker::Talker;
use felix_bench::client::{Admin, error_name, request};
use felix_core::batch::Codec;
use felix_tests::{Broker, Stream};

const TOPIC: &str = "orders.created";

#[test]
fn every_codec_comes_back_from_felix() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    every_codec_comes_back(&broker.bootstrap(), &none(), TOPIC);
}

#[test]
fn felix_is_told_to_be_given_its_topics_by_its_catalog() {
    let broker = Broker::start(&[]);
    let mut admin = Admin::connect(&broker.bootstrap(), &none()).unwrap();
    for may_create in [false, true] {
        let said = admin.topic("orders.missing", 1, may_create, 1).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("no topic `orders.missing`"), "{said}");
        assert!(said.contains("FELIX_CATALOG_FILE"), "{said}");
    }
}

#[test]
fn each_partition_of_felix_is_led_by_the_port_of_its_core() {
    let broker = Broker::start(&[Stream::new(TOPIC, 8)]);
    let mut admin = Admin::connect(&broker.bootstrap(), &none()).unwrap();
    let topic = admin.topic(TOPIC, 8, false, 1).unwrap();
    let cores: Vec<u16> = (0..broker.cores()).map(|n| broker.core_port(n)).collect();
    for core in &cores {
        assert!(topic.partitions.iter().any(|leader| leader.port == *core));
    }
    for leader in &topic.partitions {
        assert!(cores.contains(&leader.port));
        let mut talker = Talker::open(leader, &none());
        let produced = talker.produce(TOPIC, leader.index, batch(Codec::None).bytes());
        assert_eq!((produced.error, produced.base_offset), (0, 0));
        assert_eq!(admin.end_offset(TOPIC, leader), Ok(i64::from(RECORDS)));
    }
}

#[test]
fn felix_gives_a_producer_id_and_answers_once_for_a_batch_sent_twice() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let mut admin = Admin::connect(&broker.bootstrap(), &none()).unwrap();
    let topic = admin.topic(TOPIC, 1, false, 1).unwrap();
    let (id, epoch) = admin.producer_id().unwrap();
    assert!(id >= 0);
    assert_eq!(epoch, 0);
    let mut batch = batch(Codec::Zstd);
    batch.stamp_producer(id, epoch, 0);
    let mut talker = Talker::open(&topic.partitions[0], &none());
    for _ in 0..2 {
        let produced = talker.produce(TOPIC, 0, batch.bytes());
        assert_eq!((produced.error, produced.base_offset), (0, 0));
    }
    let end = admin.end_offset(TOPIC, &topic.partitions[0]);
    assert_eq!(end, Ok(i64::from(RECORDS)));
}

#[test]
fn batches_without_acknowledgement_are_written_and_not_answered() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let mut admin = Admin::connect(&broker.bootstrap(), &none()).unwrap();
    let topic = admin.topic(TOPIC, 1, false, 1).unwrap();
    let mut talker = Talker::open(&topic.partitions[0], &none());
    let unanswered = batch(Codec::None);
    for _ in 0..10 {
        talker.send(|out, correlation| {
            request::produce(out, correlation, 0, 1000, TOPIC, 0, unanswered.bytes());
        });
    }
    // The next answer is that of the next request, which its correlation id shows.
    let produced = talker.produce(TOPIC, 0, unanswered.bytes());
    assert_eq!(produced.base_offset, 10 * i64::from(RECORDS));
}

#[test]
fn a_batch_for_a_partition_that_is_not_there_is_refused_by_name() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let mut admin = Admin::connect(&broker.bootstrap(), &none()).unwrap();
    let topic = admin.topic(TOPIC, 1, false, 1).unwrap();
    let mut talker = Talker::open(&topic.partitions[0], &none());
    let produced = talker.produce(TOPIC, 1, batch(Codec::None).bytes());
    assert_eq!(error_name(produced.error), "UNKNOWN_TOPIC_OR_PARTITION");
    assert_eq!((produced.partition, produced.base_offset), (1, -1));
}
