//! Both ends of a connection in memory, which chops bytes as it likes: ours, and rustls' client.

mod pipe;
mod talk;

use super::*;
use bytes::BytesMut;
use felix_core::ByteStream;
use felix_core::metrics::Metrics;
use proptest::prelude::*;
use rustls::{AlertDescription, Error, ProtocolVersion};
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::net::IpAddr;
use std::task::{Context, Poll, Waker};
use talk::{Authority, Client, Talk, acceptor, config, own};

/// What the server gets until the client ends.
fn receive(talk: &mut Talk, stream: &mut TlsStream<pipe::ServerEnd>) -> Vec<u8> {
    let mut got = BytesMut::new();
    loop {
        let receiving = poll_fn(|cx| stream.poll_recv(cx, &mut got, 40_000));
        if talk.drive(receiving).unwrap() == 0 {
            return got.to_vec();
        }
    }
}

fn send(talk: &mut Talk, stream: &mut TlsStream<pipe::ServerEnd>, pieces: &[Vec<u8>]) {
    let all = pieces.concat();
    let lengths: Vec<usize> = pieces.iter().map(Vec::len).collect();
    let mut sent = 0;
    while sent < all.len() {
        // What is left, in the pieces it came in.
        let mut at = 0;
        let mut left = Vec::new();
        for length in &lengths {
            let from = sent.clamp(at, at + length);
            left.push(IoSlice::new(&all[from..at + length]));
            at += length;
        }
        let sending = poll_fn(|cx| stream.poll_send(cx, &left));
        let count = talk.drive(sending).unwrap();
        assert!(count > 0);
        sent += count;
    }
}

fn failures(acceptor: &TlsAcceptor, reason: &str) -> f64 {
    let mut found = 0.0;
    acceptor.metrics().collect(&mut |sample| {
        let label = sample.labels.into_iter().next().map(|(_, value)| value);
        if sample.name.ends_with("failures_total") && label.as_deref() == Some(reason) {
            found += sample.value;
        }
    });
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn bytes_arrive_as_they_were_sent_however_they_are_chopped(
        chops in prop::collection::vec(prop_oneof![0_usize..8, 1_usize..30_000], 1..12),
        up in prop::collection::vec(0_usize..50_000, 0..6),
        down in prop::collection::vec(prop_oneof![0_usize..40, 0_usize..50_000], 0..40),
        v13 in any::<bool>(),
    ) {
        prop_assume!(chops.iter().any(|chop| *chop > 0));
        let (acceptor, own) = acceptor();
        let version = if v13 { &rustls::version::TLS13 } else { &rustls::version::TLS12 };
        let mut talk = Talk::new(Client::trusting(&own).speaking(version));
        talk.chop(&chops);
        let mut stream = talk.accept(&acceptor).unwrap().stream;
        let fill = |seed: usize, length: usize| -> Vec<u8> {
            (0..length).map(|at| u8::try_from((at * 31 + seed) % 251).unwrap()).collect()
        };
        let up: Vec<u8> = up.iter().enumerate().flat_map(|(n, length)| fill(n, *length)).collect();
        talk.say(&up);
        talk.farewell();
        prop_assert_eq!(receive(&mut talk, &mut stream), up);
        // The client has ended, and is still told everything.
        let down: Vec<Vec<u8>> = down.iter().enumerate().map(|(n, len)| fill(n, *len)).collect();
        send(&mut talk, &mut stream, &down);
        stream.close_write();
        talk.settle(&mut stream);
        prop_assert_eq!(talk.heard(), down.concat());
        prop_assert!(talk.heard_farewell());
        prop_assert!(talk.is_server_closed());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_peer_changes_is_an_error_or_an_end_and_stays_one(
        hello in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 0..6),
        records in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..6),
        v13 in any::<bool>(),
    ) {
        let (acceptor, own) = acceptor();
        let version = if v13 { &rustls::version::TLS13 } else { &rustls::version::TLS12 };
        let client = Client::trusting(&own).speaking(version);
        let mut talk = Talk::new(client.clone());
        talk.tamper(&hello);
        talk.cut(usize::MAX);
        prop_assert!(talk.accept(&acceptor).is_err());

        let mut talk = Talk::new(client);
        let mut stream = talk.accept(&acceptor).unwrap().stream;
        for word in ["one", "two", "three"] {
            talk.say(word.as_bytes());
        }
        talk.tamper(&records);
        talk.cut(usize::MAX);
        let mut got = BytesMut::new();
        let mut ends = 0;
        while ends < 3 {
            let receiving = poll_fn(|cx| stream.poll_recv(cx, &mut got, 100));
            ends += usize::from(!matches!(talk.drive(receiving), Ok(1..)));
        }
        prop_assert!(b"onetwothree".starts_with(&got));
        let mut cx = Context::from_waker(Waker::noop());
        drop(stream.poll_send(&mut cx, &[IoSlice::new(b"answer")]));
        stream.close_write();
        talk.settle(&mut stream);
        prop_assert!(talk.is_server_closed());
    }
}

