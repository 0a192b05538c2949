//! Who a connection speaks for: SASL/PLAIN in both of its wire forms, refusals, and what is sent
//! along with credentials.

use crate::bench::{Bench, FOREIGN_TOKEN, TENANT, TOKEN};
use crate::client::{Client, framed};
use crate::metadata::all_topics;
use crate::produce::{produce, produced};
use bytes::Bytes;
use felix_core::limits::{AUTHENTICATION_FAILURE_DELAY, REFUSED_PARTING_MAX};
use felix_kafka::{Ending, Pulse, Refused, serve_watched};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, MetadataResponse, ProduceResponse,
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;
use std::rc::Rc;

const HANDSHAKE: ApiKey = ApiKey::SaslHandshake;
const AUTHENTICATE: ApiKey = ApiKey::SaslAuthenticate;

fn plain(tenant: &str, token: &str) -> Vec<u8> {
    format!("\0{tenant}\0{token}").into_bytes()
}

fn mechanism(name: &'static str) -> SaslHandshakeRequest {
    SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(name))
}

fn message(bytes: Vec<u8>) -> SaslAuthenticateRequest {
    SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(bytes))
}

/// Agrees on PLAIN at this version of SaslHandshake.
fn shake(bench: &mut Bench, client: &mut Client, version: i16) {
    let id = client.send(HANDSHAKE, version, &mechanism("PLAIN"));
    bench.turn();
    let answer: SaslHandshakeResponse = client.answer(HANDSHAKE, version, id);
    assert_eq!(
        (answer.error_code, &answer.mechanisms[..]),
        (0, &["PLAIN".into()][..])
    );
}

/// Sends credentials at this version of SaslAuthenticate; the answer at once.
fn authenticate(
    bench: &mut Bench,
    client: &mut Client,
    version: i16,
    bytes: Vec<u8>,
) -> SaslAuthenticateResponse {
    let id = client.send(AUTHENTICATE, version, &message(bytes));
    bench.turn();
    client.answer(AUTHENTICATE, version, id)
}

/// The names of the topics that the connection may know of.
fn topics(bench: &mut Bench, client: &mut Client) -> Vec<String> {
    let id = client.send(ApiKey::Metadata, 9, &all_topics());
    bench.turn();
    let answer: MetadataResponse = client.answer(ApiKey::Metadata, 9, id);
    let names = answer.topics.into_iter().filter_map(|topic| topic.name);
    names.map(|name| name.to_string()).collect()
}

#[test]
fn credentials_are_taken_at_every_version_and_their_tenants_topics_are_seen() {
    for version in 0..=2 {
        for (tenant, token, expected) in [
            (TENANT, TOKEN, "default.clicks"),
            ("other", FOREIGN_TOKEN, "default.foreign"),
        ] {
            let mut bench = Bench::with_anonymous(false);
            let mut client = bench.connect();
            assert_eq!(topics(&mut bench, &mut client), [""; 0]);
            shake(&mut bench, &mut client, 1);
            let answer = authenticate(&mut bench, &mut client, version, plain(tenant, token));
            assert_eq!((answer.error_code, answer.error_message), (0, None));
            assert_eq!(
                (answer.session_lifetime_ms, answer.auth_bytes.len()),
                (0, 0)
            );
            assert!(topics(&mut bench, &mut client).contains(&expected.to_owned()));
            assert_eq!(bench.context.metrics.authenticated.value(), 1);
        }
    }
}

#[test]
fn after_the_first_handshake_tokens_come_without_headers() {
    let mut bench = Bench::with_anonymous(false);
    let mut client = bench.connect();
    shake(&mut bench, &mut client, 0);
    client.peer.trickle(1);
    client.peer.send(&framed(&plain(TENANT, TOKEN)));
    bench.turn();
    assert_eq!(
        client.take().unwrap(),
        "",
        "four bytes: a length of nothing"
    );
    assert!(topics(&mut bench, &mut client).contains(&"default.clicks".to_owned()));
}

