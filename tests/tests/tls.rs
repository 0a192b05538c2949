//! TLS as clients meet it: real ones, right and wrong certificates, and certificates that change
//! under them.

use felix_tests::{
    Authority, Broker, Identity, Stream, Token, eventually, java, kcat, python, wire,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const TOPIC: &str = "default.clicks";
const EXPORTED: &str = "exported.pem";
const AUTH_TIMEOUTS: &str = "felix_kafka_refused_total{reason=\"auth_timeout\"}";

/// A setting that is a path of this run.
fn path(path: &Path) -> &'static str {
    path.display().to_string().leak()
}

fn start(settings: &[(&'static str, &'static str)]) -> Broker {
    let tls = [
        ("FELIX_KAFKA_TLS", "true"),
        ("FELIX_TLS_CERT_EXPORT", EXPORTED),
    ];
    Broker::start_with(&[Stream::new(TOPIC, 2)], &[&tls[..], settings].concat())
}

/// Settings with a certificate of an authority.
fn with(own: &Identity) -> [(&'static str, &'static str); 2] {
    [
        ("FELIX_TLS_CERT", path(&own.certificate)),
        ("FELIX_TLS_KEY", path(&own.key)),
    ]
}

/// What a client over librdkafka needs to trust a certificate.
fn trust(authority: &Path) -> Vec<String> {
    vec![
        "security.protocol=ssl".to_owned(),
        format!("ssl.ca.location={}", authority.display()),
    ]
}

/// What it needs to show one.
fn show(own: &Identity) -> Vec<String> {
    vec![
        format!("ssl.certificate.location={}", own.certificate.display()),
        format!("ssl.key.location={}", own.key.display()),
    ]
}

fn kcat_args<'a>(args: &[&'a str], properties: &'a [String]) -> Vec<&'a str> {
    let properties = properties
        .iter()
        .flat_map(|property| ["-X", property.as_str()]);
    args.iter().copied().chain(properties).collect()
}

/// Whether kcat gets a listing, and what it says if not.
fn listing(broker: &Broker, properties: &[String]) -> Result<String, String> {
    let args = kcat_args(&["-L", "-m", "5"], properties);
    let finished = kcat::run(&broker.bootstrap(), &args, None);
    if finished.status.success() {
        Ok(finished.text())
    } else {
        Err(finished.stderr)
    }
}

/// What `openssl s_client` prints of a connection that it ends at once.
fn s_client(broker: &Broker, args: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &broker.bootstrap()])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("openssl is there");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// The serial number of the certificate that new connections see.
fn serial(broker: &Broker) -> String {
    let shown = s_client(broker, &["-showcerts"]);
    let (_, rest) = shown
        .split_once("-----BEGIN CERTIFICATE-----")
        .unwrap_or_else(|| panic!("no certificate in {shown}"));
    let (body, _) = rest.split_once("-----END CERTIFICATE-----").expect("whole");
    body.to_owned()
}

fn failed(broker: &Broker, reason: &str) -> f64 {
    let labelled = format!("felix_tls_handshake_failures_total{{reason=\"{reason}\"}} ");
    let metrics = broker.metrics();
    let line = metrics
        .page()
        .lines()
        .find_map(|line| line.strip_prefix(&labelled));
    line.and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {labelled} in {}", metrics.page()))
}

/// Apache Kafka's own client writes for a while.
fn java_writes(args: &[&str]) {
    let again = java::Program::compile("Again");
    let mut writing = again.start(args);
    eventually("Java writes", || {
        String::from_utf8_lossy(writing.stdout()).lines().count() >= 100
    });
    writing.signal(felix_tests::SIGTERM);
    drop(writing.finish(Duration::from_secs(60)).ok());
}

