//! Idempotent producers over the wire: what is sent again is not written again, and is answered as
//! it was the first time; what is missing is told with the code that makes clients do the right
//! thing. A bare client, since no other sends what these tests need at the moment they need it.

use bytes::Bytes;
use felix_tests::wire::{Wire, sequenced, stamp};
use felix_tests::{Broker, Kept, Policy, Record, Stream, eventually, files, kcat, wall_ms};
use std::collections::HashSet;
use std::fs;

const TOPIC: &str = "again.stream";
const OUT_OF_ORDER: i16 = 45;
const OLD_EPOCH: i16 = 47;
const UNKNOWN_PRODUCER: i16 = 59;

/// The last sequence before they begin at 0 again.
const LAST: i32 = i32::MAX;

/// In good order, and not.
const ENDS: [fn(&mut Broker); 2] = [terminate, Broker::kill];

fn terminate(broker: &mut Broker) {
    assert!(broker.terminate().success());
}

fn values(of: std::ops::Range<i32>) -> Vec<Vec<u8>> {
    of.map(|number| number.to_string().into_bytes()).collect()
}

/// The records of these numbers, which begin with the sequence of the first.
fn batch(id: i64, epoch: i16, numbers: std::ops::Range<i32>) -> Bytes {
    let values = values(numbers.clone());
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    sequenced(id, epoch, numbers.start, &values)
}

/// Error code, base offset and append time.
fn produce(wire: &mut Wire, records: Bytes) -> (i16, i64, i64) {
    let told = wire.produce_records(TOPIC, 0, records);
    (told.error_code, told.base_offset, told.log_append_time_ms)
}

/// The same without the append time.
fn place(wire: &mut Wire, records: Bytes) -> (i16, i64) {
    let (code, offset, _) = produce(wire, records);
    (code, offset)
}

/// The numbers in the partition, in its order.
fn numbers(broker: &Broker) -> Vec<i32> {
    let records: Vec<Record> = kcat::read_all(&broker.bootstrap(), TOPIC);
    let number = |record: &Record| String::from_utf8_lossy(&record.value).parse();
    let numbers = records.iter().map(number);
    numbers.map(|number| number.expect("ours")).collect()
}

