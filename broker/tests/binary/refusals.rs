use crate::harness::{dev, refused};
use std::fs;
use std::net::TcpListener;
use tempfile::tempdir;

#[test]
fn a_command_line_that_is_not_understood_ends_with_2_and_a_hint() {
    let ended = refused(&["--kafka-lisen", "127.0.0.1:9092"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("--kafka-listen"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");

    let ended = refused(&["--durable-fsync-interval-ms", "0"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("1 to 60000 (ms)"), "{}", ended.stderr);
}

#[test]
fn a_listener_for_nobody_is_refused() {
    let ended = refused(&["--kafka-listen=127.0.0.1:0"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(
        ended.stderr.contains("FELIX_KAFKA_ANONYMOUS_TENANT"),
        "{}",
        ended.stderr
    );
    let ended = refused(&["--kafka-listen=0.0.0.0:0", "--kafka-tls=false"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(
        ended.stderr.contains("FELIX_KAFKA_TOKEN_FILE"),
        "{}",
        ended.stderr
    );
}

#[test]
fn help_and_version_are_answers_and_not_failures() {
    let help = refused(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(help.stdout.contains("FELIX_KAFKA_LISTEN"));
    let version = refused(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    assert_eq!(
        version.stdout,
        format!("felix-broker {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_catalog_that_is_not_understood_is_refused_with_file_and_line() {
    let temp = tempdir().unwrap();
    let catalog = temp.path().join("catalog.toml");
    fs::write(&catalog, "[[stream]]\ntenant = \"dev\"\nshard = 3\n").unwrap();
    let data = temp.path().join("data");
    let flags = [
        &dev(&data)[..],
        &["--catalog-file", catalog.to_str().unwrap()],
    ]
    .concat();
    let ended = refused(&flags);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("catalog.toml") && ended.stderr.contains("line 3"));
    assert!(
        ended.stderr.contains("unknown field `shard`"),
        "{}",
        ended.stderr
    );
}

#[test]
fn streams_without_a_data_directory_are_refused() {
    let temp = tempdir().unwrap();
    let catalog = temp.path().join("catalog.toml");
    let text = "[[stream]]\ntenant = \"t\"\nnamespace = \"n\"\nname = \"s\"\nshards = 1\n";
    fs::write(&catalog, text).unwrap();
    let ended = refused(&["--catalog-file", catalog.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.stderr.contains("set FELIX_DURABLE_STORAGE_DIR"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_address_in_use_is_refused_by_name_with_the_setting_to_change() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, variable) in [
        ("--kafka-listen", "FELIX_KAFKA_LISTEN"),
        ("--broker-metrics-bind", "FELIX_BROKER_METRICS_BIND"),
    ] {
        let temp = tempdir().unwrap();
        let mut flags: Vec<&str> = dev(temp.path()).to_vec();
        flags.retain(|known| !known.starts_with(flag));
        flags.extend([flag, &address]);
        let ended = refused(&flags);
        assert_eq!(ended.status.code(), Some(1));
        let stderr = &ended.stderr;
        assert!(
            stderr.contains(&address) && stderr.contains(variable),
            "{stderr}"
        );
    }
}

#[test]
fn a_processor_that_does_not_exist_is_refused() {
    let ended = refused(&["--cores", "1023"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("processor 1023"), "{}", ended.stderr);
}