#[test]
fn clients_of_librdkafka_and_java_trust_the_own_certificate_and_a_restart_keeps_it() {
    let mut broker = start(&[]);
    let exported = broker.home().join(EXPORTED);
    let properties = trust(&exported);
    // Records of up to 900,000 bytes, so that answers and requests take many TLS records.
    let value = |number: usize| format!("{number}:{}", "abcdefghi".repeat(number * 1100));
    let lines: Vec<String> = (0..90).map(value).collect();
    let text = lines.join("\n") + "\n";
    let produce = kcat_args(&["-P", "-t", TOPIC, "-p", "0"], &properties);
    drop(kcat::run(&broker.bootstrap(), &produce, Some(text.clone().into())).ok());
    let input: String = lines.iter().map(|line| format!("\t{line}\n")).collect();
    let python: Vec<&str> = properties.iter().map(String::as_str).collect();
    let bootstrap = broker.bootstrap();
    let args = [
        &[bootstrap.as_str(), TOPIC][..],
        &python,
        &["partitioner=random"],
    ]
    .concat();
    let placed = python::run("produce.py", &args, Some(input.into())).text();
    assert_eq!(placed.lines().count(), lines.len());

    broker.terminate();
    broker.start_again();
    let consume = kcat_args(
        &[
            "-C",
            "-t",
            TOPIC,
            "-p",
            "0",
            "-o",
            "beginning",
            "-c",
            "90",
            "-q",
        ],
        &properties,
    );
    let read = kcat::run(&broker.bootstrap(), &consume, None).ok().text();
    assert!(read == text, "kcat reads what it wrote");

    let trusted = format!("ssl.truststore.location={}", exported.display());
    java_writes(&[
        &bootstrap,
        "2",
        "java",
        TOPIC,
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        &trusted,
    ]);
    assert!(broker.metric("felix_tls_handshakes_total") >= 4.0);
    assert_eq!(broker.metric("felix_tls_handshake_failures_total"), 0.0);
}

#[test]
fn openssl_speaks_both_versions_and_only_what_is_allowed_and_resumes() {
    let broker = start(&[]);
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let shown = s_client(&broker, &[version]);
        assert!(shown.contains(&format!("New, {name}")), "{shown}");
    }
    for version in ["-tls1_2", "-tls1_3"] {
        let kept = broker.home().join(format!("session{version}.pem"));
        let kept = path(&kept);
        let mut first = Command::new("openssl")
            .args(["s_client", "-connect", &broker.bootstrap(), version])
            .args(["-sess_out", kept])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is there");
        // Tickets of TLS 1.3 come behind the handshake.
        eventually("a session is kept", || {
            std::fs::metadata(kept).is_ok_and(|file| file.len() > 0)
        });
        drop(first.stdin.take());
        assert!(first.wait().expect("it was started").success());
        // Whichever core takes it.
        for _ in 0..6 {
            let again = s_client(&broker, &[version, "-sess_in", kept]);
            assert!(again.contains("Reused, "), "{again}");
        }
    }
    let narrow = start(&[
        ("FELIX_TLS_MIN_VERSION", "1.3"),
        ("FELIX_TLS_CIPHER_SUITES", "TLS_CHACHA20_POLY1305_SHA256"),
    ]);
    let shown = s_client(&narrow, &["-tls1_2"]);
    assert!(shown.contains("alert protocol version"), "{shown}");
    assert_eq!(failed(&narrow, "version"), 1.0);
    let other = ["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"];
    let shown = s_client(&narrow, &other);
    assert!(shown.contains("alert handshake failure"), "{shown}");
    assert_eq!(failed(&narrow, "cipher_suite"), 1.0);
    let shown = s_client(&narrow, &["-tls1_3"]);
    assert!(shown.contains("TLS_CHACHA20_POLY1305_SHA256"), "{shown}");
}

#[test]
fn a_client_that_does_not_speak_what_the_listener_speaks_is_closed_at_once_with_a_sentence() {
    let mut broker = start(&[]);
    let mut plain = wire::Wire::connect(broker.port());
    plain
        .send(&kafka_protocol::messages::ApiVersionsRequest::default(), 0)
        .expect("it is connected");
    wire::expect_end(plain.socket());
    assert_eq!(failed(&broker, "not_tls"), 1.0);
    let log = broker.logged(|log| log.contains("speaks Kafka without TLS"));
    assert!(log.contains("set security.protocol to SSL"), "{log}");

    let mut broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let shown = s_client(&broker, &["-tls1_3"]);
    assert!(!shown.contains("BEGIN CERTIFICATE"), "{shown}");
    let log = broker.logged(|log| log.contains("TLS handshake"));
    assert!(
        log.contains("these bytes begin a TLS handshake, not Kafka"),
        "{log}"
    );
    assert_eq!(
        broker.metric("felix_kafka_refused_total{reason=\"tls\"}"),
        1.0
    );
}

