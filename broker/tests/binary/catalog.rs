use crate::harness::{Broker, VALUE, dev, end, opened, refused, write};
use crate::wire::is_readable;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use tempfile::tempdir;

/// The flags of a broker without any stream.
fn without_streams(data: &Path) -> Vec<&str> {
    let mut flags = dev(data).to_vec();
    flags.retain(|flag| *flag != "--dev");
    flags.extend(["--kafka-tls=false", "--kafka-anonymous-tenant=dev"]);
    flags
}

#[test]
fn a_start_without_the_stream_leaves_its_log_to_the_next_that_lists_it() {
    let temp = tempdir().unwrap();
    let (id, generation) = write(temp.path());

    // One start that fails, and one that serves.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let mut flags = without_streams(temp.path());
    flags.retain(|flag| !flag.starts_with("--broker-metrics-bind"));
    flags.extend(["--broker-metrics-bind", &taken]);
    let ended = refused(&flags);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let told = ended.stdout.lines();
    let told = told.filter(|line| line.contains("streams on disk are not in the catalog"));
    let told: Vec<&str> = told.collect();
    assert!(
        told.len() == 1 && told[0].contains("\"streams\":1"),
        "{}",
        ended.stdout
    );
    let mut broker = Broker::start_with(&without_streams(temp.path()));
    broker.line(
        "streams on disk are not in the catalog: they are not served, and their logs are \
                 left as they are",
    );
    end(broker);

    let mut broker = Broker::start(temp.path(), &[]);
    let again = opened(&mut broker);
    assert_eq!(again.0, id);
    assert!(again.1 > generation, "{again:?} after {generation}");
    assert!(is_readable(broker.kafka(), VALUE));
}

#[test]
fn a_start_that_fails_changes_nothing_that_is_remembered() {
    let temp = tempdir().unwrap();
    write(temp.path());
    let state = temp.path().join("catalog-state.toml");
    let before = fs::read_to_string(&state).unwrap();
    let catalog = temp.path().join("catalog.toml");
    let text = "[[stream]]\ntenant = \"dev\"\nnamespace = \"default\"\nname = \"clicks\"\n\
                shards = 9\n[[stream]]\ntenant = \"dev\"\nnamespace = \"default\"\n\
                name = \"more\"\nshards = 1\n";
    fs::write(&catalog, text).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let mut flags = dev(temp.path()).to_vec();
    flags.retain(|flag| !flag.starts_with("--kafka-listen"));
    flags.extend(["--kafka-listen", &taken]);
    flags.extend(["--catalog-file", catalog.to_str().unwrap()]);
    assert_eq!(refused(&flags).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&state).unwrap(), before);
}

#[test]
fn logs_whose_state_is_missing_are_refused_and_left_alone() {
    let temp = tempdir().unwrap();
    write(temp.path());
    let state = temp.path().join("catalog-state.toml");
    let kept = fs::read_to_string(&state).unwrap();
    fs::remove_file(&state).unwrap();
    let ended = refused(&dev(temp.path()));
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.stderr.contains("restore it from a backup"),
        "{}",
        ended.stderr
    );
    assert!(!state.exists());
    fs::write(&state, kept).unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    assert!(is_readable(broker.kafka(), VALUE));
}
