//! Brokers of our own, as processes.

use felix_bench::broker::{FreshBroker, FreshStream};
use felix_bench::footprint::{self, FootprintPlan};
use felix_bench::{child, pin, usage};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The broker of this build's profile, brought up to date.
fn binary() -> PathBuf {
    child::start_with(Path::new(env!("CARGO_BIN_EXE_felix-bench")));
    felix_tests::broker_binary().to_owned()
}

fn first_cpu() -> [usize; 1] {
    [pin::allowed()[0]]
}

fn start(streams: &[FreshStream], settings: &[(&str, &str)]) -> Result<FreshBroker, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let settings: Vec<(String, String)> = settings.iter().map(owned).collect();
    let dir = std::env::temp_dir();
    FreshBroker::start(&binary(), &dir, &first_cpu(), streams, &settings)
        .map_err(|problem| problem.to_string())
}

#[test]
fn a_fresh_broker_is_ready_with_its_streams_on_its_processor_and_leaves_nothing() {
    let streams = [
        FreshStream::new("one", 1, "none"),
        FreshStream::new("two", 3, "on_commit"),
    ];
    let broker = start(&streams, &[("FELIX_SPIN_US", "50")]).unwrap();
    let pid = broker.pid();
    assert_eq!(usage::listener_pid(broker.address().port()), Some(pid));
    assert_eq!(usage::listener_pid(broker.http_port()), Some(pid));
    assert_eq!(streams[1].topic(), "bench.two");
    let home = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert!(home.join("data").is_dir());
    drop(broker);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!home.exists());
}

#[test]
fn a_broker_that_does_not_start_is_told_with_its_last_words() {
    let stream = |durability: &str| [FreshStream::new("one", 1, durability)];
    let refused = |durability: &str, settings: &[(&str, &str)], words: &str| {
        let problem = start(&stream(durability), settings).unwrap_err();
        assert!(problem.contains(words), "{words} in {problem}");
    };
    refused("none", &[("FELIX_SPIN_US", "soon")], "FELIX_SPIN_US");
    refused("sometimes", &[], "sometimes");
    refused("no \"quotes\"", &[], "letters, digits");

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused("none", &[("FELIX_KAFKA_LISTEN", &address)], &address);
}

#[test]
fn what_is_no_broker_is_told_so() {
    child::start_with(Path::new(env!("CARGO_BIN_EXE_felix-bench")));
    let dir = tempfile::tempdir().unwrap();
    let no_program = dir.path().join("notes.txt");
    std::fs::write(&no_program, "notes").unwrap();
    let refused = |binary: &Path, cpu: usize, dir: &Path, words: &str| {
        let problem = FreshBroker::start(binary, dir, &[cpu], &[], &[]);
        let problem = problem.unwrap_err().to_string();
        assert!(problem.contains(words), "{words} in {problem}");
    };
    let [cpu] = first_cpu();
    refused(Path::new("/bin/false"), cpu, dir.path(), "false ended");
    refused(&no_program, cpu, dir.path(), "notes.txt does not start");
    refused(Path::new("/nowhere"), cpu, dir.path(), "/nowhere");
    refused(
        Path::new("/bin/false"),
        1_000,
        dir.path(),
        "processor 1000 ",
    );
    refused(Path::new("/bin/false"), cpu, &no_program, "notes.txt");
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 1, "only the notes");
}

/// Makes this test one whose environment sets a broker's settings.
const CHILD: &str = "BENCH_TESTS_CHILD";

#[test]
fn settings_of_our_own_environment_do_not_reach_the_broker() {
    if std::env::var_os(CHILD).is_some() {
        start(&[], &[]).unwrap();
        return;
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "settings_of_our_own_environment_do_not_reach_the_broker",
        ])
        .env(CHILD, "1")
        .env("FELIX_SPIN_US", "soon")
        .env("RUST_LOG", "felix=loud")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_footprint_has_every_figure() {
    let plan = FootprintPlan {
        connections: 200,
        shards: 50,
        idle_s: 1,
        ..FootprintPlan::quick(first_cpu().into())
    };
    let mut steps = 0;
    let dir = std::env::temp_dir();
    let footprint = footprint::take(&plan, &binary(), &dir, |_| steps += 1).unwrap();
    assert_eq!(steps, 4);
    assert!(footprint.broker_bytes > 1 << 20);
    assert!(footprint.idle_cpu_ticks < 100, "{footprint}");
    assert!(footprint.used_connection_bytes > 0, "{footprint}");
    assert!(footprint.shard_bytes > 0, "{footprint}");
}
