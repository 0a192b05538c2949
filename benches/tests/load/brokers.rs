//! Every workload, against real brokers.

use crate::program::{assert_unharmed, object, path, program, run, said, samples, side};
use felix_tests::{Apache, Broker, Policy, Process, Shared, Stream, USERS};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const TOPIC: &str = "default.load";

/// A short run without a floor. In an open loop what is due does not depend on any answer, so at
/// 500 records a second there are as many samples in a second, however slow the machine is.
fn short<'a>(target: &'a str, topic: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec![
        "run", "--target", target, "--topic", topic, "--json", "--quiet",
    ];
    let chosen = |name: &str| more.contains(&name);
    for (name, value) in [
        ("--rate", "500"),
        ("--duration", "1s"),
        ("--warm-up", "100ms"),
        ("--rounds", "1"),
        ("--floor", "none"),
        ("--size", "100"),
    ] {
        if !chosen(name) {
            arguments.extend([name, value]);
        }
    }
    arguments.extend(more);
    arguments
}

fn felix() -> Broker {
    Broker::start(&[Stream::new(TOPIC, 8), Stream::new("default.read", 2)])
}

fn apache() -> Arc<Apache> {
    static APACHE: Shared<Apache> = Shared::new();
    APACHE.get(Apache::start)
}

/// A floor by hand, and where it listens.
fn floor(arguments: &[&str]) -> (Process, String) {
    let mut floor = Process::start("floor", program().arg("floor").args(arguments), None);
    let patience = Duration::from_secs(60);
    floor.wait_until("where it listens", patience, |printed, _| {
        printed.ends_with(b"\n")
    });
    let said = String::from_utf8_lossy(floor.stdout()).into_owned();
    let address = said
        .trim()
        .strip_prefix("listening on ")
        .unwrap()
        .to_owned();
    (floor, address)
}

/// The only side of a run that went well.
fn broker(object: &Value) -> &Value {
    let broker = side(object, 0, "broker");
    assert_unharmed(broker);
    broker
}

#[test]
fn each_request_that_is_due_has_a_latency() {
    let felix = felix();
    let felix = felix.bootstrap();
    for more in [
        &["--acks", "all"][..],
        &["--acks", "1", "--client", "spinning"],
        &["--acks", "0"],
        &[
            "--arrivals",
            "even",
            "--partitions",
            "8",
            "--connections",
            "20",
        ],
        &[
            "--partitions",
            "8",
            "--keys",
            "zipf:100:1.1",
            "--skew",
            "keys",
        ],
        &[
            "--partitions",
            "8",
            "--skew",
            "hot:50",
            "--size",
            "10-2000",
            "--in-flight",
            "1",
        ],
    ] {
        let found = object(&short(&felix, TOPIC, more));
        assert_eq!(samples(broker(&found)), [500], "{more:?}");
    }
}

#[test]
fn batches_in_every_codec_are_taken_and_delivered() {
    let felix = felix();
    let felix = felix.bootstrap();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let more = ["--compression", codec, "--content", "json", "--batch", "5"];
        let more = [&more[..], &["--workload", "end-to-end"]].concat();
        let found = object(&short(&felix, TOPIC, &more));
        // 500 records a second in requests of five.
        assert_eq!(samples(broker(&found)), [100], "{codec}");
    }
}

#[test]
fn each_consumer_gets_each_batch() {
    let felix = felix();
    let felix = felix.bootstrap();
    let more = [
        "--workload",
        "fan-out",
        "--consumers",
        "7",
        "--partitions",
        "8",
    ];
    let found = object(&short(&felix, TOPIC, &more));
    let broker = broker(&found);
    assert_eq!(samples(broker), [7 * 500]);
    // A record counts once, however often it is delivered.
    let records = broker["rounds"][0]["records"].as_u64().unwrap();
    assert!((1..=550).contains(&records), "{records} of 500 records");
}

#[test]
fn threads_offer_the_rate_together_however_they_share_partitions() {
    let felix = felix();
    let felix = felix.bootstrap();
    for more in [
        &["--cpus", "0,1"][..],
        &["--cpus", "0,1", "--partitions", "3", "--skew", "hot:80"],
        &[
            "--cpus",
            "0,1",
            "--partitions",
            "8",
            "--keys",
            "zipf:50:1",
            "--skew",
            "keys",
        ],
    ] {
        let found = object(&short(&felix, TOPIC, more));
        let samples = samples(broker(&found))[0];
        assert!((495..=505).contains(&samples), "{more:?}: {samples} of 500");
    }
}

