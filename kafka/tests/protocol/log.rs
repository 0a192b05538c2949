//! Who breaks the protocol finds one line in the broker's log that says who, what and why.

use crate::bench::{Bench, batch_bytes};
use crate::metadata::all_topics;
use crate::produce::{produce, produce_bytes};
use felix_core::metrics::Metrics;
use felix_kafka::Refused;
use kafka_protocol::messages::{
    ApiKey, InitProducerIdRequest, SaslAuthenticateRequest, SaslHandshakeRequest, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Collects what is logged.
#[derive(Clone)]
struct Lines(Sender<String>);

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0
            .send(String::from_utf8_lossy(line).into_owned())
            .expect("the test listens");
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A wish for a producer id.
fn init(transactional: bool) -> InitProducerIdRequest {
    let id = transactional.then(|| TransactionalId(StrBytes::from_static_str("t")));
    InitProducerIdRequest::default().with_transactional_id(id)
}

/// The lines at warning level or above while `act` runs.
fn logged(act: impl FnOnce()) -> Vec<String> {
    let (lines, got): (_, Receiver<String>) = channel();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(Lines(lines))
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    got.try_iter().collect()
}

/// The one line, which has all these parts.
fn one_line(act: impl FnOnce(), parts: &[&str]) {
    let lines = logged(act);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["WARN", "192.0.2.1:5555"].iter().chain(parts) {
        assert!(lines[0].contains(part), "{:?} has {part:?}", lines[0]);
    }
}

#[test]
fn each_protocol_error_is_one_line_with_peer_client_api_version_and_reason() {
    let send = |version: i16, change: fn(&mut Vec<u8>)| {
        move || {
            let mut bench = Bench::new();
            let mut client = bench.connect();
            let (_, mut bytes) = client.encode(ApiKey::Metadata, version, &all_topics());
            change(&mut bytes);
            client.peer.send(&bytes);
            bench.turn();
            assert!(client.peer.is_closed());
        }
    };
    one_line(
        send(1, |bytes| bytes[5] = 19),
        &[
            r#"client_id="tester""#,
            "api=CreateTopics",
            "version=1",
            "this API is not served",
        ],
    );
    one_line(
        send(1, |bytes| bytes[7] = 13),
        &[
            r#"client_id="tester""#,
            "api=Metadata",
            "version=13",
            "this version is not served: 0 to 12 are",
        ],
    );
    one_line(
        send(1, |bytes| {
            let end = bytes.len();
            bytes[end - 4] = 1;
        }),
        &[
            r#"client_id="tester""#,
            "api=Metadata",
            "version=1",
            "malformed request at byte",
        ],
    );
}

/// Sends what is refused, after one request that is not, and sees one line with all `parts`.
fn refused(anonymous: bool, reason: Refused, bytes: &[u8], parts: &[&str]) {
    let act = || {
        let mut bench = Bench::with_anonymous(anonymous);
        let mut client = bench.connect();
        client.send(ApiKey::Metadata, 1, &all_topics());
        bench.turn();
        client.peer.send(bytes);
        bench.turn();
        assert!(client.peer.is_closed());
        assert_eq!(bench.context.metrics.refused(reason), 1);
    };
    one_line(act, &[&[r#"client_id="tester""#], parts].concat());
}

#[test]
fn each_reason_to_refuse_is_a_line_that_says_what_was_asked_as_far_as_it_can_be_read() {
    let header = |api: i16, version: i16| {
        let client_id = [&[0, 6], b"tester".as_slice()].concat();
        let header = [&api.to_be_bytes(), &version.to_be_bytes(), &[0; 4][..]].concat();
        [header, client_id].concat()
    };
    let frame = |body: &[u8]| {
        let length = i32::try_from(body.len()).unwrap();
        [&length.to_be_bytes(), body].concat()
    };
    let unread = "api=unread reason";
    refused(
        true,
        Refused::FrameSize,
        &i32::MAX.to_be_bytes(),
        &[unread, "at most 8388608 are allowed"],
    );
    refused(
        true,
        Refused::FrameSize,
        &(-1_i32).to_be_bytes(),
        &[unread, "-1"],
    );
    refused(
        false,
        Refused::UnauthenticatedFrameSize,
        &70_000_i32.to_be_bytes(),
        &[unread, "at most 65536 are allowed"],
    );
    refused(
        true,
        Refused::Version,
        &frame(&header(3, 99)),
        &["api=Metadata version=99", "is not served"],
    );
    refused(
        true,
        Refused::Version,
        &frame(&header(-7, 0)),
        &["api=-7 version=0", "is not served"],
    );
    let malformed = "malformed request at byte";
    refused(true, Refused::Malformed, &frame(&[0]), &[unread, malformed]);
    refused(
        true,
        Refused::Malformed,
        &frame(&[0, 3, 0, 1, 0]),
        &["api=Metadata version=1", malformed],
    );
    refused(
        true,
        Refused::Malformed,
        &frame(&header(3, 1)),
        &["api=Metadata version=1", malformed],
    );
}

#[test]
fn a_connection_closed_on_arrival_is_a_line_with_its_reason() {
    for (reason, part) in [
        (Refused::ConnectionLimit, "connection_limit"),
        (Refused::PerIpLimit, "per_ip_limit"),
    ] {
        let log = Bench::new().context.log.clone();
        let peer = "192.0.2.1:5555".parse().unwrap();
        one_line(|| log.closed_on_arrival(&peer, reason), &[part]);
    }
}

#[test]
fn a_token_that_is_refused_time_and_again_leaves_a_few_lines_a_second_and_the_number_of_the_others()
{
    const TRIES: usize = 1000;
    let lines = logged(|| {
        let mut bench = Bench::with_anonymous(false);
        let guess = |bench: &mut Bench| {
            let mut client = bench.connect();
            let plain = StrBytes::from_static_str("PLAIN");
            let plain = SaslHandshakeRequest::default().with_mechanism(plain);
            client.send(ApiKey::SaslHandshake, 1, &plain);
            let wrong = b"\0tenant\0nonsense".to_vec().into();
            let wrong = SaslAuthenticateRequest::default().with_auth_bytes(wrong);
            client.send(ApiKey::SaslAuthenticate, 2, &wrong);
            bench.polls(20);
        };
        (0..TRIES).for_each(|_| guess(&mut bench));
        bench.wait(Duration::from_secs(1));
        guess(&mut bench);
        let refused = bench.context.metrics.refused(Refused::Authentication);
        assert_eq!(refused, 1 + u64::try_from(TRIES).unwrap());
    });
    assert_eq!(lines.len(), 11, "{lines:#?}");
    let is_one = |line: &String| line.contains("refused to authenticate a Kafka client");
    assert!(lines.iter().all(is_one), "{lines:#?}");
    assert!(lines[10].contains("left_out=990"), "{}", lines[10]);
}

#[test]
fn peers_that_flood_leave_a_few_lines_a_second_and_the_number_of_the_others() {
    let lines = logged(|| {
        let mut bench = Bench::new();
        let flood = |bench: &mut Bench, count: usize| {
            for _ in 0..count {
                let client = bench.connect();
                client.peer.send(&(-1_i32).to_be_bytes());
                bench.turn();
            }
        };
        flood(&mut bench, 60);
        bench.wait(Duration::from_secs(1));
        flood(&mut bench, 2);
        assert_eq!(bench.context.metrics.refused(Refused::FrameSize), 62);
        let mut left_out = 0.0;
        bench
            .context
            .log
            .collect(&mut |sample| left_out += sample.value);
        assert_eq!(left_out, 50.0);
    });
    let counts = |line: &String| line.contains("left_out=");
    assert_eq!(lines.len(), 12, "{lines:#?}");
    assert!(lines[10].contains("left_out=50"), "{}", lines[10]);
    assert_eq!(lines.iter().filter(|line| counts(line)).count(), 1);
}

#[test]
fn a_flood_of_one_kind_hides_no_line_of_another() {
    let lines = logged(|| {
        let mut bench = Bench::new();
        for _ in 0..20 {
            let client = bench.connect();
            client.peer.send(&(-1_i32).to_be_bytes());
            bench.turn();
        }
        let mut client = bench.connect();
        client.send(ApiKey::InitProducerId, 4, &init(true));
        bench.turn();
    });
    assert!(lines.last().unwrap().contains("refused a Kafka producer"));
}

#[test]
fn records_refused_are_one_line_also_where_the_connection_is_closed_over_them() {
    let send = |acks: i16| {
        move || {
            let mut bench = Bench::new();
            let mut client = bench.connect();
            let mut torn = batch_bytes(&["a"]);
            torn[68] ^= 1;
            let request = produce_bytes("default.clicks", 2, Some(torn.freeze()), acks);
            client.send(ApiKey::Produce, 9, &request);
            bench.turn();
            assert_eq!(client.peer.is_closed(), acks == 0);
        }
    };
    let who = [
        r#"client_id="tester""#,
        "api=Produce",
        "version=9",
        "default.clicks partition 2",
    ];
    one_line(
        send(1),
        &[&who[..], &["refused records", "checksum"]].concat(),
    );
    one_line(
        send(0),
        &[&who[..], &["closing", "acks=0", "checksum"]].concat(),
    );
}

#[test]
fn a_produce_without_answer_is_logged_with_the_reason_of_its_code() {
    let send = |anonymous: bool, topic: &'static str| {
        move || {
            let mut bench = Bench::with_anonymous(anonymous);
            let mut client = bench.connect();
            client.send(ApiKey::Produce, 9, &produce(topic, 0, &["a"], 0));
            bench.turn();
            assert!(client.peer.is_closed());
        }
    };
    let denied = ["TopicAuthorizationFailed: the connection is not authenticated, or may not"];
    one_line(send(false, "default.clicks"), &denied);
    one_line(send(true, "default.read-only"), &denied);
    let unknown = ["UnknownTopicOrPartition: no such partition for this client"];
    one_line(send(true, "default.nothing"), &unknown);
}

#[test]
fn a_producer_that_is_given_no_id_is_told_why_in_the_log() {
    let who = [
        r#"client_id="tester""#,
        "version=4",
        "refused a Kafka producer",
    ];
    let ask = |anonymous: bool, transactional: bool| {
        move || {
            let mut bench = Bench::with_anonymous(anonymous);
            let mut client = bench.connect();
            client.send(ApiKey::InitProducerId, 4, &init(transactional));
            bench.turn();
        }
    };
    let transactional = [&who[..], &["unset transactional.id"]].concat();
    one_line(ask(true, true), &transactional);
    one_line(
        ask(false, false),
        &[&who[..], &["not authenticated"]].concat(),
    );
}

#[test]
fn a_reason_is_cut_between_characters_and_says_how_much_is_missing() {
    let topic = "\u{e9}".repeat(10_000);
    let lines = logged(|| {
        let mut bench = Bench::new();
        let mut client = bench.connect();
        client.send(ApiKey::Produce, 9, &produce(&topic, 0, &["a"], 0));
        bench.turn();
        assert!(client.peer.is_closed());
    });
    assert_eq!(lines.len(), 1);
    let line = &lines[0];
    assert!(line.len() < 1500, "{} bytes", line.len());
    assert!(line.contains("\u{e9}... and "), "{line}");
    assert!(line.contains(" bytes more"), "{line}");
}

#[test]
fn what_goes_well_is_not_logged_and_a_client_cannot_write_lines_of_its_own() {
    let lines = logged(|| {
        let mut bench = Bench::new();
        let mut client = bench.connect();
        client.send(
            ApiKey::Produce,
            9,
            &produce("default.clicks", 0, &["a"], -1),
        );
        client.send(
            ApiKey::Produce,
            9,
            &produce("default.nothing", 0, &["a"], -1),
        );
        bench.turn();
    });
    assert_eq!(lines, [""; 0]);
    let lines = logged(|| {
        let mut bench = Bench::new();
        let mut client = bench.connect();
        let (_, mut bytes) = client.encode(ApiKey::Metadata, 13, &all_topics());
        let at = bytes.windows(6).position(|word| word == b"tester").unwrap();
        bytes[at..at + 6].copy_from_slice(b"t\nWARN");
        client.peer.send(&bytes);
        bench.turn();
    });
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].trim_end().lines().count(), 1, "{lines:?}");
    let lines = logged(|| {
        let mut bench = Bench::new();
        let mut client = bench.connect();
        client.send(ApiKey::Produce, 9, &produce("x\nWARN", 0, &["a"], 0));
        bench.turn();
        assert!(client.peer.is_closed());
    });
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].trim_end().lines().count(), 1, "{lines:?}");
}

#[test]
fn a_client_of_another_protocol_is_closed_at_once_counted_and_told_apart_in_the_log() {
    for (bytes, reason, sentence) in [
        (
            &[0x16, 0x03, 0x01, 0x02, 0x00][..],
            Refused::Tls,
            "set FELIX_KAFKA_TLS=true here, or security.protocol to PLAINTEXT",
        ),
        (
            b"GET /metrics HTTP/1.1\r\n",
            Refused::Http,
            "/metrics and /ready are at FELIX_BROKER_METRICS_BIND",
        ),
    ] {
        for anonymous in [true, false] {
            let mut bench = Bench::with_anonymous(anonymous);
            let lines = logged(|| {
                let client = bench.connect();
                client.peer.send(bytes);
                bench.turn();
                assert!(client.peer.is_closed(), "{sentence}");
            });
            assert_eq!(bench.context.metrics.refused(reason), 1);
            assert_eq!(bench.context.metrics.protocol_errors.value(), 1);
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].contains(sentence), "{lines:?}");
        }
    }
}