#[test]
fn refused_credentials_are_answered_with_the_cause_and_then_the_connection_ends() {
    for (bytes, cause) in [
        (plain(TENANT, "nonsense"), "the token is not known here"),
        (plain("other", TOKEN), "wrong tenant"),
        (
            plain("a b", TOKEN),
            "the username is to be the tenant's name",
        ),
        (plain(TENANT, ""), "token of 1 to"),
        (b"no message".to_vec(), "the PLAIN message is not"),
        (vec![0, 0xff, 0, 1], "not UTF-8"),
        (
            format!("x\0{TENANT}\0{TOKEN}").into_bytes(),
            "authorization identity",
        ),
    ] {
        for version in 0..=2 {
            let mut bench = Bench::with_anonymous(false);
            let mut client = bench.connect();
            shake(&mut bench, &mut client, 1);
            let id = client.send(AUTHENTICATE, version, &message(bytes.clone()));
            bench.turn();
            bench.wait(AUTHENTICATION_FAILURE_DELAY / 2);
            assert!(client.is_unanswered() && !client.peer.is_closed());
            bench.wait(AUTHENTICATION_FAILURE_DELAY / 2);
            let answer: SaslAuthenticateResponse = client.answer(AUTHENTICATE, version, id);
            assert_eq!(answer.error_code, 58);
            let sentence = answer.error_message.unwrap();
            let expected = format!("Felix: token rejected: {cause}");
            assert!(
                sentence.starts_with("Felix: token rejected: ") && sentence.contains(cause),
                "{sentence} is not {expected}"
            );
            assert!(!client.peer.is_closed(), "the answer comes alone");
            bench.wait(REFUSED_PARTING_MAX);
            assert!(client.peer.is_closed());
            assert_eq!(bench.served(), 0);
            assert_eq!(bench.context.metrics.refused(Refused::Authentication), 1);
            assert_eq!(bench.context.metrics.authenticated.value(), 0);
        }
    }
}

/// What a refused peer does with the answer.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    Closes,
    Vanishes,
    SendsOn,
    Waits,
}

#[test]
fn a_refused_peer_is_waited_for_until_it_closes_or_sends_on_and_never_for_long() {
    let refusals = [
        (Refusal::Closes, true),
        (Refusal::Vanishes, true),
        (Refusal::SendsOn, true),
        (Refusal::Waits, false),
    ];
    for (does, ends_at_once) in refusals {
        let mut bench = Bench::with_anonymous(false);
        let mut client = bench.connect();
        shake(&mut bench, &mut client, 1);
        let id = client.send(AUTHENTICATE, 2, &message(plain(TENANT, "nonsense")));
        bench.turn();
        bench.wait(AUTHENTICATION_FAILURE_DELAY);
        let answer: SaslAuthenticateResponse = client.answer(AUTHENTICATE, 2, id);
        assert_eq!(answer.error_code, 58);
        assert_eq!(bench.served(), 1, "it has its place within the limits");
        match does {
            Refusal::Closes => client.peer.end(),
            Refusal::Vanishes => client.peer.vanish(),
            Refusal::SendsOn => client.peer.send(&[0; 100_000]),
            Refusal::Waits => {}
        }
        bench.turn();
        assert_eq!(client.peer.is_closed(), ends_at_once, "{does:?}");
        if let Refusal::SendsOn = does {
            assert!(client.peer.taken_by_broker() < 1000, "none of it is read");
        }
        bench.wait(REFUSED_PARTING_MAX / 2);
        assert_eq!(client.peer.is_closed(), ends_at_once, "{does:?}");
        bench.wait(REFUSED_PARTING_MAX / 2);
        assert!(client.peer.is_closed(), "{does:?}");
        assert_eq!(bench.served(), 0);
        assert!(client.is_unanswered());
    }
}

#[test]
fn a_refused_token_without_a_header_ends_the_connection_and_not_a_byte_is_said() {
    let mut bench = Bench::with_anonymous(false);
    let mut client = bench.connect();
    shake(&mut bench, &mut client, 0);
    client.peer.send(&framed(&plain(TENANT, "nonsense")));
    bench.turn();
    assert!(!client.peer.is_closed(), "guessing takes time");
    // Others do not wait for it.
    let mut other = bench.connect();
    shake(&mut bench, &mut other, 1);
    let answer = authenticate(&mut bench, &mut other, 2, plain(TENANT, TOKEN));
    assert_eq!(answer.error_code, 0);
    bench.wait(AUTHENTICATION_FAILURE_DELAY);
    assert!(client.is_unanswered() && client.peer.is_closed());
    assert_eq!(bench.context.metrics.refused(Refused::Authentication), 1);
}

