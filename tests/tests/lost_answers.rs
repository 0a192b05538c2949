//! Idempotent producers through a network that loses acknowledgements, to a broker that is killed
//! (kill -9) and comes back. confluent-kafka and Apache Kafka's client for Java, the latter as it is
//! by default, send again by their own rules what was not answered, five requests at a time. In the
//! end every record that they were told of is there once, at the offset that they were told, with
//! its bytes, and each producer's records lie in the order in which it sent them.

use felix_tests::{
    Broker, Policy, Process, Random, Record, Relay, SIGTERM, Stream, java, kcat, kill_rounds,
    python,
};
use std::collections::HashMap;
use std::time::Duration;

const SHARDS: u32 = 2;
const TOPICS: [&str; 3] = ["lost.periodic", "lost.none", "lost.on_commit"];
const STREAMS: [Stream; 3] = [
    Stream::new(TOPICS[0], SHARDS),
    Stream::new(TOPICS[1], SHARDS).flushed(Policy::None),
    Stream::new(TOPICS[2], SHARDS).flushed(Policy::OnCommit),
];

/// One acknowledgement in so many is lost, and its connection with it.
const LOST_EVERY: u64 = 7;

/// Records told of, by topic, partition and offset.
type Told = HashMap<(String, i32, i64), String>;

/// A broker whose clients know the relay's address only.
fn broker_behind(relay: &Relay) -> Broker {
    let address: &'static str = relay.address().leak();
    let settings = [
        ("FELIX_KAFKA_CORE_PORTS", "false"),
        ("FELIX_KAFKA_ADVERTISE_ADDR", address),
    ];
    let broker = Broker::start_with(&STREAMS, &settings);
    relay.hand_on_to(broker.port());
    broker
}

fn start(relay: &Relay, java: &java::Program) -> [Process; 2] {
    let (bootstrap, topics, shards) = (relay.address(), TOPICS.join(","), SHARDS.to_string());
    let args = |name| {
        [
            &*bootstrap,
            &*shards,
            name,
            &*topics,
            // What both clients' idempotent producers have by default.
            "enable.idempotence=true",
            "max.in.flight.requests.per.connection=5",
            "compression.type=lz4",
            "reconnect.backoff.max.ms=200",
            "linger.ms=1",
        ]
    };
    [
        python::start("again.py", &args("python"), None),
        java.start(&args("java")),
    ]
}

/// Waits until a producer has told of this much more.
fn wait_for_more(producer: &mut Process, bytes: usize) {
    let wanted = producer.stdout().len() + bytes;
    let wait = Duration::from_secs(60);
    producer.wait_until("acknowledgements", wait, |out, _| out.len() > wanted);
}

/// What a producer was told of, once it has ended.
fn collect(producer: Process, told: &mut Told) {
    let text = producer.finish(Duration::from_secs(90)).ok().text();
    for line in text.lines() {
        let mut fields = line.splitn(4, ' ');
        let mut next = || fields.next().expect("topic, partition, offset, value");
        let topic = next().to_owned();
        let partition = next().parse().expect("a partition");
        let offset = next().parse().expect("an offset");
        let place = (topic, partition, offset);
        let twice = told.insert(place.clone(), next().to_owned());
        assert_eq!(twice, None, "{place:?} was given to two records");
    }
}

/// A value's producer and number.
fn sender(value: &str) -> (String, i64) {
    let mut parts = value.split(':');
    let mut next = || parts.next().expect("a value is NAME:NUMBER:padding");
    (next().to_owned(), next().parse().expect("a number"))
}

/// Holds what is in a topic against what was told of it.
fn check(broker: &Broker, topic: &str, told: &Told) {
    let direct = format!("127.0.0.1:{}", broker.port());
    let mut last = HashMap::new();
    let mut found = 0;
    for record in kcat::read_all(&direct, topic) {
        let Record {
            partition, offset, ..
        } = record;
        let value = String::from_utf8(record.value).expect("values are text");
        let (producer, number) = sender(&value);
        // Rising numbers: in order, and none twice.
        let earlier = last.insert((producer.clone(), partition), number);
        assert!(
            earlier < Some(number),
            "{topic} [{partition}] {offset}: {producer}:{number} follows {earlier:?}"
        );
        // They send until they are told, so they are told of all that is there.
        let expected = told.get(&(topic.to_owned(), partition, offset));
        assert_eq!(expected, Some(&value), "{topic} [{partition}] {offset}");
        found += 1;
    }
    let expected = told.keys().filter(|(of, _, _)| of == topic).count();
    assert_eq!(found, expected, "{topic}: acknowledged records are missing");
    assert!(found > 0, "{topic}: nothing was acknowledged");
}

#[test]
fn idempotent_producers_lose_and_double_nothing_over_lost_acknowledgements_and_kills() {
    let mut random = Random::from_environment();
    let java = java::Program::compile("Again");
    let relay = Relay::listen();
    let mut broker = broker_behind(&relay);
    let mut producers = start(&relay, &java);
    for producer in &mut producers {
        wait_for_more(producer, 0);
    }
    let mut repeated = 0.0;
    for _ in 0..kill_rounds() {
        relay.lose_one_in(LOST_EVERY);
        for producer in &mut producers {
            let bytes = random.within(1..20_000);
            wait_for_more(producer, usize::try_from(bytes).expect("it is small"));
        }
        repeated += broker.metric("felix_producer_duplicates_total");
        broker.kill();
        broker.start_again();
    }
    relay.lose_one_in(0);
    let mut told = Told::new();
    for producer in &mut producers {
        producer.signal(SIGTERM);
    }
    for producer in producers {
        collect(producer, &mut told);
    }
    // Without these nothing was tested.
    assert!(relay.lost() > 0, "no acknowledgement was lost");
    assert!(repeated > 0.0, "no batch was sent again that was there");
    for topic in TOPICS {
        check(&broker, topic, &told);
    }
}