#[test]
fn a_peer_that_does_not_read_holds_one_write_and_is_told_of_it_only_once_it_is_sent() {
    let (acceptor, own) = acceptor();
    let mut talk = Talk::new(Client::trusting(&own));
    let mut stream = talk.accept(&acceptor).unwrap().stream;
    talk.window(1000);
    let data = vec![7; 10 << 20];
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        let polled = stream.poll_send(&mut cx, &[IoSlice::new(&data)]);
        assert!(polled.is_pending());
    }
    assert_eq!(talk.heard().len(), 0, "no whole record yet");
    talk.window(usize::MAX);
    let taken = talk.drive(poll_fn(|cx| stream.poll_send(cx, &[IoSlice::new(&data)])));
    let taken = taken.unwrap();
    assert!((1..=32 << 10).contains(&taken), "{taken}");
    talk.settle(&mut stream);
    assert_eq!(talk.heard().len(), taken);
}

#[test]
fn an_end_without_a_farewell_is_an_end_between_records_and_a_fault_within_one() {
    for (kept, expected) in [(usize::MAX, Ok(5)), (25, Err(ErrorKind::UnexpectedEof))] {
        let (acceptor, own) = acceptor();
        let mut talk = Talk::new(Client::trusting(&own));
        let mut stream = talk.accept(&acceptor).unwrap().stream;
        talk.say(b"hello");
        talk.cut(kept);
        let mut got = BytesMut::new();
        let ended = loop {
            let receiving = poll_fn(|cx| stream.poll_recv(cx, &mut got, 100));
            match talk.drive(receiving) {
                Ok(0) => break Ok(got.len()),
                Ok(_) => {}
                Err(error) => break Err(error.kind()),
            }
        };
        assert_eq!(ended, expected);
    }
}

