//! Who a client speaks for: tokens by SASL/PLAIN, with real clients of each family, and peers that
//! would rather not say.

use felix_tests::{
    Broker, Finished, Stream, Token, eventually, java, kcat, python, wall_ms, within,
};
use felix_tests::{wire::Wire, wire::expect_end};
use kafka_protocol::messages::{
    ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use kafka_protocol::protocol::StrBytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const TOPIC: &str = "orders.created";
const OTHER: &str = "audit.log";
const CLIENT_TIMEOUT: Duration = Duration::from_secs(120);

fn streams() -> [Stream; 3] {
    [
        Stream::new(TOPIC, 1).of("t1"),
        Stream::new(OTHER, 1).of("t1"),
        Stream::new(TOPIC, 1).of("t2"),
    ]
}

/// A broker that knows these tokens.
fn broker(tokens: &[&Token], settings: &[(&'static str, &'static str)]) -> Broker {
    Broker::start_with_tokens(&streams(), &Token::file(tokens), settings)
}

fn refused(broker: &Broker, reason: &str) -> f64 {
    let name = format!("felix_kafka_refused_total{{reason=\"{reason}\"}}");
    broker.metric(&name)
}

/// Runs kcat with a token.
fn with_kcat(broker: &Broker, token: &Token, args: &[&str], input: Option<&str>) -> Finished {
    let flags = token.of_kcat();
    let mut all: Vec<&str> = flags.iter().map(String::as_str).collect();
    all.extend(args);
    kcat::run(&broker.bootstrap(), &all, input.map(Into::into))
}

#[test]
fn tenants_share_a_topic_name_and_nothing_else() {
    let (one, two) = (Token::new("t1", "one"), Token::new("t2", "two"));
    let broker = broker(&[&one, &two], &[]);
    for (token, value) in [(&one, "of t1\n"), (&two, "of t2\n")] {
        let wrote = with_kcat(&broker, token, &["-P", "-t", TOPIC, "-p", "0"], Some(value));
        drop(wrote.ok());
    }
    for (token, value, sees_other) in [(&one, "of t1\n", true), (&two, "of t2\n", false)] {
        let read = ["-C", "-t", TOPIC, "-o", "beginning", "-e", "-q"];
        assert_eq!(with_kcat(&broker, token, &read, None).ok().text(), value);
        let listing = with_kcat(&broker, token, &["-L"], None).ok().text();
        assert!(listing.contains(TOPIC), "{listing}");
        assert_eq!(listing.contains(OTHER), sees_other, "{listing}");
    }
    let authenticated = broker.metric("felix_kafka_authenticated_total");
    assert!(authenticated >= 6.0, "{authenticated}");
}

#[test]
fn a_topic_is_seen_by_who_may_read_or_write_it_and_does_what_it_may() {
    let reader = Token::new("t1", "reader").permitted("[\"stream.subscribe:orders\"]");
    let writer = Token::new("t1", "writer").permitted("[\"stream.publish:orders.created\"]");
    let broker = broker(&[&reader, &writer], &[]);
    let produce = ["-P", "-t", TOPIC, "-p", "0"];
    let consume = ["-C", "-t", TOPIC, "-o", "beginning", "-e", "-q"];
    for token in [&reader, &writer] {
        let listing = with_kcat(&broker, token, &["-L"], None).ok().text();
        assert!(
            listing.contains(TOPIC) && !listing.contains(OTHER),
            "{listing}"
        );
    }
    drop(with_kcat(&broker, &writer, &produce, Some("one\n")).ok());
    let denied = with_kcat(&broker, &reader, &produce, Some("two\n"));
    assert!(
        !denied.status.success() && denied.stderr.contains("authorization failed"),
        "{denied:?}"
    );
    let denied = with_kcat(&broker, &writer, &consume, None);
    assert!(denied.stderr.contains("authorization failed"), "{denied:?}");
    assert_eq!(
        with_kcat(&broker, &reader, &consume, None).ok().text(),
        "one\n"
    );
}

/// Has a program write a value, and read it back: tenant, token, topic, value.
type Client = Box<dyn Fn(&Broker, &str, &str, &str) -> Finished>;

fn clients() -> [(&'static str, Client); 2] {
    let program = java::Program::compile("Authenticated");
    let java: Client = Box::new(move |broker, tenant, token, value| {
        let args = [&*broker.bootstrap(), tenant, token, TOPIC, value];
        program.start(&args).finish(CLIENT_TIMEOUT)
    });
    let confluent: Client = Box::new(|broker, tenant, token, value| {
        let args = [&*broker.bootstrap(), tenant, token, TOPIC, value];
        python::start("authenticated.py", &args, None).finish(CLIENT_TIMEOUT)
    });
    [("Java", java), ("confluent-kafka", confluent)]
}

#[test]
fn clients_of_each_family_are_let_in_or_told_why_not() {
    let good = Token::new("t1", "good");
    let expired = Token::new("t1", "expired").expiring("2020-01-01T00:00:00Z");
    let reader = Token::new("t1", "reader").permitted("[\"stream.subscribe\"]");
    let unknown = Token::new("t1", "unknown");
    let broker = broker(&[&good, &expired, &reader], &[]);
    for (name, client) in clients() {
        let wrote = client(&broker, "t1", &good.text, name).ok().text();
        assert_eq!(wrote.lines().last(), Some(name));
        for (tenant, token, words) in [
            (
                "t1",
                &*unknown.text,
                "Felix: token rejected: the token is not known here",
            ),
            (
                "t1",
                "secret",
                "Felix: token rejected: the password is no Felix token",
            ),
            ("t2", &*good.text, "Felix: token rejected: wrong tenant"),
            (
                "t1",
                &*expired.text,
                "Felix: token rejected: the token has expired",
            ),
            ("t1", &*reader.text, "authoriz"),
        ] {
            let outcome = client(&broker, tenant, token, "never");
            assert!(!outcome.status.success(), "{name}: {outcome:?}");
            let told = format!("{}{}", outcome.text(), outcome.stderr);
            assert!(told.contains(words), "{name}: {told}");
        }
    }
    let last = with_kcat(
        &broker,
        &good,
        &["-C", "-t", TOPIC, "-o", "beginning", "-e", "-q"],
        None,
    );
    assert!(!last.ok().text().contains("never"));
}

#[test]
fn kcat_prints_why_a_token_is_refused_and_the_log_never_has_it() {
    let good = Token::new("t1", "good");
    let mut broker = broker(&[&good], &[]);
    let mut wrong = Token::new("t1", "wrong");
    let refused_token = wrong.text.clone();
    let outcome = with_kcat(&broker, &wrong, &["-L", "-m", "5"], None);
    let words = "Felix: token rejected: the token is not known here";
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    wrong.tenant = "t2";
    wrong.text = good.text.clone();
    let outcome = with_kcat(&broker, &wrong, &["-L", "-m", "5"], None);
    assert!(
        outcome.stderr.contains("wrong tenant"),
        "{}",
        outcome.stderr
    );
    let log = broker.logged(|log| log.contains("wrong tenant"));
    assert!(
        log.contains("refused to authenticate a Kafka client"),
        "{log}"
    );
    for secret in [&good.text, &refused_token] {
        assert!(!log.contains(&**secret), "a token is in the log");
    }
    assert!(refused(&broker, "authentication") >= 2.0);
}

fn handshake() -> SaslHandshakeRequest {
    SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"))
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a message is small");
    [&length.to_be_bytes(), message].concat()
}

#[test]
fn tokens_without_headers_are_taken_as_old_clients_send_them() {
    let token = Token::new("t1", "old");
    let broker = broker(&[&token], &[]);
    let mut wire = Wire::connect(broker.port());
    wire.send(&handshake(), 0).unwrap();
    assert_eq!(wire.receive::<SaslHandshakeRequest>(0).error_code, 0);
    wire.socket().write_all(&framed(&token.plain())).unwrap();
    let mut nothing = [9; 4];
    wire.socket().read_exact(&mut nothing).unwrap();
    assert_eq!(nothing, [0; 4]);
    assert_eq!(wire.produce(TOPIC, 0, b"old"), (0, 0));

    let mut wire = Wire::connect(broker.port());
    wire.send(&handshake(), 0).unwrap();
    assert_eq!(wire.receive::<SaslHandshakeRequest>(0).error_code, 0);
    wire.socket()
        .write_all(&framed(b"\0t1\0felix_guess"))
        .unwrap();
    expect_end(wire.socket());
}

#[test]
fn what_comes_along_with_credentials_waits_for_them() {
    let token = Token::new("t1", "fast");
    let broker = broker(&[&token], &[]);
    for (message, is_good) in [(token.plain(), true), (b"\0t1\0nonsense".to_vec(), false)] {
        let mut wire = Wire::connect(broker.port());
        let shown = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
        let metadata = MetadataRequest::default().with_topics(None);
        let mut all = wire.frame(&handshake(), 1);
        all.extend(wire.frame(&shown, 2));
        all.extend(wire.frame(&metadata, 9));
        wire.socket().write_all(&all).unwrap();
        assert_eq!(wire.receive::<SaslHandshakeRequest>(1).error_code, 0);
        let answer = wire.receive::<SaslAuthenticateRequest>(2);
        assert_eq!(
            (answer.error_code, answer.session_lifetime_ms),
            (if is_good { 0 } else { 58 }, 0)
        );
        if is_good {
            assert_eq!(wire.receive::<MetadataRequest>(9).topics.len(), 2);
        } else {
            expect_end(wire.socket());
        }
    }
}

#[test]
fn a_refused_peer_hears_why_and_then_the_end_and_one_that_never_closes_is_let_go() {
    let token = Token::new("t1", "known");
    let stranger = Token::new("t1", "stranger");
    // The one place is for a peer that stays in it.
    let broker = broker(&[&token], &[("FELIX_KAFKA_MAX_CONNECTIONS", "1")]);
    let mut refused_peer = Wire::connect(broker.port());
    assert_eq!(refused_peer.authenticate(&stranger).error_code, 58);
    expect_end(refused_peer.socket());
    eventually("another is let in", || {
        let mut next = Wire::connect(broker.port());
        let asked = next.frame(&ApiVersionsRequest::default(), 0);
        // Whoever is not let in gets an end, or a reset, for an answer.
        let sent = next.socket().write_all(&asked);
        sent.and_then(|()| next.socket().read_exact(&mut [0; 4]))
            .is_ok()
    });
    drop(refused_peer);
}

#[test]
fn who_does_not_authenticate_in_time_is_closed_and_who_has_is_not() {
    let token = Token::new("t1", "slow");
    let timeout = [("FELIX_KAFKA_AUTH_TIMEOUT_MS", "700")];
    let mut broker = broker(&[&token], &timeout);
    let mut authenticated = Wire::authenticated(broker.port(), &token);
    let begun = wall_ms();
    let _silent = TcpStream::connect(("127.0.0.1", broker.port())).unwrap();
    // One that drips a request, and one that asks for versions again and again.
    let mut drips = Wire::connect(broker.port());
    let dripped = drips.frame(&handshake(), 1);
    let mut drops = dripped[..dripped.len() - 1].iter();
    let mut asks = Wire::connect(broker.port());
    eventually("all three are closed", || {
        // Once closed they take nothing more.
        if let Some(drop_now) = drops.next() {
            drop(drips.socket().write_all(&[*drop_now]));
        }
        drop(asks.send(&ApiVersionsRequest::default(), 0));
        refused(&broker, "auth_timeout") >= 3.0
    });
    let took = wall_ms() - begun;
    assert!(took >= 600, "{took} ms");
    let log = broker.logged(|log| log.contains("FELIX_KAFKA_AUTH_TIMEOUT_MS"));
    assert!(log.contains("has not authenticated in time"), "{log}");
    assert_eq!(authenticated.produce(TOPIC, 0, b"still here").0, 0);
}

#[test]
fn requests_are_small_until_who_sends_them_is_known() {
    let token = Token::new("t1", "large");
    let broker = broker(&[&token], &[]);
    let peer = TcpStream::connect(("127.0.0.1", broker.port())).unwrap();
    (&peer)
        .write_all(&((64_u32 << 10) + 1).to_be_bytes())
        .unwrap();
    expect_end(&peer);
    assert!(refused(&broker, "unauthenticated_frame_size") >= 1.0);

    let mut wire = Wire::authenticated(broker.port(), &token);
    assert_eq!(wire.produce(TOPIC, 0, &vec![b'x'; 1 << 20]).0, 0);
    wire.socket()
        .write_all(&((8_u32 << 20) + 1).to_be_bytes())
        .unwrap();
    expect_end(wire.socket());
    assert!(refused(&broker, "frame_size") >= 1.0);
}

/// As many files as this process may ever have open.
fn raise_files_max() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("its own limit may be raised to the hard one");
}

#[test]
fn thousands_that_nobody_knows_fill_the_cap_and_hold_up_nobody_until_their_time_is_over() {
    const CAP: usize = 2000;
    raise_files_max();
    let token = Token::new("t1", "known");
    let settings = [
        ("FELIX_KAFKA_MAX_CONNECTIONS", "2000"),
        ("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0"),
        ("FELIX_KAFKA_AUTH_TIMEOUT_MS", "20000"),
    ];
    let broker = broker(&[&token], &settings);
    let mut known = Wire::authenticated(broker.port(), &token);
    let connect = || TcpStream::connect(("127.0.0.1", broker.port())).unwrap();
    let crowd: Vec<TcpStream> = (1..CAP).map(|_| connect()).collect();
    eventually("the cap is reached", || {
        broker.metric("felix_kafka_connections") >= CAP as f64
    });
    // Each says something, and one more is not let in.
    for mut peer in &crowd {
        peer.write_all(&[0, 0]).unwrap();
    }
    expect_end(&connect());
    assert!(refused(&broker, "connection_limit") >= 1.0);
    for round in 0..100 {
        let value = format!("round {round}");
        let wrote = within(Duration::from_secs(5), || {
            known.produce(TOPIC, 0, value.as_bytes())
        });
        assert_eq!(wrote.0, 0);
    }
    eventually("the time of all of them is over", || {
        refused(&broker, "auth_timeout") >= crowd.len() as f64
    });
    assert_eq!(known.produce(TOPIC, 0, b"after").0, 0);
    let mut next = Wire::authenticated(broker.port(), &token);
    assert_eq!(next.produce(TOPIC, 0, b"room again").0, 0);
}

/// A producer that writes until it is told to stop; what it wrote.
fn load(port: u16, token: Token, stop: Arc<AtomicBool>) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let mut wire = Wire::authenticated(port, &token);
        let mut wrote = 0;
        while !stop.load(Ordering::Relaxed) {
            let (error, _) = wire.produce(TOPIC, 0, b"under load");
            assert_eq!(error, 0, "after {wrote}");
            wrote += 1;
        }
        wrote
    })
}

