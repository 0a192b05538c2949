//! What Apache Kafka answers.

use crate::batch::{RECORDS, batch, large_batch};
use crate::round_trip::every_codec_comes_back;
use crate::security::{none, sasl, tls};
use crate::shared::shared;
use crate::talker::{BOUNDS, Talker};
use felix_bench::client::{
    Address, Admin, Identity, Security, Stream, TlsConfig, Trust, answer, batches, error_name,
    request,
};
use felix_core::batch::Codec;
use felix_tests::apache::USERS;
use felix_tests::within;
use std::time::Duration;

#[test]
fn every_codec_comes_back_from_apache_kafka() {
    every_codec_comes_back(&shared().plain(), &none(), "plain");
}

#[test]
fn every_codec_comes_back_through_tls_that_an_authority_vouches_for() {
    let apache = shared();
    let trust = Trust::File(apache.authority().to_owned());
    every_codec_comes_back(&apache.tls(), &tls(&trust), "tls");
}

#[test]
fn every_codec_comes_back_through_tls_that_is_not_checked() {
    every_codec_comes_back(&shared().tls(), &tls(&Trust::Anybody), "insecure");
}

#[test]
fn every_codec_comes_back_to_users_with_their_passwords() {
    let apache = shared();
    for (user, password) in USERS {
        let security = sasl(user, password);
        every_codec_comes_back(&apache.sasl(), &security, &format!("sasl-{user}"));
        let security = Security {
            sasl: security.sasl,
            ..tls(&Trust::File(apache.authority().to_owned()))
        };
        every_codec_comes_back(&apache.sasl_tls(), &security, &format!("sasl-tls-{user}"));
    }
}

#[test]
fn every_codec_comes_back_to_a_client_that_shows_its_certificate() {
    let apache = shared();
    let (certificate, key) = apache.client();
    let identity = Identity {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    };
    let trust = Trust::File(apache.authority().to_owned());
    let security = Security {
        tls: Some(TlsConfig::new(&trust, Some(&identity)).unwrap()),
        sasl: None,
    };
    every_codec_comes_back(&apache.mutual_tls(), &security, "mutual");
}

#[test]
fn the_first_address_that_answers_is_taken() {
    let apache = shared();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = taken.local_addr().unwrap().to_string();
    drop(taken);
    let admin = Admin::connect(&format!("{nobody}, {}", apache.plain()), &none());
    admin.unwrap().check_apis().unwrap();
}

