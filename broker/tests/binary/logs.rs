use crate::harness::{Broker, dev, refused};
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
fn levels_count_for_the_module_they_name() {
    let levels = |lines: &[Value], of_boot: bool| -> BTreeSet<String> {
        let lines = lines.iter();
        let lines = lines.filter(|line| (text(line, "target") == "felix_broker::boot") == of_boot);
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
    let expected: BTreeSet<String> = set(&["DEBUG", "INFO", "WARN"]);
    assert_eq!(levels(&boot_alone, true), expected);
    assert_eq!(levels(&boot_alone, false), set(&[]));

    let boot_less = log("off,felix_broker::boot=info");
    assert_eq!(levels(&boot_less, true), set(&["INFO", "WARN"]));
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
