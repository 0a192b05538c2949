use crate::harness::{Broker, command, dev, refused};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::TcpListener;
use tempfile::tempdir;

/// The log of a broker from its start to its end, as JSON, without what `--dev` tells people.
fn log(filter: &str) -> Vec<Value> {
    let temp = tempdir().unwrap();
    let broker = Broker::start(temp.path(), &["--log", filter]);
    broker.signal(Signal::TERM);
    let (status, lines) = broker.wait();
    assert_eq!(status.code(), Some(0), "{lines:#?}");
    let lines = lines.iter().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn text<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {line}"))
}

#[test]
fn json_lines_have_time_level_module_and_message_and_fields_beside_them() {
    let lines = log("info");
    for line in &lines {
        assert!(text(line, "timestamp").ends_with('Z'), "{line}");
        assert!(["INFO", "WARN"].contains(&text(line, "level")), "{line}");
        assert!(text(line, "target").starts_with("felix_"), "{line}");
        assert!(!text(line, "message").is_empty(), "{line}");
    }
    let found = |message| lines.iter().find(|line| line["message"] == message);
    assert!(found("stream").unwrap()["shards"].is_u64());
    assert!(found("felix-broker").unwrap()["pid"].is_u64());
    assert!(found("ended").is_some(), "the last line was written");
}

#[test]
fn the_time_a_core_was_held_is_a_number() {
    let temp = tempdir().unwrap();
    // So little that opening a shard is too long.
    let flags = ["--log=info", "--stall-us=50", "--stall-log-us=50"];
    let broker = Broker::start(temp.path(), &flags);
    broker.signal(Signal::TERM);
    let (_, lines) = broker.wait();
    let held = lines
        .iter()
        .find(|line| line.starts_with('{') && line.contains("a core was held too long"));
    let held: Value = serde_json::from_str(held.expect("there was one")).unwrap();
    assert!(held["took_us"].as_u64().unwrap() >= 50, "{held}");
}

#[test]
fn a_rust_log_that_is_meant_for_others_is_passed_over_with_one_warning() {
    let temp = tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = format!("--broker-metrics-bind={}", taken.local_addr().unwrap());
    let flags = dev(temp.path());
    let mut flags: Vec<&str> = flags
        .into_iter()
        .filter(|flag| !flag.starts_with("--log="))
        .collect();
    flags.extend(["--log-format=text", &bind]);
    let output = command(&flags).env("RUST_LOG", "hyper").output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "it came as far as the address"
    );
    let stdout = String::from_utf8(output.stdout).unwrap();
    let warns = |line: &&str| line.contains("RUST_LOG is passed over") && line.contains("hyper");
    assert_eq!(stdout.lines().filter(warns).count(), 1, "{stdout}");
    assert!(stdout.contains(" INFO "), "the default is in force");

    let check = ["--check-config"];
    let output = command(&check).env("RUST_LOG", "hyper").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.matches("RUST_LOG is passed over").count(), 1);
}

#[test]
fn levels_count_for_the_module_they_name() {
    let levels = |lines: &[Value], of_boot: bool| -> BTreeSet<String> {
        let lines = lines.iter();
        let lines =
            lines.filter(|line| text(line, "target").starts_with("felix_broker::boot") == of_boot);
        lines.map(|line| text(line, "level").to_owned()).collect()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();

    let everything = log("debug");
    assert!(
        levels(&everything, false).contains("INFO"),
        "others talk too"
    );

    // Others have errors to tell at most: a busy machine makes them warn of cores held too long.
    let boot_alone = log("error, felix_broker::boot=debug");
    let expected: BTreeSet<String> = set(&["DEBUG", "INFO"]);
    assert_eq!(levels(&boot_alone, true), expected);
    assert_eq!(levels(&boot_alone, false), set(&[]));

    let boot_less = log("off,felix_broker::boot=info");
    assert_eq!(levels(&boot_less, true), set(&["INFO"]));
}

#[test]
fn text_lines_name_level_and_module() {
    let temp = tempdir().unwrap();
    // An address in use ends the start after the log has begun.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = format!("--broker-metrics-bind={}", taken.local_addr().unwrap());
    let flags = ["--log-format=text", "--log=info", &bind];
    let ended = refused(&[&dev(temp.path())[..], &flags].concat());
    assert_eq!(ended.status.code(), Some(1));
    let has = |level: &str| {
        let lines = ended.stdout.lines();
        lines
            .filter(|line| line.contains(level) && line.contains("felix_broker::boot:"))
            .count()
    };
    assert!(has(" INFO ") > 1 && has(" ERROR ") == 1, "{}", ended.stdout);
    assert!(
        !ended.stdout.contains('\u{1b}'),
        "colours are for terminals"
    );
}