#[test]
fn rates_step_up_and_each_has_its_comparison() {
    let felix = felix();
    let felix = felix.bootstrap();
    let found = object(&short(
        &felix,
        TOPIC,
        &["--rate", "100,200,max", "--rounds", "2"],
    ));
    let names = found["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"]);
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["produce@100", "produce@200", "produce@max"]
    );
    assert_eq!(samples(side(&found, 0, "broker")), [100, 100]);
    assert_eq!(samples(side(&found, 1, "broker")), [200, 200]);
    assert!(
        samples(side(&found, 2, "broker"))
            .iter()
            .all(|count| *count > 100)
    );
}

#[test]
fn what_was_filled_in_is_read_over_and_over() {
    let felix = felix();
    let felix = felix.bootstrap();
    let more = [
        "--workload",
        "fetch",
        "--fill",
        "1",
        "--partitions",
        "2",
        "--batch",
        "10",
    ];
    let found = object(&short(&felix, "default.read", &more));
    let bytes = broker(&found)["rounds"][0]["bytes"].as_u64().unwrap();
    assert!(bytes > 2 << 20, "{bytes} bytes of 2 MiB were read");
}

#[test]
fn floors_take_turns_with_brokers_and_their_multiples_are_told() {
    let felix = felix();
    let felix = felix.bootstrap();
    for (workload, topic, floor) in [
        ("produce", TOPIC, "echo"),
        ("end-to-end", TOPIC, "echo"),
        ("fetch", "default.read", "send"),
    ] {
        let more = [
            "--workload",
            workload,
            "--floor",
            "auto",
            "--rounds",
            "2",
            "--fill",
            "1",
        ];
        let found = object(&short(&felix, topic, &more));
        let floor = side(&found, 0, floor);
        assert_unharmed(floor);
        assert_eq!(floor["is_floor"], true);
        assert_eq!(floor["rounds"].as_array().unwrap().len(), 2, "{workload}");
        assert_eq!(
            found["comparisons"][0]["multiples"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        // The broker is here, so what it uses can be seen.
        let usage = &broker(&found)["rounds"][0]["usage"];
        assert!(!usage.is_null(), "{workload}: {found:#}");
    }
}

#[test]
fn two_topics_of_a_broker_with_policies_of_their_own_take_turns() {
    let felix = Broker::start(&[
        Stream::new("default.lazy", 1).flushed(Policy::None),
        Stream::new("default.careful", 1).flushed(Policy::OnCommit),
    ]);
    let target = |name: &str| format!("{name}={}/default.{name}", felix.bootstrap());
    let (lazy, careful) = (target("lazy"), target("careful"));
    let found = object(&short(&lazy, "unused", &["--target", &careful]));
    assert_eq!(samples(side(&found, 0, "lazy")), [500]);
    assert_eq!(samples(side(&found, 0, "careful")), [500]);
    assert!(felix.metric("felix_storage_sync_total") >= 1.0);
}

#[test]
fn a_floor_that_runs_elsewhere_is_asked_first_whether_it_does_the_same() {
    let felix = felix();
    let felix = felix.bootstrap();
    let (_wrong, address) = floor(&["echo", "--answer-bytes", "20"]);
    let said_of_it = said(&run(&short(&felix, TOPIC, &["--floor", &address])));
    let wanted = said_of_it
        .split_once("--answer-bytes ")
        .map(|(_, rest)| rest);
    let wanted: String = wanted
        .unwrap_or_default()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    assert!(said_of_it.contains("answers 20 bytes"), "{said_of_it}");
    // What it says helps.
    let (_right, address) = floor(&["echo", "--answer-bytes", &wanted]);
    let found = object(&short(&felix, TOPIC, &["--floor", &address]));
    assert_eq!(samples(side(&found, 0, "echo")), [500]);
    let (_floor, address) = floor(&["echo"]);
    let said = said(&run(&short(
        &felix,
        TOPIC,
        &["--floor", &address, "--workload", "fetch"],
    )));
    assert!(said.contains("felix-bench floor send"), "{said}");
}

#[test]
fn without_a_broker_the_floor_is_measured_alone() {
    for kind in ["echo", "loop-echo"] {
        let found = object(&[
            "run",
            "--rate",
            "500",
            "--duration",
            "1s",
            "--warm-up",
            "100ms",
            "--rounds",
            "1",
            "--floor-kind",
            kind,
            "--json",
            "--quiet",
        ]);
        let floor = side(&found, 0, kind);
        assert_unharmed(floor);
        assert_eq!(samples(floor), [500]);
    }
}

#[test]
fn a_turn_in_which_nothing_was_due_is_no_result() {
    let felix = felix();
    let felix = felix.bootstrap();
    // One in ten seconds: at the start, which is still warming up.
    let output = run(&short(&felix, TOPIC, &["--rate", "0.1"]));
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing was due"), "{said}");
}

#[test]
fn a_topic_that_felix_does_not_have_is_told_with_the_way_to_make_it() {
    let felix = felix();
    let output = run(&short(&felix.bootstrap(), "default.absent", &[]));
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("default.absent"), "{said}");
    assert!(said.contains("FELIX_CATALOG_FILE"), "{said}");
}

#[test]
fn what_felix_does_not_offer_yet_is_refused_with_its_own_words() {
    let felix = felix();
    let output = run(&short(
        &felix.bootstrap(),
        TOPIC,
        &["--tls", "--tls-insecure"],
    ));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn felix_is_measured_with_idempotent_producers() {
    let felix = felix();
    let more = ["--idempotent", "--connections", "3"];
    let found = object(&short(&felix.bootstrap(), TOPIC, &more));
    assert_eq!(samples(broker(&found)), [500]);
}

#[test]
fn a_broker_of_another_make_is_measured_the_same_way() {
    let apache = apache();
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users");
    let lines = USERS.map(|(user, password)| format!("{user}:{password}\n"));
    std::fs::write(&users, lines.concat()).unwrap();
    let authority = path(apache.authority());
    let (plain, tls, sasl_tls) = (apache.plain(), apache.tls(), apache.sasl_tls());
    for (target, topic, more) in [
        (&plain, "plain", &[][..]),
        (
            &plain,
            "idempotent",
            &["--idempotent", "--connections", "3", "--partitions", "3"],
        ),
        (
            &plain,
            "both",
            &["--workload", "end-to-end", "--compression", "lz4"],
        ),
        (
            &tls,
            "encrypted",
            &["--tls", "--tls-ca", authority, "--workload", "end-to-end"],
        ),
        (
            &sasl_tls,
            "tenant-{user}",
            &[
                "--tls-ca",
                authority,
                "--users",
                path(&users),
                "--partitions",
                "4",
            ],
        ),
    ] {
        let found = object(&short(target, topic, more));
        assert_eq!(samples(broker(&found)), [500], "{topic}");
    }
}

#[test]
fn two_brokers_take_turns_in_one_run() {
    let (felix, apache) = (felix(), apache());
    let targets = [
        format!("felix={}", felix.bootstrap()),
        format!("kafka={}", apache.plain()),
    ];
    let more = ["--target", &targets[1], "--floor", "auto", "--rounds", "2"];
    let found = object(&short(&targets[0], TOPIC, &more));
    for name in ["felix", "kafka"] {
        let side = side(&found, 0, name);
        assert_unharmed(side);
        assert_eq!(samples(side), [500, 500]);
    }
    assert_eq!(
        found["comparisons"][0]["multiples"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn what_a_broker_does_not_keep_up_with_is_counted_in_full() {
    let felix = felix();
    let felix = felix.bootstrap();
    // One request at a time, and far more often than there is time for.
    let more = ["--rate", "100000", "--in-flight", "1", "--partitions", "1"];
    let found = object(&short(&felix, TOPIC, &more));
    let broker = side(&found, 0, "broker");
    assert_eq!(samples(broker), [100_000]);
    // It was due earlier and earlier: the latest waited longest.
    let p99_us = broker["latency"]["p99_us"]["median"].as_f64().unwrap();
    let p50_us = broker["latency"]["p50_us"]["median"].as_f64().unwrap();
    assert!(
        p99_us > p50_us && p50_us > 10_000.0,
        "{p50_us} and {p99_us} us"
    );
}