#[test]
fn tokens_change_under_load_and_no_connection_is_dropped() {
    let (old, new) = (Token::new("t1", "old"), Token::new("t1", "new"));
    let mut broker = broker(&[&old], &[]);
    let port = broker.port();
    let stop = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = (0..3)
        .map(|_| load(port, old.clone(), Arc::clone(&stop)))
        .collect();
    let mut live = Wire::authenticated(port, &old);
    let is_taken = |token: &Token| Wire::connect(port).authenticate(token).error_code == 0;
    assert!(!is_taken(&new));

    // By itself, on every core: whichever takes the connection.
    broker.set_tokens(&Token::file(&[&new]));
    eventually("the change is seen", || is_taken(&new));
    for _ in 0..8 {
        eventually("on every core", || is_taken(&new));
        assert!(!is_taken(&old), "it was revoked");
    }
    assert_eq!(live.produce(TOPIC, 0, b"revoked and alive").0, 0);

    // A bad file changes nothing.
    broker.set_tokens("[[token]]\ntenant = \"t1\"\nsecret = 1\n");
    let failures = "felix_reload_failures_total{subject=\"tokens\"}";
    eventually("it is refused", || broker.metric(failures) >= 1.0);
    assert!(is_taken(&new));
    let log = broker.logged(|log| log.contains("could not be read anew"));
    assert!(
        log.contains("line 3") && log.contains("unknown field"),
        "{log}"
    );

    // Once more, by SIGHUP.
    let reloads = "felix_reloads_total{subject=\"tokens\"}";
    let before = broker.metric(reloads);
    broker.set_tokens(&Token::file(&[&old, &new]));
    broker.hang_up();
    eventually("it is read", || broker.metric(reloads) > before);
    eventually("and in force", || is_taken(&old) && is_taken(&new));

    stop.store(true, Ordering::Relaxed);
    let wrote: u64 = loads.into_iter().map(|load| load.join().unwrap()).sum();
    assert!(wrote > 0);
    let stored = live.produce(TOPIC, 0, b"last").1;
    assert_eq!(
        stored,
        i64::try_from(wrote).unwrap() + 1,
        "each once, and the one before"
    );
}

#[test]
fn beside_an_anonymous_tenant_who_shows_a_token_is_its_tenant_and_no_other() {
    let two = Token::new("t2", "two");
    let anonymous = [("FELIX_KAFKA_ANONYMOUS_TENANT", "t1")];
    let broker = broker(&[&two], &anonymous);
    let listing = kcat::output(&broker.bootstrap(), &["-L"]);
    assert!(listing.contains(OTHER), "{listing}");
    let listing = with_kcat(&broker, &two, &["-L"], None).ok().text();
    assert!(
        listing.contains(TOPIC) && !listing.contains(OTHER),
        "{listing}"
    );
    let mut wire = Wire::connect(broker.port());
    assert_eq!(wire.metadata().topics.len(), 2);
    wire.shake_hands();
    assert_eq!(wire.metadata().topics.len(), 0);
}