#[test]
fn a_changed_byte_is_a_fault_and_the_peer_is_told() {
    let (acceptor, own) = acceptor();
    let mut talk = Talk::new(Client::trusting(&own));
    let mut stream = talk.accept(&acceptor).unwrap().stream;
    talk.say(b"hello");
    talk.corrupt();
    let mut got = BytesMut::new();
    for _ in 0..2 {
        let receiving = poll_fn(|cx| stream.poll_recv(cx, &mut got, 100));
        let error = talk.drive(receiving).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
    assert!(got.is_empty());
    let expected = Error::AlertReceived(AlertDescription::BadRecordMac);
    assert_eq!(talk.failed(), Some(expected));
}

#[test]
fn what_is_no_tls_is_known_by_its_first_byte_and_answered_with_nothing() {
    for (bytes, words) in [
        (&b"\0"[..], "set security.protocol"),
        (b"\0\0\0\x2c\0\x12\0\x03", "set security.protocol"),
        (b"GET / HTTP/1.1\r\n", "speaks HTTP"),
        (b"\x80garbage", "does not begin a TLS handshake"),
        (b"\x16\x02\x01\0\x05", "does not begin a TLS handshake"),
    ] {
        let (acceptor, own) = acceptor();
        let mut talk = Talk::new(Client::trusting(&own));
        talk.inject(bytes);
        let error = talk.accept(&acceptor).unwrap_err();
        assert_eq!(error.failure(), TlsFailure::NotTls);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(talk.sent_by_server(), 0);
        assert_eq!(failures(&acceptor, "not_tls"), 1.0);
    }
}

#[test]
fn garbage_in_a_record_and_a_client_that_leaves_are_counted_as_what_they_are() {
    let (acceptor, own) = acceptor();
    let mut talk = Talk::new(Client::trusting(&own));
    talk.inject(b"\x16\x03\x01\0\x05\xff\xff\xff\xff\xff");
    let error = talk.accept(&acceptor).unwrap_err();
    assert_eq!(error.failure(), TlsFailure::Malformed, "{error}");

    let mut talk = Talk::new(Client::trusting(&own));
    talk.inject(b"\x16\x03\x01\x01\0\x01");
    talk.cut(usize::MAX);
    let error = talk.accept(&acceptor).unwrap_err();
    assert_eq!(error.failure(), TlsFailure::PeerClosed, "{error}");
}

#[test]
fn a_handshake_in_very_many_pieces_is_given_up() {
    let (acceptor, own) = acceptor();
    let mut talk = Talk::new(Client::trusting(&own));
    talk.chop(&[6]);
    // Records of one byte each of a handshake message that has no end.
    talk.inject(&b"\x16\x03\x01\0\x01\x01".repeat(200));
    let error = talk.accept(&acceptor).unwrap_err();
    assert_eq!(error.failure(), TlsFailure::Malformed, "{error}");
}

#[test]
fn versions_and_suites_beyond_those_allowed_are_refused_with_a_reason_of_their_own() {
    let own = own();
    let policy = |version, suites: &[&str]| TlsPolicy::new(version, suites).unwrap();
    let v13 = acceptor_of(&own, policy(TlsVersion::V13, &[]));
    let mut talk = Talk::new(Client::trusting(&own).speaking(&rustls::version::TLS12));
    let error = talk.accept(&v13).unwrap_err();
    assert_eq!(error.failure(), TlsFailure::Version, "{error}");
    let mut talk = Talk::new(Client::trusting(&own));
    let accepted = talk.accept(&v13).unwrap();
    assert_eq!(talk.version(), Some(ProtocolVersion::TLSv1_3));
    drop(accepted);

    let suites = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ];
    let narrow = acceptor_of(&own, policy(TlsVersion::V12, &suites));
    let mut talk = Talk::new(Client::trusting(&own).with_suite("TLS13_AES_128_GCM_SHA256"));
    talk.accept(&narrow).unwrap();
    for other in [
        "TLS13_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ] {
        let mut talk = Talk::new(Client::trusting(&own).with_suite(other));
        let error = talk.accept(&narrow).unwrap_err();
        assert_eq!(error.failure(), TlsFailure::CipherSuite, "{error}");
        let told = Error::AlertReceived(AlertDescription::HandshakeFailure);
        assert_eq!(talk.failed(), Some(told));
    }
}

fn acceptor_of(own: &talk::Own, policy: TlsPolicy) -> TlsAcceptor {
    talk::acceptor_with(config(own, None, &policy))
}

#[test]
fn a_client_certificate_is_wanted_checked_and_read() {
    let own = own();
    let authority = Authority::new("clients");
    let policy = TlsPolicy::new(TlsVersion::V12, &[]).unwrap();
    let acceptor = talk::acceptor_with(config(&own, Some(&authority), &policy));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut talk = Talk::new(Client::trusting(&own).speaking(version));
        let error = talk.accept(&acceptor).unwrap_err();
        assert_eq!(error.failure(), TlsFailure::NoClientCertificate, "{error}");

        let stranger = Authority::new("others").issue(&["felix:principal:mallory"]);
        let mut talk = Talk::new(Client::trusting(&own).speaking(version).showing(&stranger));
        let error = talk.accept(&acceptor).unwrap_err();
        assert_eq!(error.failure(), TlsFailure::ClientCertificate, "{error}");

        let known = authority.issue(&["felix:principal:alice", "alice.example.com", "192.0.2.7"]);
        let mut talk = Talk::new(Client::trusting(&own).speaking(version).showing(&known));
        let names = talk.accept(&acceptor).unwrap().certificate.unwrap();
        assert_eq!(names.uris, ["felix:principal:alice"]);
        assert_eq!(names.dns, ["alice.example.com"]);
        assert_eq!(names.ips, ["192.0.2.7".parse::<IpAddr>().unwrap()]);
    }
    // Where none is wanted, none is asked for.
    let (acceptor, own) = talk::acceptor();
    let known = authority.issue(&["alice.example.com"]);
    let mut talk = Talk::new(Client::trusting(&own).showing(&known));
    assert!(talk.accept(&acceptor).unwrap().certificate.is_none());
}