#[test]
fn a_topic_is_made_with_its_partitions_led_and_is_dropped_again() {
    let apache = shared();
    let mut admin = Admin::connect(&apache.plain(), &none()).unwrap();
    let topic = admin.topic("made", 5, true, -1).unwrap();
    let indexes = topic.partitions.iter().map(|leader| leader.index);
    assert_eq!(indexes.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for leader in &topic.partitions {
        assert_eq!(format!("{}:{}", leader.host, leader.port), apache.plain());
    }
    // It is found, not made anew, and its partitions need not all be wanted.
    assert_eq!(admin.topic("made", 2, false, -1), Ok(topic.clone()));
    let said = admin.topic("made", 6, true, -1).unwrap_err().to_string();
    assert!(said.contains("`made` has 5 partitions, and 6"), "{said}");

    admin.delete_topic("made").unwrap();
    let said = admin.delete_topic("made").unwrap_err().to_string();
    assert!(said.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{said}");
}

#[test]
fn a_topic_that_is_missing_and_may_not_be_made_is_told() {
    let apache = shared();
    let mut admin = Admin::connect(&apache.plain(), &none()).unwrap();
    let said = admin.topic("missing", 1, false, 1).unwrap_err().to_string();
    assert!(said.contains("no topic `missing`"), "{said}");
    assert!(said.contains("not allowed to make it"), "{said}");
    let said = admin.topic("missing", 1, true, 7).unwrap_err().to_string();
    assert!(said.contains("INVALID_REPLICATION_FACTOR: "), "{said}");
    for name in ["", "..", "a b", "a/b", &"a".repeat(250)] {
        let said = admin.topic(name, 1, true, 1).unwrap_err().to_string();
        assert!(said.contains("no name of a topic"), "{said}");
    }
}

#[test]
fn an_idempotent_producer_is_answered_once_for_a_batch_sent_twice() {
    let apache = shared();
    let mut admin = Admin::connect(&apache.plain(), &none()).unwrap();
    let topic = admin.topic("idempotent", 1, true, 1).unwrap();
    let leader = &topic.partitions[0];
    let (id, epoch) = admin.producer_id().unwrap();
    assert!(id >= 0 && epoch >= 0);
    let mut batch = batch(Codec::Zstd);
    let mut talker = Talker::open(leader, &none());
    let mut send = |sequence| {
        batch.stamp_producer(id, epoch, sequence);
        let produced = talker.produce("idempotent", 0, batch.bytes());
        (
            error_name(produced.error).into_owned(),
            produced.base_offset,
        )
    };
    let records = i32::try_from(RECORDS).unwrap();
    let second = i64::from(RECORDS);
    assert_eq!(send(0), ("NONE".to_owned(), 0));
    assert_eq!(send(records), ("NONE".to_owned(), second));
    assert_eq!(send(records), ("NONE".to_owned(), second));
    let (error, _) = send(5 * records);
    assert_eq!(error, "OUT_OF_ORDER_SEQUENCE_NUMBER");
    assert_eq!(admin.end_offset("idempotent", leader), Ok(2 * second));
}

#[test]
fn a_fetch_over_several_partitions_brings_each_its_own() {
    let apache = shared();
    let mut admin = Admin::connect(&apache.plain(), &none()).unwrap();
    let topic = admin.topic("several", 3, true, 1).unwrap();
    let mut talker = Talker::open(&topic.partitions[0], &none());
    let batch = batch(Codec::None);
    for (partition, count) in [(0, 1), (2, 3)] {
        for _ in 0..count {
            assert_eq!(talker.produce("several", partition, batch.bytes()).error, 0);
        }
    }
    let frame = talker.ask(|out, correlation| {
        let wanted = [(0, 0), (1, 0), (2, i64::from(RECORDS)), (3, 0)];
        request::fetch(out, correlation, &BOUNDS, "several", wanted.into_iter());
    });
    let fetched = answer::fetched(&frame).unwrap();
    let mut told: Vec<_> = fetched
        .partitions
        .map(|of| {
            let first = batches(of.records)
                .next()
                .map(|seen| seen.unwrap().base_offset);
            let count = batches(of.records).count();
            (
                of.partition,
                error_name(of.error),
                of.high_watermark,
                first,
                count,
            )
        })
        .collect();
    told.sort_unstable();
    let records = i64::from(RECORDS);
    let none = || error_name(0);
    assert_eq!(
        told,
        [
            (0, none(), records, Some(0), 1),
            (1, none(), 0, None, 0),
            (2, none(), 3 * records, Some(records), 2),
            (3, error_name(3), -1, None, 0),
        ]
    );
}

#[test]
fn more_than_any_buffer_holds_goes_through_tls_both_ways() {
    let apache = shared();
    let security = tls(&Trust::File(apache.authority().to_owned()));
    let mut admin = Admin::connect(&apache.tls(), &security).unwrap();
    let topic = admin.topic("large", 1, true, 1).unwrap();
    let mut talker = Talker::open(&topic.partitions[0], &security);
    let large = large_batch();
    // Sent without waiting for answers, so that the socket has no more room at some time.
    const COUNT: usize = 20;
    let mut correlations = Vec::new();
    for _ in 0..COUNT {
        correlations.push(talker.send(|out, correlation| {
            request::produce(out, correlation, 1, 10_000, "large", 0, large.bytes());
        }));
    }
    for (expected, base_offset) in correlations.into_iter().zip(0..) {
        let produced = answer::produced(&talker.receive()).unwrap();
        assert_eq!((produced.correlation, produced.error), (expected, 0));
        assert_eq!(produced.base_offset, base_offset);
    }
    let end = i64::try_from(COUNT).unwrap();
    let (_, records) = talker.fetch("large", 0, 0, end);
    assert!(batches(&records).all(|seen| seen.unwrap().check_crc().is_ok()));
    assert!(records.len() > COUNT / 2 * large.bytes().len());
}

#[test]
fn a_stream_has_no_delay_and_never_waits() {
    let apache = shared();
    let address: Address = apache.plain().parse().unwrap();
    let mut stream = Stream::open(&address.host, address.port, &none()).unwrap();
    assert!(stream.socket().nodelay().unwrap());
    assert!(!stream.wants_write());
    assert!(stream.flush_pending().unwrap());
    let read = within(Duration::from_secs(1), || stream.read(&mut [0; 100]));
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
