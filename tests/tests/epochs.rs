//! Leader epochs with real consumers: when a broker comes back its epochs have risen, and clients
//! that know of epochs ask where those ended whose records they have read, before they go on.

use felix_tests::{Broker, Process, Stream, java, kcat, python};
use std::time::Duration;

const TOPIC: &str = "epochs.stream";
const SOON: Duration = Duration::from_secs(60);

/// Requests of an API so far.
fn requests(broker: &Broker, api: &str) -> f64 {
    let label = format!("api=\"{api}\"");
    let page = broker.metrics().page().to_owned();
    let lines = page
        .lines()
        .filter(|line| line.starts_with("felix_kafka_requests_total{") && line.contains(&label));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// Has a reader that is at the end of its partition, or about to be, see a kill and two records
/// around it; what it printed.
fn over_a_kill(broker: &mut Broker, mut reader: Process, is_there: &str) -> String {
    reader.wait_until("a reader that is there", SOON, |out, _| {
        String::from_utf8_lossy(out).contains(is_there)
    });
    kcat::produce(&broker.bootstrap(), TOPIC, 0, "before\n");
    reader.wait_until("the first record", SOON, |out, _| {
        String::from_utf8_lossy(out).contains("before\n")
    });
    broker.kill();
    broker.start_again();
    kcat::produce(&broker.bootstrap(), TOPIC, 0, "after\n");
    reader.finish(SOON).ok().text()
}

#[test]
fn librdkafka_asks_where_the_epoch_ended_that_it_has_read_and_goes_on() {
    let mut broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let args = [&*broker.bootstrap(), TOPIC, "0", "2"];
    let reader = python::start("follow.py", &args, None);
    let read = over_a_kill(&mut broker, reader, "at the end\n");
    assert_eq!(read, "at the end\nbefore\nafter\n");
    assert!(requests(&broker, "OffsetForLeaderEpoch") > 0.0);
}

#[test]
fn java_asks_where_the_epoch_ended_that_it_has_read_and_goes_on() {
    let follow = java::Program::compile("Follow");
    let mut broker = Broker::start(&[Stream::new(TOPIC, 1)]);
    let args = [&*broker.bootstrap(), TOPIC, "0", "2"];
    // Its first line is of the cluster: a node for each core, and the first is the controller.
    let read = over_a_kill(&mut broker, follow.start(&args), "\n");
    let (cluster, read) = read.split_once('\n').expect("two lines at least");
    let listing = kcat::output(&broker.bootstrap(), &["-L"]);
    let (nodes, controller) = cluster.split_once(' ').expect("two numbers");
    assert_eq!(nodes, "2");
    let named = format!(
        "broker {controller} at 127.0.0.1:{} (controller)",
        broker.core_port(0)
    );
    assert!(listing.contains(&named), "{cluster} in {listing}");
    assert_eq!(read, "before\nafter\n");
    assert!(requests(&broker, "OffsetForLeaderEpoch") > 0.0);
}
