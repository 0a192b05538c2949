use crate::harness::{Ended, command, dev, refused};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

const CLICKS: &str = "[[stream]]\ntenant = \"t\"\nnamespace = \"n\"\nname = \"s\"\nshards = 1\n";

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// Runs `--check-config`, which ends by itself.
fn checked(flags: &[&str]) -> Ended {
    refused(&[&["--check-config"], flags].concat())
}

#[track_caller]
fn assert_wrong(ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    for part in parts {
        assert!(ended.stderr.contains(part), "no {part} in {}", ended.stderr);
    }
}

#[test]
fn checked_settings_are_ok_with_the_warnings_of_a_start_and_nothing_is_started() {
    let temp = tempdir().unwrap();
    let data = temp.path().join("data");
    let catalog = write(temp.path(), "catalog.toml", CLICKS);
    let text = format!("catalog_file = {catalog:?}\nlog = \"info,felix_kafka=debug\"\n");
    let config = write(temp.path(), "felix.toml", &text);
    let flags = [&dev(&data)[..], &["--config", config.to_str().unwrap()]].concat();
    let ended = checked(&flags);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "ok\n");
    let warnings: Vec<&str> = ended.stderr.lines().collect();
    let expected = ["travel in clear text", "the streams of tenant dev"];
    assert_eq!(warnings.len(), expected.len(), "{}", ended.stderr);
    for (warning, words) in warnings.iter().zip(expected) {
        assert!(warning.starts_with("felix-broker: warning: "), "{warning}");
        assert!(warning.contains(words), "{warning}");
    }
    assert!(!data.exists(), "the data directory was made");
}

#[test]
fn checked_settings_that_are_wrong_end_with_2_and_the_sentence() {
    let temp = tempdir().unwrap();
    let config = write(
        temp.path(),
        "felix.toml",
        "rack = \"r\"\nkafka_lisen = \"x\"\n",
    );
    let config = config.to_str().unwrap();
    let nearest = "the nearest key is kafka_listen";
    assert_wrong(
        &checked(&["--config", config]),
        &["line 2 of", "felix.toml", nearest],
    );
    assert_wrong(&refused(&["--config", config]), &["line 2 of", nearest]);
    assert_wrong(&checked(&["--broker-id=0"]), &["1 to 2147483647"]);
    assert_wrong(&checked(&["--log=debgu"]), &["FELIX_LOG", "\"debgu\""]);
    assert_wrong(
        &checked(&["--kafka-listen=192.0.2.1:0", "--kafka-tls=false"]),
        &["FELIX_KAFKA_TOKEN_FILE", "FELIX_KAFKA_ANONYMOUS_TENANT"],
    );
    let nowhere = [
        "--kafka-listen=127.0.0.1:0",
        "--kafka-anonymous-tenant=t1",
        "--tls-cert=no/cert.pem",
        "--tls-key=no/key.pem",
    ];
    let unread = ["FELIX_TLS_CERT: no/cert.pem cannot be read"];
    assert_wrong(&checked(&nowhere), &unread);
    let ports = ["--dev", "--cores=0,1", "--kafka-core-port-base=65535"];
    assert_wrong(&checked(&ports), &["core 1", "65535 + 1"]);
    let twice = ["--dev", "--kafka-core-port-base=8080"];
    assert_wrong(&checked(&twice), &["core 0", "FELIX_BROKER_METRICS_BIND"]);
    assert_wrong(&checked(&["--config", "no/such.toml"]), &["no/such.toml"]);
}

#[test]
fn a_checked_catalog_that_is_wrong_ends_with_2_and_the_sentence() {
    let temp = tempdir().unwrap();
    let data = temp.path().join("data");
    let check = |text: &str| {
        let catalog = write(temp.path(), "catalog.toml", text);
        let flag = format!("--catalog-file={}", catalog.display());
        checked(&[&dev(&data)[..], &[&flag]].concat())
    };
    assert_wrong(
        &check("[[stream]]\nshard = 3\n"),
        &["catalog.toml", "line 2"],
    );
    assert_wrong(&check(&CLICKS.replace("= 1", "= 0")), &["n.s"]);
    assert_wrong(&check(&CLICKS.replace("\"s\"", "\"a b\"")), &["a b"]);
    assert_wrong(&check(&CLICKS.repeat(2)), &["n.s"]);

    let catalog = write(temp.path(), "catalog.toml", CLICKS);
    let ended = checked(&["--catalog-file", catalog.to_str().unwrap()]);
    assert_wrong(&ended, &["FELIX_DURABLE_STORAGE_DIR"]);
    assert_wrong(
        &checked(&["--catalog-file=no/such"]),
        &["no/such", "FELIX_CATALOG_FILE"],
    );
}

#[test]
fn a_check_warns_of_variables_that_nobody_reads() {
    let output = command(&["--check-config"])
        .env("FELIX_KAFKA_LISTN", "x")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"ok\n");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let nearest = "FELIX_KAFKA_LISTN means nothing to the broker; the nearest variable is \
                   FELIX_KAFKA_LISTEN";
    assert!(stderr.contains(nearest), "{stderr}");
}

#[test]
fn printed_settings_can_be_fed_back_in() {
    let temp = tempdir().unwrap();
    let data = temp.path().join("data");
    let print = |flags: &[&str]| {
        let ended = refused(&[&["--print-config"], flags].concat());
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        ended.stdout
    };
    let printed = print(&dev(&data));
    assert!(printed.contains("kafka_core_port_base = 0  # --kafka-core-port-base"));
    let config = write(temp.path(), "felix.toml", &printed);
    let again = print(&["--config", config.to_str().unwrap()]);
    let values = |page: &str| -> toml::Table { page.parse().unwrap() };
    assert_eq!(values(&again), values(&printed));
    assert!(again.contains("felix.toml\" line"), "{again}");
    assert_eq!(
        checked(&["--config", config.to_str().unwrap()]).stdout,
        "ok\n"
    );
}