#[test]
fn what_is_sent_behind_good_credentials_is_served_and_behind_bad_ones_it_is_not() {
    for (token, served) in [(TOKEN, true), ("nonsense", false)] {
        for raw in [false, true] {
            let mut bench = Bench::with_anonymous(false);
            let mut client = bench.connect();
            let (shaken, mut bytes) =
                client.encode(HANDSHAKE, i16::from(!raw), &mechanism("PLAIN"));
            let (shown, credentials) =
                client.encode(AUTHENTICATE, 2, &message(plain(TENANT, token)));
            if raw {
                bytes.extend(framed(&plain(TENANT, token)));
            } else {
                bytes.extend(credentials);
            }
            // More than a peer may send that nobody knows.
            let value = "x".repeat(100 << 10);
            let request = produce("default.clicks", 0, &[&value], -1);
            let (written, more) = client.encode(ApiKey::Produce, 9, &request);
            bytes.extend(more);
            client.peer.send(&bytes);
            bench.turn();
            bench.wait(AUTHENTICATION_FAILURE_DELAY);
            bench.wait(REFUSED_PARTING_MAX);
            let _: SaslHandshakeResponse = client.answer(HANDSHAKE, i16::from(!raw), shaken);
            if raw && served {
                assert_eq!(client.take().unwrap(), "");
            } else if !raw {
                let answer: SaslAuthenticateResponse = client.answer(AUTHENTICATE, 2, shown);
                assert_eq!(answer.error_code, if served { 0 } else { 58 });
            }
            if served {
                let answer: ProduceResponse = client.answer(ApiKey::Produce, 9, written);
                assert_eq!(produced(&answer).error_code, 0);
            }
            assert!(client.is_unanswered());
            assert_eq!(bench.requests("Produce"), f64::from(u8::from(served)));
            assert_eq!(client.peer.is_closed(), !served);
        }
    }
}

#[test]
fn another_mechanism_is_refused_with_the_list_and_the_connection_ends() {
    for version in 0..=1 {
        let mut bench = Bench::new();
        let mut client = bench.connect();
        let id = client.send(HANDSHAKE, version, &mechanism("SCRAM-SHA-256"));
        bench.turn();
        let answer: SaslHandshakeResponse = client.answer(HANDSHAKE, version, id);
        assert_eq!(
            (answer.error_code, &answer.mechanisms[..]),
            (33, &["PLAIN".into()][..])
        );
        bench.wait(REFUSED_PARTING_MAX);
        assert!(client.peer.is_closed());
        assert_eq!(bench.context.metrics.refused(Refused::Authentication), 1);
    }
}

#[test]
fn what_comes_in_the_wrong_order_is_refused_and_the_connection_ends() {
    // Credentials before anything was agreed on, with an anonymous tenant and without.
    for anonymous in [false, true] {
        let mut bench = Bench::with_anonymous(anonymous);
        let mut client = bench.connect();
        let answer = authenticate(&mut bench, &mut client, 2, plain(TENANT, TOKEN));
        assert_eq!(answer.error_code, 34);
        let sentence = answer.error_message.unwrap();
        assert!(sentence.contains("without SaslHandshake"), "{sentence}");
        bench.wait(REFUSED_PARTING_MAX);
        assert!(client.peer.is_closed());
    }
    // A handshake behind another.
    let mut bench = Bench::with_anonymous(false);
    let mut client = bench.connect();
    shake(&mut bench, &mut client, 1);
    let id = client.send(HANDSHAKE, 1, &mechanism("PLAIN"));
    bench.turn();
    let answer: SaslHandshakeResponse = client.answer(HANDSHAKE, 1, id);
    assert_eq!(answer.error_code, 34);
    bench.wait(REFUSED_PARTING_MAX);
    assert!(client.peer.is_closed());
    assert_eq!(bench.context.metrics.refused(Refused::Authentication), 1);
}

#[test]
fn versions_may_be_asked_for_between_the_steps() {
    let mut bench = Bench::with_anonymous(false);
    let mut client = bench.connect();
    shake(&mut bench, &mut client, 1);
    let id = client.send(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default());
    bench.turn();
    let versions: ApiVersionsResponse = client.answer(ApiKey::ApiVersions, 0, id);
    assert_eq!(versions.error_code, 0);
    let answer = authenticate(&mut bench, &mut client, 1, plain(TENANT, TOKEN));
    assert_eq!(answer.error_code, 0);
}

