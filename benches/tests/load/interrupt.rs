//! Ctrl-C shows what is there.

use crate::program::{path, program};
use felix_tests::{Broker, Process, SIGINT, Stream, eventually};
use std::time::Duration;

#[test]
fn ctrl_c_ends_a_run_with_what_was_measured_until_then() {
    let broker = Broker::start(&[Stream::new("default.load", 1)]);
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("report.html");
    let mut command = program();
    command
        .args([
            "run",
            "--target",
            &broker.bootstrap(),
            "--topic",
            "default.load",
        ])
        .args([
            "--warm-up",
            "0s",
            "--duration",
            "10m",
            "--rate",
            "1000",
            "--floor",
            "none",
        ])
        .args(["--json", "--html", path(&html)]);
    let mut run = Process::start("felix-bench", &mut command, None);
    eventually("records arrive", || {
        broker.metric("felix_kafka_requests_total") >= 500.0
    });
    run.signal(SIGINT);
    let finished = run.finish(Duration::from_secs(60));
    assert_eq!(finished.status.code(), Some(130), "{}", finished.stderr);
    let object: serde_json::Value = serde_json::from_slice(&finished.stdout).unwrap();
    assert_eq!(object["is_interrupted"], true);
    let rounds = object["comparisons"][0]["sides"][0]["rounds"]
        .as_array()
        .unwrap();
    assert_eq!(rounds.len(), 1);
    let samples = rounds[0]["samples"].as_u64().unwrap();
    assert!(samples >= 400, "{:#}", rounds[0]);
    // As many as were due until then, no more and no less.
    let lasted_s = rounds[0]["lasted_s"].as_f64().unwrap();
    let due = u32::try_from(samples).map(f64::from).unwrap();
    assert!(
        (due - lasted_s * 1000.0).abs() <= 1.0,
        "{samples} in {lasted_s} s"
    );
    assert!(std::fs::read_to_string(html).unwrap().contains("</html>"));
}