#[test]
fn a_client_that_does_not_trust_the_certificate_is_counted_so() {
    let (acceptor, _) = acceptor();
    let mut talk = Talk::new(Client::trusting(&own()));
    let error = talk.accept(&acceptor).unwrap_err();
    assert_eq!(error.failure(), TlsFailure::Distrusted, "{error}");
    assert!(
        error.to_string().contains("FELIX_TLS_CERT_EXPORT"),
        "{error}"
    );
}

#[test]
fn a_session_goes_on_at_any_core_until_the_certificate_is_read_anew() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let own = own();
        let policy = TlsPolicy::new(TlsVersion::V12, &[]).unwrap();
        let shared = config(&own, None, &policy);
        let cores = [(); 2].map(|()| talk::acceptor_with(shared.clone()));
        let client = Client::trusting(&own).speaking(version);
        let resumed = |acceptor: &TlsAcceptor| {
            let mut talk = Talk::new(client.clone());
            let before = acceptor.metrics().resumed.value();
            let mut stream = talk.accept(acceptor).unwrap().stream;
            // Tickets of TLS 1.3 come behind the handshake.
            talk.settle(&mut stream);
            acceptor.metrics().resumed.value() > before
        };
        assert!(!resumed(&cores[0]));
        assert!(resumed(&cores[0]));
        assert!(resumed(&cores[1]), "the other core has the same keys");
        let mut talk = Talk::new(client.clone());
        let mut before = talk.accept(&cores[1]).unwrap().stream;
        cores[1].replace(config(&own, None, &policy));
        assert!(!resumed(&cores[1]), "an old ticket opens no new session");
        assert!(resumed(&cores[1]));
        send(&mut talk, &mut before, &[b"still here".to_vec()]);
        talk.settle(&mut before);
        assert_eq!(talk.heard(), b"still here");
    }
}

#[test]
fn each_flight_is_one_step_beside_the_core_however_it_drips() {
    let own = own();
    let policy = TlsPolicy::new(TlsVersion::V12, &[]).unwrap();
    for (version, flights) in [(&rustls::version::TLS12, 3), (&rustls::version::TLS13, 2)] {
        let (acceptor, steps) = talk::acceptor_counting(config(&own, None, &policy));
        let mut talk = Talk::new(Client::trusting(&own).speaking(version));
        talk.chop(&[1]);
        talk.accept(&acceptor).unwrap();
        // Records that come after one another may take one more step each.
        assert!(
            (flights - 1..=flights + 2).contains(&steps.get()),
            "{}",
            steps.get()
        );
    }
}

#[test]
fn very_many_small_records_are_looked_at_in_portions() {
    let (acceptor, own) = acceptor();
    let mut talk = Talk::new(Client::trusting(&own));
    let mut stream = talk.accept(&acceptor).unwrap().stream;
    for _ in 0..10 {
        talk.change_keys();
    }
    for number in 0..200 {
        talk.say(&[number]);
    }
    let mut got = BytesMut::new();
    let mut portions = Vec::new();
    while got.len() < 200 {
        let receiving = poll_fn(|cx| stream.poll_recv(cx, &mut got, 1000));
        portions.push(talk.drive(receiving).unwrap());
    }
    assert!(got.iter().copied().eq(0..200));
    assert!(
        portions.iter().all(|portion| *portion <= 32),
        "{portions:?}"
    );
}

#[test]
fn a_stream_that_works_hard_lets_others_have_their_turn() {
    let (acceptor, own) = acceptor();
    let mut talk = Talk::new(Client::trusting(&own));
    let mut stream = talk.accept(&acceptor).unwrap().stream;
    let data = vec![1; 64 << 10];
    let mut cx = Context::from_waker(Waker::noop());
    let mut sent_at_once = 0;
    while let Poll::Ready(sent) = stream.poll_send(&mut cx, &[IoSlice::new(&data)]) {
        sent_at_once += sent.unwrap();
        assert!(sent_at_once < 10 << 20);
    }
    assert_eq!(sent_at_once, 32 << 10);
}