#[test]
fn with_a_client_authority_only_its_certificates_come_in() {
    let authority = Authority::new("clients");
    let mut broker = start(&[("FELIX_TLS_CLIENT_CA", path(&authority.certificate()))]);
    let trusting = trust(&broker.home().join(EXPORTED));
    let known = authority.issue("alice", &["felix:principal:alice"]);
    let showing = |own: &Identity| [trusting.clone(), show(own)].concat();
    listing(&broker, &showing(&known)).unwrap();

    // Java wants key and certificate in one file.
    let both = [&known.key, &known.certificate];
    let both = both.map(|file| std::fs::read_to_string(file).expect("it is ours"));
    let keystore = broker.home().join("both.pem");
    std::fs::write(&keystore, both.concat()).expect("it is ours");
    let exported = broker.home().join(EXPORTED);
    let args = [
        &broker.bootstrap(),
        "2",
        "java",
        TOPIC,
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        &format!("ssl.truststore.location={}", exported.display()),
        "ssl.keystore.type=PEM",
        &format!("ssl.keystore.location={}", keystore.display()),
    ];
    java_writes(&args);

    let none = listing(&broker, &trusting).unwrap_err();
    assert!(none.contains("SSL"), "{none}");
    assert!(failed(&broker, "no_client_certificate") >= 1.0);
    // Of the same name, or librdkafka would not show it.
    let others = Authority::new("clients");
    let stranger = others.issue("mallory", &["felix:principal:mallory"]);
    let other = listing(&broker, &showing(&stranger)).unwrap_err();
    assert!(other.contains("SSL"), "{other}");
    assert!(failed(&broker, "client_certificate") >= 1.0);
    let log = broker.logged(|log| log.contains("does not hold against"));
    assert!(log.contains("shows no certificate"), "{log}");
}

#[test]
fn a_token_over_tls_is_taken_beside_its_subjects_certificate_and_beside_no_other() {
    const REFUSED: &str = "Felix: token rejected: the client certificate is not issued to the \
                           token's subject";
    let authority = Authority::new("clients");
    let [alice, bob] = ["alice", "bob"].map(|subject| Token::new("t1", subject));
    let settings = [
        ("FELIX_KAFKA_TLS", "true"),
        ("FELIX_TLS_CERT_EXPORT", EXPORTED),
        ("FELIX_TLS_CLIENT_CA", path(&authority.certificate())),
        ("FELIX_TLS_CLIENT_CERT_BIND_SUBJECT", "true"),
    ];
    let streams = [Stream::new(TOPIC, 2).of("t1")];
    let mut broker = Broker::start_with_tokens(&streams, &Token::file(&[&alice, &bob]), &settings);
    let own = authority.issue("alice", &["felix:principal:alice"]);
    let exported = broker.home().join(EXPORTED);
    let mut properties = [trust(&exported), show(&own)].concat();
    properties.push("security.protocol=sasl_ssl".to_owned());
    let with = |token: &Token, args: &[&str], input: Option<&str>| {
        let credentials = token.of_kcat();
        let credentials: Vec<&str> = credentials.iter().map(String::as_str).collect();
        // Of a property that is given twice the last one counts.
        let args = kcat_args(&[args, &credentials].concat(), &properties);
        kcat::run(&broker.bootstrap(), &args, input.map(Into::into))
    };
    drop(with(&alice, &["-P", "-t", TOPIC, "-p", "0"], Some("one\n")).ok());
    let read = ["-C", "-t", TOPIC, "-p", "0", "-o", "beginning", "-e", "-q"];
    assert_eq!(with(&alice, &read, None).ok().text(), "one\n");
    let other = with(&bob, &["-L", "-m", "5"], None);
    assert!(
        !other.status.success() && other.stderr.contains(REFUSED),
        "{other:?}"
    );

    // A session that goes on has the names of the certificate it began with.
    let port = broker.port().to_string();
    for version in ["1.2", "1.3"] {
        let files = [&own.certificate, &own.key].map(|file| path(file));
        let connection = [&*port, path(&exported), version, files[0], files[1]];
        let tokens = [&alice, &alice, &bob].map(|token| [token.tenant, &*token.text]);
        let args = [&connection[..], &tokens.concat()].concat();
        let told = python::run("sasl_over_tls.py", &args, None).text();
        let expected = format!("new 0 \nresumed 0 \nresumed 58 {REFUSED}\n");
        assert_eq!(told, expected, "TLS {version}");
    }
    let log = broker.logged(|log| log.contains("is not issued to the token's subject"));
    assert!(!log.contains(&*alice.text) && !log.contains(&*bob.text));
}

const RELOADS: &str = "felix_reloads_total{subject=\"certificate\"}";
const RELOAD_FAILURES: &str = "felix_reload_failures_total{subject=\"certificate\"}";

