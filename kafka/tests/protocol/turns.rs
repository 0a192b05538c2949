//! What takes long takes turns: a request that asks for very much does not keep the connections
//! beside it waiting.

use crate::bench::{Bench, TENANT};
use crate::metadata::all_topics;
use felix_core::auth::{Action, Auth, Grant, GrantScope, Grants, Permissions, Principal};
use felix_core::limits::FETCH_BYTES_MAX;
use felix_core::{Credentials, Rejection, Timestamp};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, BrokerId, FetchRequest, ListOffsetsRequest, MetadataRequest,
    OffsetForLeaderEpochRequest, ProduceRequest, TopicName,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use std::rc::Rc;
use std::sync::Arc;

/// Nearly as many as a request may declare.
const PARTITIONS: i32 = 30_000;

fn clicks() -> TopicName {
    TopicName(StrBytes::from_static_str("default.clicks"))
}

/// Lets somebody else ask something small while the large request is under way.
fn takes_turns<R: Encodable>(api: ApiKey, version: i16, request: &R) {
    let named = usize::try_from(PARTITIONS).unwrap();
    takes_turns_on(Bench::new(), api, version, request, 6 * named);
}

/// The same on this bench, where the answer has so many bytes at least.
fn takes_turns_on<R: Encodable>(
    mut bench: Bench,
    api: ApiKey,
    version: i16,
    request: &R,
    bytes_min: usize,
) {
    let mut large = bench.connect();
    let mut small = bench.connect();
    large.send(api, version, request);
    bench.polls(2);
    assert!(large.take().is_none(), "{api:?} takes more than a turn");
    small.send(ApiKey::Metadata, 9, &MetadataRequest::default());
    bench.polls(4);
    assert!(small.take().is_some(), "it does not wait for {api:?}");
    assert!(large.take().is_none(), "{api:?} takes many turns");
    bench.turn();
    let answer = large.take().expect("it is answered in the end");
    assert!(
        answer.len() > bytes_min,
        "{} bytes for all of them",
        answer.len()
    );
    // Those behind it have had to wait for it, and are answered, too.
    large.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    assert!(large.take().is_some());
}

#[test]
fn a_fetch_of_very_many_partitions_is_begun_in_turns() {
    let partitions = (0..PARTITIONS).map(|index| FetchPartition::default().with_partition(index));
    let topic = FetchTopic::default()
        .with_topic(clicks())
        .with_partitions(partitions.collect());
    takes_turns(
        ApiKey::Fetch,
        11,
        &FetchRequest::default().with_topics(vec![topic]),
    );
}

#[test]
fn a_search_in_very_many_partitions_is_begun_in_turns() {
    let partitions =
        (0..PARTITIONS).map(|index| ListOffsetsPartition::default().with_partition_index(index));
    let topic = ListOffsetsTopic::default()
        .with_name(clicks())
        .with_partitions(partitions.collect());
    takes_turns(
        ApiKey::ListOffsets,
        5,
        &ListOffsetsRequest::default().with_topics(vec![topic]),
    );
}

#[test]
fn a_produce_to_very_many_partitions_is_begun_in_turns() {
    let partitions = (0..PARTITIONS).map(|index| PartitionProduceData::default().with_index(index));
    let topic = TopicProduceData::default()
        .with_name(clicks())
        .with_partition_data(partitions.collect());
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_topic_data(vec![topic]);
    takes_turns(ApiKey::Produce, 7, &request);
}

/// Every request that names topics, with so many of them and no partition of any.
fn take_turns_over_topics(bench: impl Fn() -> Bench, count: usize) {
    let topic = FetchTopic::default().with_topic(clicks());
    let fetch = FetchRequest::default()
        .with_session_epoch(-1)
        .with_topics(vec![topic; count]);
    takes_turns_on(bench(), ApiKey::Fetch, 11, &fetch, 6 * count);
    let topic = TopicProduceData::default().with_name(clicks());
    let mut produce = ProduceRequest::default()
        .with_acks(-1)
        .with_topic_data(vec![topic; count]);
    takes_turns_on(bench(), ApiKey::Produce, 7, &produce, 6 * count);
    // Refused whole, since there are no transactions.
    produce.transactional_id = Some(StrBytes::from_static_str("t").into());
    if count > 1000 {
        takes_turns_on(bench(), ApiKey::Produce, 7, &produce, 6 * count);
    }
    let topic = ListOffsetsTopic::default().with_name(clicks());
    let offsets = ListOffsetsRequest::default().with_topics(vec![topic; count]);
    takes_turns_on(bench(), ApiKey::ListOffsets, 5, &offsets, 6 * count);
    let topic = OffsetForLeaderTopic::default().with_topic(clicks());
    let epochs = OffsetForLeaderEpochRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![topic; count]);
    takes_turns_on(bench(), ApiKey::OffsetForLeaderEpoch, 3, &epochs, 6 * count);
    let topic = MetadataRequestTopic::default().with_name(Some(clicks()));
    let metadata = MetadataRequest::default().with_topics(Some(vec![topic; count]));
    // Which says each topic once.
    takes_turns_on(bench(), ApiKey::Metadata, 9, &metadata, 0);
}

