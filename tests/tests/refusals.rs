//! What Felix does not do, it says: a client that joins a group or opens a transaction ends with
//! a sentence that tells what to do instead, and never hangs.

use felix_tests::{Broker, Stream, kcat, python};

const TOPIC: &str = "orders.created";
const NO_GROUPS: &str = "FindCoordinator response error: Felix has no Kafka consumer groups; \
                         assign partitions instead. See docs/kafka-compatibility.md";
const NO_TRANSACTIONS: &str = "Felix does not support Kafka transactions; unset \
                               transactional.id. See docs/kafka-compatibility.md";

fn broker() -> Broker {
    Broker::start(&[Stream::new(TOPIC, 2)])
}

#[test]
fn a_consumer_group_is_refused_with_a_sentence() {
    let broker = broker();
    let refused = kcat::run(&broker.bootstrap(), &["-G", "mygroup", TOPIC], None);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(refused.stderr.contains(NO_GROUPS), "{}", refused.stderr);
}

#[test]
fn a_transactional_producer_is_refused_with_a_sentence() {
    let broker = broker();
    let args = ["-P", "-t", TOPIC, "-X", "transactional.id=payments"];
    let refused = kcat::run(&broker.bootstrap(), &args, Some("one\n".into()));
    assert!(!refused.status.success(), "{refused:?}");
    assert!(
        refused.stderr.contains(NO_TRANSACTIONS),
        "{}",
        refused.stderr
    );
}

#[test]
fn an_unknown_topic_is_refused_and_not_made() {
    let broker = broker();
    let bootstrap = broker.bootstrap();
    let args = [
        "-P",
        "-t",
        "orders.misspelt",
        "-X",
        "message.timeout.ms=5000",
    ];
    let refused = kcat::run(&bootstrap, &args, Some("one\n".into()));
    assert!(!refused.status.success(), "{refused:?}");
    let args = ["-C", "-t", "orders.misspelt", "-o", "beginning", "-e", "-q"];
    let refused = kcat::run(&bootstrap, &args, None);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(
        refused.stderr.contains("Unknown topic"),
        "{}",
        refused.stderr
    );
    let listing = kcat::output(&bootstrap, &["-L"]);
    assert!(
        listing.contains(TOPIC) && !listing.contains("misspelt"),
        "{listing}"
    );
}

#[test]
fn a_partition_past_the_last_is_refused() {
    let broker = broker();
    let args = [
        "-P",
        "-t",
        TOPIC,
        "-p",
        "2",
        "-X",
        "message.timeout.ms=5000",
    ];
    let refused = kcat::run(&broker.bootstrap(), &args, Some("one\n".into()));
    assert!(!refused.status.success(), "{refused:?}");
    assert!(refused.stderr.contains("partition"), "{}", refused.stderr);
}

#[test]
fn an_offset_past_the_end_is_refused_and_the_end_itself_is_not() {
    let broker = broker();
    let bootstrap = broker.bootstrap();
    kcat::produce(&bootstrap, TOPIC, 0, "one\n");
    let read = |offset: &str| {
        let args = ["-C", "-t", TOPIC, "-p", "0", "-o", offset, "-e", "-q"];
        kcat::run(
            &bootstrap,
            &[&args[..], &["-X", "topic.auto.offset.reset=error"]].concat(),
            None,
        )
    };
    assert_eq!(read("1").ok().text(), "");
    let refused = read("2");
    assert!(!refused.status.success(), "{refused:?}");
    assert!(
        refused.stderr.contains("out of range"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_client_with_a_group_id_that_assigns_is_told_and_reads_on() {
    let broker = broker();
    let bootstrap = broker.bootstrap();
    kcat::produce(&bootstrap, TOPIC, 0, "one\ntwo\n");
    let read = python::run("consume.py", &[&bootstrap, TOPIC], None);
    assert_eq!(read.text().lines().count(), 2, "{read:?}");
}
