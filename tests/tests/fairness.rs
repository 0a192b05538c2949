//! A reader of many partitions with little room: in whatever order it asks, it is brought all of
//! them, over successive fetches, and each partition's records in their order.

use felix_tests::wire::Wire;
use felix_tests::{Broker, Stream};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::RecordBatchDecoder;

const TOPIC: &str = "fair.stream";
const PARTITIONS: usize = 8;
const BATCHES: i64 = 12;
const VALUE_BYTES: usize = 10_000;
const FETCH_VERSION: i16 = 11;

/// A request for all partitions, always in the same order, that has room for little more than one
/// batch.
fn request(offsets: &[i64]) -> FetchRequest {
    let parts = (0..).zip(offsets).map(|(partition, offset)| {
        FetchPartition::default()
            .with_partition(partition)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(1 << 20)
    });
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_static_str(TOPIC)))
        .with_partitions(parts.collect());
    FetchRequest::default()
        .with_max_wait_ms(1000)
        .with_min_bytes(1)
        .with_max_bytes(i32::try_from(VALUE_BYTES + 1000).expect("it is small"))
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// How many records each partition was brought; their offsets go on where those before ended.
fn brought(answer: FetchResponse, offsets: &mut [i64]) -> Vec<usize> {
    let topic = answer
        .responses
        .into_iter()
        .next()
        .expect("one was asked about");
    let partitions = topic.partitions.into_iter().zip(0..).zip(offsets);
    let counts = partitions.map(|((partition, index), offset)| {
        assert_eq!(
            (partition.error_code, partition.partition_index),
            (0, index)
        );
        let mut records = partition.records.unwrap_or_default();
        let sets = RecordBatchDecoder::decode_all(&mut records).expect("whole batches");
        let before = *offset;
        for record in sets.into_iter().flat_map(|set| set.records) {
            assert_eq!(record.offset, *offset);
            *offset += 1;
        }
        usize::try_from(*offset - before).expect("it grows")
    });
    counts.collect()
}

#[test]
fn a_reader_that_always_asks_in_the_same_order_is_brought_all_partitions_in_turn() {
    let broker = Broker::start(&[Stream::new(TOPIC, 8)]);
    let mut wire = Wire::connect(broker.port());
    let value = vec![b'x'; VALUE_BYTES];
    for _ in 0..BATCHES {
        for partition in 0..PARTITIONS {
            let partition = i32::try_from(partition).expect("few");
            assert_eq!(wire.produce(TOPIC, partition, &value).0, 0);
        }
    }
    // By way of the shared port, and of a core that owns some of the shards.
    for port in [broker.port(), broker.core_port(1)] {
        let mut wire = Wire::connect(port);
        let mut offsets = [0; PARTITIONS];
        let mut total = 0;
        for fetch in 1.. {
            let answer = wire.call(&request(&offsets), FETCH_VERSION);
            let counts = brought(answer, &mut offsets);
            let records: usize = counts.iter().sum();
            assert!((1..=2).contains(&records), "{counts:?} within little room");
            total += records;
            if fetch % PARTITIONS == 0 {
                let (least, most) = (offsets.iter().min(), offsets.iter().max());
                assert_ne!(least, Some(&0), "after {fetch} fetches: {offsets:?}");
                assert!(
                    most.zip(least)
                        .is_some_and(|(most, least)| most - least <= 2),
                    "{offsets:?}"
                );
            }
            if offsets.iter().all(|offset| *offset == BATCHES) {
                break;
            }
        }
        assert_eq!(total, PARTITIONS * usize::try_from(BATCHES).expect("few"));
    }
}
