//! Produce requests whose batches are much work: they hold no core, keep their order, and are
//! bounded.

use crate::bench::{Bench, batch_bytes, clicks};
use crate::client::Client;
use crate::model::{Event, ModelBlocking};
use crate::produce::{name, produce, produce_bytes, produced};
use bytes::Bytes;
use felix_core::Timestamp;
use felix_core::batch::{BatchBuilder, Codec};
use felix_core::limits::{BATCH_BYTES_ON_CORE_MAX, REQUEST_DECOMPRESSED_BYTES_MAX};
use felix_core::shards::Acks;
use felix_kafka::{Signal, serve};
use futures_util::future::select;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{ApiKey, ProduceRequest, ProduceResponse};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

/// Bytes of a record beside its value, and then some.
const RECORD_HEAD_BYTES: usize = 64;

/// A batch that is small as sent, and this large or a little smaller once decompressed.
fn bomb(bytes: usize) -> Bytes {
    let value = vec![0; bytes - RECORD_HEAD_BYTES];
    BatchBuilder::new()
        .codec(Codec::Gzip)
        .record(Timestamp(1), None, Some(&value))
        .build()
        .freeze()
}

/// A request that writes these to the partitions of one topic.
fn partitions(topic: &str, of: impl IntoIterator<Item = (i32, Bytes)>) -> ProduceRequest {
    let partitions = of.into_iter().map(|(index, records)| {
        PartitionProduceData::default()
            .with_index(index)
            .with_records(Some(records))
    });
    ProduceRequest::default()
        .with_acks(-1)
        .with_topic_data(vec![
            TopicProduceData::default()
                .with_name(name(topic))
                .with_partition_data(partitions.collect()),
        ])
}

fn codes(response: &ProduceResponse) -> Vec<(i32, i16)> {
    let partitions = response.responses.iter().flat_map(|topic| {
        let code = |p: &PartitionProduceResponse| (p.index, p.error_code);
        topic.partition_responses.iter().map(code)
    });
    partitions.collect()
}

/// A connection whose turns are counted.
fn connect_counted(bench: &mut Bench) -> (Client, Rc<Cell<usize>>) {
    let turns = Rc::new(Cell::new(0));
    let counted = Rc::clone(&turns);
    let client = bench.connect_with(|context, stream, peer| {
        Box::pin(async move {
            let mut served = pin!(serve(context, stream, peer));
            poll_fn(|cx| {
                counted.set(counted.get() + 1);
                served.as_mut().poll(cx)
            })
            .await;
        })
    });
    (client, turns)
}

#[test]
fn a_request_of_many_bombs_holds_its_core_for_one_of_them_at_a_time() {
    let blocking = ModelBlocking::default();
    let mut bench = Bench::with_blocking(Rc::new(blocking.clone()));
    bench.widen_catalog(1);
    let (mut client, turns) = connect_counted(&mut bench);
    let small = bomb(BATCH_BYTES_ON_CORE_MAX);
    let request = partitions("default.wide-0", (0..100).map(|n| (n, small.clone())));
    let before = turns.get();
    let id = client.send(ApiKey::Produce, 9, &request);
    bench.turn();
    let response: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
    // The shards are not open; what counts is that each batch passed its rules.
    assert!(codes(&response).iter().all(|(_, code)| *code == 3));
    assert_eq!(blocking.waiting(), 0);
    assert!(
        turns.get() - before >= 100,
        "{} turns",
        turns.get() - before
    );
}

#[test]
fn many_requests_of_a_bomb_each_share_the_turns_of_their_connection() {
    let mut bench = Bench::new();
    let (mut client, turns) = connect_counted(&mut bench);
    let small = bomb(BATCH_BYTES_ON_CORE_MAX);
    let before = turns.get();
    for _ in 0..100 {
        let request = produce_bytes("default.clicks", 0, Some(small.clone()), 1);
        client.send(ApiKey::Produce, 9, &request);
    }
    bench.turn();
    assert_eq!(std::iter::from_fn(|| client.take()).count(), 100);
    assert!(
        turns.get() - before >= 100,
        "{} turns",
        turns.get() - before
    );
}

#[test]
fn what_is_large_as_sent_or_decompressed_is_parsed_beside_the_core() {
    for records in [
        bomb(BATCH_BYTES_ON_CORE_MAX + 2 * RECORD_HEAD_BYTES),
        batch_bytes(&["x".repeat(BATCH_BYTES_ON_CORE_MAX).as_str()]).freeze(),
    ] {
        let blocking = ModelBlocking::default();
        let mut bench = Bench::with_blocking(Rc::new(blocking.clone()));
        let mut client = bench.connect();
        let request = produce_bytes("default.clicks", 0, Some(records), 1);
        let id = client.send(ApiKey::Produce, 9, &request);
        bench.turn();
        assert!(client.is_unanswered());
        assert_eq!(blocking.waiting(), 1);
        blocking.run_next();
        bench.turn();
        let response: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
        assert_eq!(produced(&response).error_code, 0);
    }
}

