//! The race, as short as can be.

use crate::program::{object, path};
use felix_tests::broker_binary;

#[test]
fn a_race_tells_the_ratios_that_matter_under_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let found = object(&[
        "race",
        "--quick",
        "--rounds",
        "1",
        "--turn",
        "500ms",
        "--json",
        "--quiet",
        "--broker",
        path(broker_binary()),
        "--dir",
        path(dir.path()),
    ]);
    for name in [
        "produce_ack_over_echo",
        "end_to_end_over_echo",
        "on_commit_over_flush",
        "produce_ack_spinning_over_echo",
    ] {
        let ratio = &found[name];
        for quantile in ["p50", "p99", "p999"] {
            let value = ratio[quantile].as_f64();
            assert!(
                value.is_some_and(|value| value > 0.0),
                "{name} {quantile}: {ratio}"
            );
        }
        assert_eq!(ratio["p999_is_indicative"], true, "{name}");
    }
    let throughput = found["fetch_over_send"]["throughput"].as_f64();
    assert!(
        throughput.is_some_and(|ratio| ratio > 0.0),
        "{}",
        found["fetch_over_send"]
    );
    assert_eq!(found["is_interrupted"], false);
    assert_eq!(found["report"]["schema"], 1);
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
