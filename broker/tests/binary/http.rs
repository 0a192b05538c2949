use crate::harness::{Broker, request};
use std::io::Write;
use std::net::TcpStream;
use tempfile::tempdir;

#[test]
fn the_three_pages_answer_and_nothing_else_does() {
    let temp = tempdir().unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    assert_eq!(broker.get("/live"), (200, "ok".to_owned()));
    assert_eq!(broker.get("/ready"), (200, "ok".to_owned()));
    assert_eq!(broker.get("/healthz").0, 404);
    assert_eq!(request(broker.http(), "POST", "/live").0, 405);
    let (status, page) = broker.get("/metrics");
    assert_eq!(status, 200);
    for line in [
        "felix_core_answers{core=\"0\"} 1",
        "felix_shard_open 3",
        "# TYPE felix_kafka_refused_total counter",
        "# TYPE felix_net_open_connections gauge",
    ] {
        assert!(
            page.lines().any(|known| known == line),
            "no {line} in\n{page}"
        );
    }
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_waiting() {
    let temp = tempdir().unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    let address = broker.http();
    // Twenty times as many as are served at once: were each given its time, an answer would take
    // longer than this test waits for one.
    let silent: Vec<TcpStream> = (0..1280)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /li").unwrap();
            stream
        })
        .collect();
    assert_eq!(broker.get("/live"), (200, "ok".to_owned()));
    drop(silent);
}