#[test]
fn authenticating_again_is_refused_readably_and_the_connection_goes_on_as_it_was() {
    let mut bench = Bench::with_anonymous(false);
    let mut client = bench.connect();
    shake(&mut bench, &mut client, 1);
    let answer = authenticate(&mut bench, &mut client, 2, plain(TENANT, TOKEN));
    assert_eq!(answer.error_code, 0);

    let id = client.send(HANDSHAKE, 1, &mechanism("PLAIN"));
    bench.turn();
    let answer: SaslHandshakeResponse = client.answer(HANDSHAKE, 1, id);
    assert_eq!(answer.error_code, 34);
    let answer = authenticate(&mut bench, &mut client, 2, plain("other", FOREIGN_TOKEN));
    assert_eq!(answer.error_code, 34);
    let sentence = answer.error_message.unwrap();
    assert!(sentence.contains("open a new connection"), "{sentence}");

    let seen = topics(&mut bench, &mut client);
    assert!(seen.contains(&"default.clicks".to_owned()), "{seen:?}");
}

#[test]
fn who_begins_sasl_loses_the_anonymous_tenant_and_failing_gives_nothing_back() {
    let mut bench = Bench::new();
    let mut client = bench.connect();
    assert!(!topics(&mut bench, &mut client).is_empty());
    shake(&mut bench, &mut client, 1);
    assert_eq!(topics(&mut bench, &mut client), [""; 0]);
    let id = client.send(
        ApiKey::Produce,
        9,
        &produce("default.clicks", 0, &["a"], -1),
    );
    bench.turn();
    let answer: ProduceResponse = client.answer(ApiKey::Produce, 9, id);
    assert_eq!(produced(&answer).error_code, 29);

    // Large requests are not taken any more either.
    client.peer.send(&i32::to_be_bytes((64 << 10) + 1));
    bench.turn();
    assert!(client.peer.is_closed());
    let metrics = &bench.context.metrics;
    assert_eq!(metrics.refused(Refused::UnauthenticatedFrameSize), 1);

    // Its own tenant is another one.
    let mut client = bench.connect();
    shake(&mut bench, &mut client, 1);
    let answer = authenticate(&mut bench, &mut client, 2, plain("other", FOREIGN_TOKEN));
    assert_eq!(answer.error_code, 0);
    assert_eq!(topics(&mut bench, &mut client), ["default.foreign"]);
}

#[test]
fn a_connection_shows_since_when_it_speaks_for_nobody() {
    let mut bench = Bench::new();
    let pulse: Rc<Pulse> = Rc::default();
    let shown = Rc::clone(&pulse);
    let mut client = bench.connect_with(|context, stream, peer| {
        Box::pin(async move { drop(serve_watched(context, stream, peer, shown).await) })
    });
    assert_eq!(
        pulse.unauthenticated_since(),
        None,
        "there is an anonymous tenant"
    );
    bench.wait(AUTHENTICATION_FAILURE_DELAY);
    shake(&mut bench, &mut client, 1);
    let now = felix_core::Clock::monotonic(&*bench.clock);
    assert_eq!(pulse.unauthenticated_since(), Some(now));
    bench.wait(AUTHENTICATION_FAILURE_DELAY);
    let answer = authenticate(&mut bench, &mut client, 2, plain(TENANT, TOKEN));
    assert_eq!(answer.error_code, 0);
    assert_eq!(pulse.unauthenticated_since(), None);
}

#[test]
fn who_takes_too_long_is_gone_at_once_whatever_it_owes_or_is_owed() {
    let mut bench = Bench::with_anonymous(false);
    let pulse: Rc<Pulse> = Rc::default();
    let shown = Rc::clone(&pulse);
    let mut client = bench.connect_with(|context, stream, peer| {
        Box::pin(async move { drop(serve_watched(context, stream, peer, shown).await) })
    });
    client.peer.take_only(0);
    client.send(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default());
    bench.turn();
    pulse.end(Ending::Unauthenticated);
    bench.turn();
    assert!(client.peer.is_dropped());
    assert_eq!(bench.served(), 0);
}