#[test]
fn a_certificate_is_renewed_under_load_and_a_bad_one_changes_nothing() {
    let authority = Authority::new("brokers");
    let own = authority.issue("broker", &["127.0.0.1"]);
    let mut broker = start(&with(&own));
    let properties = trust(&authority.certificate());
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    let bootstrap = broker.bootstrap();
    let args = [&[bootstrap.as_str(), "2", "load", TOPIC][..], &properties].concat();
    let mut writing = python::start("again.py", &args, None);
    let written = |writing: &mut felix_tests::Process| {
        String::from_utf8_lossy(writing.stdout()).lines().count()
    };
    eventually("the load begins", || written(&mut writing) >= 100);
    let before = serial(&broker);
    let accepted = broker.metric("felix_net_accepted_total");

    // By a change of the files, which is noticed.
    drop(authority.issue("broker", &["127.0.0.1"]));
    eventually("the change is noticed", || broker.metric(RELOADS) >= 1.0);
    let renewed = serial(&broker);
    assert_ne!(renewed, before);

    // By a signal, with a key that does not fit: the old one stands.
    std::fs::write(&own.key, "no key\n").expect("it is ours");
    broker.hang_up();
    eventually("the fault is counted", || {
        broker.metric(RELOAD_FAILURES) >= 1.0
    });
    let log = broker.logged(|log| log.contains("could not be read anew"));
    assert!(
        log.contains("has no private key") && log.contains(path(&own.key)),
        "{log}"
    );
    assert_eq!(serial(&broker), renewed);

    // By a signal, with what fits again.
    drop(authority.issue("broker", &["127.0.0.1"]));
    let reloads = broker.metric(RELOADS);
    broker.hang_up();
    eventually("the signal is heard", || broker.metric(RELOADS) > reloads);
    assert_ne!(serial(&broker), renewed);

    let so_far = written(&mut writing);
    eventually("the load goes on", || written(&mut writing) >= so_far + 100);
    let since = broker.metric("felix_net_accepted_total") - accepted;
    assert_eq!(since, 3.0, "no connection but those of `serial`");
    writing.signal(felix_tests::SIGTERM);
    drop(writing.finish(Duration::from_secs(60)).ok());
}

#[test]
fn half_open_handshakes_hold_up_nobody_and_end_in_time() {
    const HALF_OPEN: usize = 1000;
    let broker = start(&[("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0")]);
    let properties = trust(&broker.home().join(EXPORTED));
    listing(&broker, &properties).unwrap();
    let held: Vec<TcpStream> = (0..HALF_OPEN)
        .map(|number| {
            let mut peer = TcpStream::connect(("127.0.0.1", broker.port())).expect("it listens");
            // The beginning of a record, or a byte of it, or nothing.
            let begun = &[0x16, 3, 1, 1, 0, 1, 0, 0][..number % 9];
            peer.write_all(begun).expect("it is connected");
            peer
        })
        .collect();
    eventually("all are there", || {
        broker.metric("felix_net_open_connections") >= 1000.0
    });
    listing(&broker, &properties).unwrap();
    let mut last = held.last().expect("there are some");
    let limit = Some(Duration::from_secs(30));
    last.set_read_timeout(limit).expect("not zero");
    // The broker ends it: by a reset, since what was received has not been looked at.
    assert!(!matches!(last.read(&mut [0]), Ok(1..)));
    eventually("all have ended", || failed(&broker, "timeout") >= 1000.0);
    assert!(broker.metric(AUTH_TIMEOUTS) >= 1000.0);
    listing(&broker, &properties).unwrap();
}

#[test]
fn handshake_and_authentication_have_one_time_together() {
    let token = Token::new("t1", "late");
    let settings = [
        ("FELIX_KAFKA_TLS", "true"),
        ("FELIX_TLS_CERT_EXPORT", EXPORTED),
        ("FELIX_KAFKA_AUTH_TIMEOUT_MS", "4000"),
    ];
    let broker = Broker::start_with_tokens(&[], &Token::file(&[&token]), &settings);
    let exported = broker.home().join(EXPORTED);
    let args = [&*broker.port().to_string(), path(&exported), "3"];
    let took = python::run("late_tls.py", &args, None).text();
    let took: u64 = took.trim().parse().expect("it prints milliseconds");
    // Twice the time would be seven seconds.
    assert!((3900..6000).contains(&took), "{took} ms");
    assert_eq!(broker.metric(AUTH_TIMEOUTS), 1.0);
    assert_eq!(failed(&broker, "timeout"), 0.0);
}