#[test]
fn what_is_sent_again_is_answered_as_it_was_also_after_restarts_and_kills() {
    for policy in [Policy::Periodic, Policy::OnCommit] {
        let mut broker = Broker::start(&[Stream::new(TOPIC, 1).flushed(policy)]);
        let mut wire = Wire::connect(broker.port());
        let id = wire.producer_id();
        let before = wall_ms();
        // Claim 176: five records at base 40 are followed by base 45.
        let first = produce(&mut wire, batch(id, 0, 0..40));
        let second = produce(&mut wire, batch(id, 0, 40..45));
        assert_eq!((first.0, first.1, second.0, second.1), (0, 0, 0, 40));
        assert!(before <= first.2 && second.2 <= wall_ms());
        for end in ENDS {
            assert_eq!(produce(&mut wire, batch(id, 0, 40..45)), second);
            assert_eq!(produce(&mut wire, batch(id, 0, 0..40)), first);
            end(&mut broker);
            broker.start_again();
            // On another connection, to another core, which does not own the shard or does.
            for core in 0..broker.cores() {
                let mut wire = Wire::connect(broker.core_port(core));
                assert_eq!(produce(&mut wire, batch(id, 0, 40..45)), second);
            }
            wire = Wire::connect(broker.port());
        }
        assert_eq!(place(&mut wire, batch(id, 0, 45..50)), (0, 45));
        assert_eq!(numbers(&broker), (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_missing_is_told_and_nothing_is_written() {
    let broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let mut wire = Wire::connect(broker.port());
    let id = wire.producer_id();
    assert_eq!(place(&mut wire, batch(id, 0, 0..5)), (0, 0));
    assert_eq!(place(&mut wire, batch(id, 0, 6..7)), (OUT_OF_ORDER, -1));
    // Records that are there, and some that are: it is completed.
    assert_eq!(place(&mut wire, batch(id, 0, 3..8)), (0, 3));
    // A producer that begins anew by itself (KIP-360) begins at 0, and its older self has ended.
    assert_eq!(place(&mut wire, batch(id, 1, 8..9)), (OUT_OF_ORDER, -1));
    assert_eq!(place(&mut wire, batch(id, 1, 0..2)), (0, 8));
    assert_eq!(place(&mut wire, batch(id, 0, 8..9)), (OLD_EPOCH, -1));
    // Nothing is known of this one, and its batch is not its first.
    let other = wire.producer_id();
    assert_ne!(other, id);
    assert_eq!(
        place(&mut wire, batch(other, 0, 1..2)),
        (UNKNOWN_PRODUCER, -1)
    );
    assert_eq!(numbers(&broker), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
}

#[test]
fn who_is_forgotten_is_told_where_the_log_begins() {
    let stream = Stream::new(TOPIC, 1).flushed(Policy::OnCommit);
    let stream = stream.keeping(Kept::For(8 << 20), Kept::Unsaid);
    let broker = Broker::start_with(&[stream], &[("FELIX_DURABLE_SEGMENT_BYTES", "8388608")]);
    let mut wire = Wire::connect(broker.port());
    let id = wire.producer_id();
    assert_eq!(place(&mut wire, batch(id, 0, 0..5)), (0, 0));
    let large = vec![b'x'; 900_000];
    let mut begins = 0;
    eventually("the log lets go of the producer's records", || {
        let (code, _) = wire.produce(TOPIC, 0, &large);
        assert_eq!(code, 0);
        let answer = wire.fetch(TOPIC, 0, 0, 0);
        begins = answer.responses[0].partitions[0].log_start_offset;
        begins > 5
    });
    let told = wire.produce_records(TOPIC, 0, batch(id, 0, 5..6));
    assert_eq!((told.error_code, told.base_offset), (UNKNOWN_PRODUCER, -1));
    assert_eq!(told.log_start_offset, begins);
    // Another id, and it goes on.
    let id = wire.producer_id();
    assert_eq!(
        wire.produce_records(TOPIC, 0, batch(id, 0, 0..1))
            .error_code,
        0
    );
}

#[test]
fn sequences_go_on_at_0_after_the_last_one_and_a_batch_may_lie_across() {
    let mut broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let mut wire = Wire::connect(broker.port());
    let id = wire.producer_id();
    assert_eq!(place(&mut wire, batch(id, 0, 0..3)), (0, 0));
    // Two thousand million records are too many: the first three become the last before the wrap.
    terminate(&mut broker);
    let shard = broker.shard_dir(TOPIC, 0);
    let segment = files(&shard, "log").pop().expect("a log has a segment");
    let mut bytes = fs::read(&segment).expect("it is ours");
    stamp(&mut bytes, id, 0, LAST - 4);
    fs::write(&segment, bytes).expect("it is ours");
    fs::remove_file(shard.join("producers")).expect("a clean end leaves it");
    broker.start_again();

    let mut wire = Wire::connect(broker.port());
    let of = |sequence: i32, values: &[&[u8]]| sequenced(id, 0, sequence, values);
    let across = of(LAST - 1, &[b"3", b"4", b"5", b"6"]);
    assert_eq!(place(&mut wire, across.clone()), (0, 3));
    assert_eq!(place(&mut wire, of(2, &[b"7"])), (0, 7));
    // On either side of the wrap, and across it.
    assert_eq!(place(&mut wire, across), (0, 3));
    assert_eq!(place(&mut wire, of(LAST - 4, &[b"0", b"1", b"2"])), (0, 0));
    assert_eq!(place(&mut wire, of(2, &[b"7"])), (0, 7));
    assert_eq!(place(&mut wire, of(4, &[b"9"])), (OUT_OF_ORDER, -1));
    assert_eq!(numbers(&broker), (0..8).collect::<Vec<_>>());
}

#[test]
fn no_producer_id_is_given_twice_on_any_core_over_restarts_kills_and_lost_data() {
    let mut broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let mut given = HashSet::new();
    let mut take = |broker: &Broker| {
        for core in 0..broker.cores() {
            let mut wire = Wire::connect(broker.core_port(core));
            for _ in 0..3000 {
                let id = wire.producer_id();
                assert!(id >= 0);
                assert!(given.insert(id), "{id} was given before");
            }
        }
    };
    take(&broker);
    for end in ENDS {
        end(&mut broker);
        broker.start_again();
        take(&broker);
    }
    // The same broker id, and nothing that it remembers.
    broker.kill();
    fs::remove_dir_all(broker.data_dir()).expect("it is ours");
    broker.start_again();
    take(&broker);
}

#[test]
fn kcat_produces_as_an_idempotent_producer_to_many_partitions() {
    let broker = Broker::start(&[Stream::new(TOPIC, 4)]);
    let bootstrap = broker.bootstrap();
    // By their keys they go to all partitions.
    let lines: Vec<String> = (0..2000).map(|n| format!("{n}:{n}")).collect();
    let args = [
        "-P",
        "-t",
        TOPIC,
        "-K",
        ":",
        "-X",
        "enable.idempotence=true",
        "-X",
        "batch.num.messages=50",
    ];
    drop(kcat::run(&bootstrap, &args, Some(lines.join("\n").into_bytes())).ok());
    let mut numbers = numbers(&broker);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
    // Their headers say it: each partition knows the one producer.
    assert_eq!(broker.metric("felix_producer_known").to_string(), "4");
    assert_eq!(
        broker
            .metric("felix_producer_out_of_order_total")
            .to_string(),
        "0"
    );
}