#[test]
fn requests_that_name_very_many_topics_and_no_partition_are_begun_in_turns() {
    take_turns_over_topics(Bench::new, usize::try_from(PARTITIONS).unwrap());
}

/// Has a thousand grants, none of which is for the streams that there are.
struct Granted;

impl Auth for Granted {
    fn anonymous(&self) -> Option<Principal> {
        let grant = |number| Grant {
            action: Action::Publish,
            scope: GrantScope::Namespace(format!("other-{number}")),
        };
        let grants: Arc<[Grant]> = (0..1000).map(grant).collect();
        Some(Principal {
            permissions: Permissions::Granted(Grants::of(&grants)),
            ..Principal::anonymous(TENANT.into())
        })
    }

    fn authenticate(&self, _: Credentials<'_>, _: Timestamp) -> Result<Principal, Rejection> {
        Err(Rejection::NoTokens)
    }
}

#[test]
fn many_grants_are_looked_at_for_many_topics_in_turns() {
    take_turns_over_topics(|| Bench::with_auth(Rc::new(Granted)), 150);
    let bench = Bench::with_auth(Rc::new(Granted));
    bench.grow_catalog(TENANT, 1, 150);
    takes_turns_on(bench, ApiKey::Metadata, 9, &all_topics(), 0);
}

#[test]
fn streams_that_are_not_seen_are_looked_at_in_turns() {
    let bench = Bench::new();
    bench.grow_catalog("other", 1, 30_000);
    takes_turns_on(bench, ApiKey::Metadata, 9, &all_topics(), 0);
}

/// A Fetch that is begun in turns, of one partition that is there.
fn wide_fetch() -> FetchRequest {
    let partitions = (0..PARTITIONS).map(|index| FetchPartition::default().with_partition(index));
    let topic = FetchTopic::default()
        .with_topic(clicks())
        .with_partitions(partitions.collect());
    FetchRequest::default()
        .with_max_wait_ms(30_000)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

#[test]
fn fetches_that_begin_in_turns_are_not_promised_the_same_memory() {
    let mut bench = Bench::new();
    let pool = bench.context.memory.outbound.clone();
    let all = pool.unpromised();
    let mut clients: Vec<_> = (0..8).map(|_| bench.connect()).collect();
    for client in &mut clients {
        client.send(ApiKey::Fetch, 11, &wide_fetch());
    }
    bench.polls(6);
    assert!(clients.iter_mut().all(|client| client.take().is_none()));
    assert_eq!(all - pool.unpromised(), 8 * FETCH_BYTES_MAX);
    bench.turn();
    drop(clients);
    bench.turn();
    assert_eq!((pool.used(), pool.unpromised()), (0, all));
}

#[test]
fn a_poll_that_is_begun_in_turns_ends_when_the_broker_does() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    // Every partition is there, so that nothing but records would end the poll.
    bench.widen_catalog(30);
    let topics = (0..30).map(|number| {
        let partitions = (0..1024).map(|index| FetchPartition::default().with_partition(index));
        let name = format!("default.wide-{number}");
        FetchTopic::default()
            .with_topic(TopicName(StrBytes::from_string(name)))
            .with_partitions(partitions.collect())
    });
    client.send(
        ApiKey::Fetch,
        11,
        &wide_fetch().with_topics(topics.collect()),
    );
    bench.polls(2);
    bench.context.drain.raise();
    bench.turn();
    assert!(client.take().is_some(), "with what there is");
    assert_eq!(bench.served(), 0);
}
