//! Apache Kafka's own command-line tools against Felix: what an operator has at hand already.

use felix_tests::{Broker, Finished, Stream, java, kcat};
use std::time::Duration;

const TOPIC: &str = "orders.created";
const TIMEOUT: Duration = Duration::from_secs(120);

fn broker() -> Broker {
    Broker::start(&[Stream::new(TOPIC, 2)])
}

fn run(class: &str, args: &[&str], input: Option<Vec<u8>>) -> Finished {
    let class = format!("org.apache.kafka.tools.{class}");
    java::start(&class, args, input).finish(TIMEOUT).ok()
}

#[test]
fn kafka_broker_api_versions_lists_each_core_and_what_it_serves() {
    let broker = broker();
    let args = ["--bootstrap-server", &broker.bootstrap()];
    let told = run("BrokerApiVersionsCommand", &args, None).text();
    for core in 0..broker.cores() {
        let node = format!("127.0.0.1:{} (id: ", broker.core_port(core));
        assert!(told.contains(&node), "{told}");
    }
    for api in [
        "Produce(0): 0 to 11",
        "Fetch(1): 4 to 12",
        "Metadata(3): 0 to 12",
    ] {
        let count = told.matches(api).count();
        assert_eq!(count, usize::from(broker.cores()), "{api}: {told}");
    }
    // What groups need is not advertised, and the tool says so.
    assert!(told.contains("JoinGroup(11): UNSUPPORTED"), "{told}");
}

#[test]
fn what_kafka_console_producer_writes_kafka_console_consumer_reads() {
    let broker = broker();
    let bootstrap = broker.bootstrap();
    let lines: String = (0..50).map(|number| format!("line {number}\n")).collect();
    let args = ["--bootstrap-server", &bootstrap, "--topic", TOPIC];
    drop(run("ConsoleProducer", &args, Some(lines.into())));

    let mut read = Vec::new();
    for partition in ["0", "1"] {
        let end = kcat::output(
            &bootstrap,
            &["-Q", "-t", &format!("{TOPIC}:{partition}:-1")],
        );
        let count = end.trim().rsplit(' ').next().expect("it tells an offset");
        if count == "0" {
            continue;
        }
        let place = [
            "--partition",
            partition,
            "--offset",
            "earliest",
            "--max-messages",
            count,
        ];
        let finished = run(
            "consumer.ConsoleConsumer",
            &[&args[..], &place].concat(),
            None,
        );
        read.extend(finished.text().lines().map(str::to_owned));
    }
    let number = |line: &String| line["line ".len()..].parse::<u32>().expect("a number");
    let mut numbers: Vec<u32> = read.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
}

#[test]
fn kafka_get_offsets_tells_where_partitions_begin_and_end() {
    let broker = broker();
    let bootstrap = broker.bootstrap();
    kcat::produce(&bootstrap, TOPIC, 0, "one\ntwo\nthree\n");
    let ask = |time: &str| {
        let args = [
            "--bootstrap-server",
            &bootstrap,
            "--topic",
            TOPIC,
            "--time",
            time,
        ];
        run("GetOffsetShell", &args, None).text()
    };
    assert_eq!(ask("latest"), format!("{TOPIC}:0:3\n{TOPIC}:1:0\n"));
    assert_eq!(ask("earliest"), format!("{TOPIC}:0:0\n{TOPIC}:1:0\n"));
}

#[test]
fn kafka_producer_perf_test_counts_what_arrives() {
    let broker = broker();
    let servers = format!("bootstrap.servers={}", broker.bootstrap());
    let size = [
        "--topic",
        TOPIC,
        "--num-records",
        "5000",
        "--record-size",
        "100",
    ];
    let how = [
        "--throughput",
        "-1",
        "--producer-props",
        &servers,
        "acks=all",
    ];
    let args = [&size[..], &how].concat();
    let told = run("ProducerPerformance", &args, None).text();
    assert!(told.contains("5000 records sent"), "{told}");
    let appended = broker.metric("felix_storage_append_records_total");
    assert!((appended - 5000.0).abs() < 0.5, "{appended}");
}

#[test]
fn kafka_verifiable_producer_gets_each_record_acknowledged() {
    let broker = broker();
    let bootstrap = broker.bootstrap();
    let what = ["--topic", TOPIC, "--max-messages", "100", "--acks", "-1"];
    let how = ["--bootstrap-server", &bootstrap];
    let told = run("VerifiableProducer", &[&what[..], &how].concat(), None).text();
    let acknowledged = told.matches("\"name\":\"producer_send_success\"").count();
    assert_eq!(acknowledged, 100, "{told}");
    let mut values: Vec<u32> = kcat::read_all(&bootstrap, TOPIC)
        .iter()
        .map(|record| {
            String::from_utf8_lossy(&record.value)
                .parse()
                .expect("a number")
        })
        .collect();
    values.sort_unstable();
    assert_eq!(values, (0..100).collect::<Vec<_>>());
}