#[test]
fn a_light_produce_behind_a_heavy_one_keeps_its_place_and_other_connections_do_not_wait() {
    let blocking = ModelBlocking::default();
    let mut bench = Bench::with_blocking(Rc::new(blocking.clone()));
    let mut client = bench.connect();
    let heavy = produce_bytes("default.clicks", 0, Some(bomb(1 << 20)), -1);
    let heavy = client.send(ApiKey::Produce, 9, &heavy);
    let light = client.send(ApiKey::Produce, 9, &produce("default.clicks", 0, &["b"], 1));
    bench.turn();
    assert_eq!(bench.events(), []);
    let mut other = bench.connect();
    other.send(ApiKey::Produce, 9, &produce("default.clicks", 1, &["c"], 1));
    bench.turn();
    assert!(other.take().is_some());
    bench.events();

    blocking.run_next();
    bench.turn();
    let queued: Vec<_> = bench
        .events()
        .into_iter()
        .filter(|event| matches!(event, Event::Queued { .. }))
        .collect();
    let queued_as = |acks| Event::Queued { index: 0, acks };
    assert_eq!(queued, [queued_as(Acks::All), queued_as(Acks::Leader)]);
    for (id, offset) in [(heavy, 0), (light, 1)] {
        let response: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
        assert_eq!(produced(&response).base_offset, offset);
    }
}

#[test]
fn heavy_batches_of_a_request_go_to_their_shards_together_and_answers_stand_where_asked() {
    let blocking = ModelBlocking::default();
    let mut bench = Bench::with_blocking(Rc::new(blocking.clone()));
    let mut client = bench.connect();
    let light = batch_bytes(&["a"]).freeze();
    let of = [
        (1, bomb(1 << 20)),
        (7, light.clone()),
        (0, light),
        (2, bomb(2 << 20)),
    ];
    let id = client.send(ApiKey::Produce, 9, &partitions("default.clicks", of));
    for _ in 0..2 {
        bench.turn();
        assert_eq!(bench.events(), []);
        assert_eq!(blocking.waiting(), 1, "one after another");
        blocking.run_next();
    }
    bench.turn();
    let response: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
    assert_eq!(codes(&response), [(1, 0), (7, 3), (0, 0), (2, 0)]);
}

#[test]
fn a_connection_that_ends_while_its_batch_is_parsed_leaves_nothing_behind() {
    let blocking = ModelBlocking::default();
    let mut bench = Bench::with_blocking(Rc::new(blocking.clone()));
    let cut = Signal::default();
    let until = cut.raised();
    let mut client = bench.connect_with(|context, stream, peer| {
        Box::pin(async move {
            select(pin!(serve(context, stream, peer)), until).await;
        })
    });
    let light = batch_bytes(&["a"]).freeze();
    let of = [(0, light), (1, bomb(1 << 20))];
    client.send(ApiKey::Produce, 9, &partitions("default.clicks", of));
    bench.turn();
    assert_eq!(blocking.waiting(), 1);
    cut.raise();
    bench.turn();
    assert_eq!(bench.served(), 0);
    assert_eq!(blocking.waiting(), 0);
    assert_eq!(bench.events(), [], "no part of the request is written");
    assert_eq!(bench.context.memory.inbound.used(), 0);
}

#[test]
fn a_partition_named_twice_is_refused_each_time_and_the_others_are_written() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    let light = batch_bytes(&["a"]).freeze();
    let topic = |topic: &str, indices: &[i32]| {
        let of = indices.iter().map(|index| (*index, light.clone()));
        partitions(topic, of).topic_data.remove(0)
    };
    // The second name means the same topic.
    let topics = vec![
        topic("default.clicks", &[0, 1, 2, 1]),
        topic("clicks", &[2]),
    ];
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_topic_data(topics);
    let id = client.send(ApiKey::Produce, 9, &request);
    bench.turn();
    let response: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
    assert_eq!(
        codes(&response),
        [(0, 0), (1, 42), (2, 42), (1, 42), (2, 42)]
    );
    let sentence = response.responses[1].partition_responses[0]
        .error_message
        .as_ref();
    assert_eq!(
        sentence.unwrap().as_str(),
        "a partition may be named once in a request"
    );
    for (index, log_end) in [(0, 1), (1, 0), (2, 0)] {
        bench.log(clicks(index), |log| assert_eq!(log.log_end, log_end));
    }
}

#[test]
fn what_a_request_decompresses_to_is_bounded_and_what_came_before_is_written() {
    const BOMBS_MAX: usize = REQUEST_DECOMPRESSED_BYTES_MAX / (16 << 20);
    let blocking = ModelBlocking::default();
    let mut bench = Bench::with_blocking(Rc::new(blocking.clone()));
    bench.widen_catalog(1);
    let mut client = bench.connect();
    let large = bomb(16 << 20);
    let light = batch_bytes(&["a"]).freeze();
    let of = (0..100).map(|n| {
        (
            n,
            if n == 99 {
                light.clone()
            } else {
                large.clone()
            },
        )
    });
    let id = client.send(ApiKey::Produce, 9, &partitions("default.wide-0", of));
    bench.turn();
    let mut jobs = 0;
    while blocking.waiting() > 0 {
        blocking.run_next();
        bench.turn();
        jobs += 1;
    }
    // Four fit; the next takes what is left, or finds nothing left.
    assert!(jobs <= BOMBS_MAX + 1, "{jobs} jobs");
    let response: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
    let answers = codes(&response);
    // The shards are not open, which is what those that passed are told.
    assert!(answers[..BOMBS_MAX].iter().all(|(_, code)| *code == 3));
    assert!(answers[BOMBS_MAX..].iter().all(|(_, code)| *code == 10));
    let last = response.responses[0].partition_responses.last().unwrap();
    assert_eq!(
        last.error_message.as_ref().unwrap().as_str(),
        "the batches of this request decompress to more than 67108864 bytes"
    );
}
