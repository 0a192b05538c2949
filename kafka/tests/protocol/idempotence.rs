//! Idempotent producers: their ids, and what of their batches reaches the shards.

use crate::bench::{Bench, PRODUCER_ID, clicks};
use crate::model::APPEND_TIME;
use crate::produce::{produce_bytes, produced};
use felix_core::Timestamp;
use felix_core::batch::BatchBuilder;
use kafka_protocol::messages::{
    ApiKey, InitProducerIdRequest, InitProducerIdResponse, ProduceResponse, ProducerId,
    TransactionalId,
};
use kafka_protocol::protocol::StrBytes;

fn ask(bench: &mut Bench, version: i16, request: &InitProducerIdRequest) -> InitProducerIdResponse {
    let mut client = bench.connect();
    let id = client.send(ApiKey::InitProducerId, version, request);
    bench.turn();
    client.answer(ApiKey::InitProducerId, version, id)
}

/// Code, id and epoch.
fn told(answer: &InitProducerIdResponse) -> (i16, i64, i16) {
    let InitProducerIdResponse {
        error_code,
        producer_id,
        producer_epoch,
        throttle_time_ms: 0,
        ..
    } = answer
    else {
        panic!("it is asked to hold back: {answer:?}")
    };
    (*error_code, producer_id.0, *producer_epoch)
}

/// What a producer asks that has an id and an epoch, or says that it has.
fn having(id: i64, epoch: i16) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch)
}

#[test]
fn every_producer_is_given_a_new_id_with_epoch_0_at_every_version() {
    let mut bench = Bench::new();
    let mut expected = i64::try_from(PRODUCER_ID).unwrap();
    for version in 0..=5 {
        for _ in 0..2 {
            let answer = ask(&mut bench, version, &having(-1, -1));
            assert_eq!(told(&answer), (0, expected, 0), "version {version}");
            expected += 1;
        }
    }
}

#[test]
fn a_producer_that_wants_its_next_epoch_is_given_another_id() {
    for version in 3..=5 {
        let mut bench = Bench::new();
        let first = i64::try_from(PRODUCER_ID).unwrap();
        assert_eq!(told(&ask(&mut bench, version, &having(-1, -1))).1, first);
        let again = ask(&mut bench, version, &having(first, 0));
        assert_eq!(told(&again), (0, first + 1, 0));
        // Whatever it says it had.
        let again = ask(&mut bench, version, &having(first, i16::MAX));
        assert_eq!(told(&again), (0, first + 2, 0));
    }
}

#[test]
fn an_id_without_an_epoch_or_an_epoch_without_an_id_is_an_invalid_request() {
    for version in 3..=5 {
        for (id, epoch) in [(7, -1), (-1, 0)] {
            let answer = ask(&mut Bench::new(), version, &having(id, epoch));
            assert_eq!(told(&answer), (42, -1, -1));
        }
    }
}

#[test]
fn a_transactional_producer_is_refused_for_good_and_so_is_one_of_nobody() {
    for version in 0..=5 {
        let transactional_id = TransactionalId(StrBytes::from_static_str("t"));
        let request = having(-1, -1).with_transactional_id(Some(transactional_id));
        let answer = ask(&mut Bench::new(), version, &request);
        assert_eq!(told(&answer), (53, -1, -1));
        let mut nobody = Bench::with_anonymous(false);
        let answer = ask(&mut nobody, version, &having(-1, -1));
        assert_eq!(told(&answer), (31, -1, -1));
    }
}

#[test]
fn what_a_producer_says_of_its_batches_reaches_the_shard() {
    for (id, epoch, sequence, kept) in [
        (4242, 3, i32::MAX, (4242, 3, i32::MAX)),
        // sarama and kafkajs send an epoch and a sequence without an id (T110).
        (-1, 0, 0, (-1, 0, 0)),
    ] {
        for version in 3..=11 {
            let mut bench = Bench::new();
            let records = BatchBuilder::new()
                .producer(id, epoch, sequence)
                .record(Timestamp(1), None, Some(b"a"))
                .record(Timestamp(1), None, Some(b"b"))
                .build();
            let request = produce_bytes("default.clicks", 0, Some(records.freeze()), -1);
            let mut client = bench.connect();
            let asked = client.send(ApiKey::Produce, version, &request);
            bench.turn();
            let answer: ProduceResponse = client.answer(ApiKey::Produce, version, asked);
            let partition = produced(&answer);
            assert_eq!((partition.error_code, partition.base_offset), (0, 0));
            assert_eq!(partition.log_append_time_ms, APPEND_TIME.0);
            let header = bench.log(clicks(0), |log| log.batches[0].0);
            let found = (
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
            );
            assert_eq!(found, kept);
        }
    }
}
