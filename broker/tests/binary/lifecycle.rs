use crate::harness::{Broker, dev, field, refused};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use tempfile::tempdir;

/// The processors that this test, and so its broker, may run on.
fn allowed() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let ranges = line.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    });
    ranges.flatten().map(|cpu| cpu.to_string()).collect()
}

/// The affinity of each thread, by its name.
fn threads(pid: u32) -> BTreeMap<String, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let value = |key: &str| {
                let line = status
                    .lines()
                    .find_map(|line| line.strip_prefix(key))
                    .unwrap();
                line.trim().to_owned()
            };
            (value("Name:"), value("Cpus_allowed_list:"))
        })
        .collect()
}

#[test]
fn each_core_is_one_thread_pinned_to_its_processor() {
    let temp = tempdir().unwrap();
    let cpus = allowed();
    let asked: Vec<&str> = cpus.iter().rev().take(2).map(String::as_str).collect();
    let broker = Broker::start(temp.path(), &["--cores", &asked.join(",")]);
    let threads = threads(broker.pid());
    let cores: Vec<_> = threads
        .iter()
        .filter(|(name, _)| name.starts_with("felix-core-"))
        .collect();
    assert_eq!(cores.len(), asked.len(), "{threads:?}");
    for (core, cpu) in asked.iter().enumerate() {
        assert_eq!(
            threads
                .get(&format!("felix-core-{core}"))
                .map(String::as_str),
            Some(*cpu)
        );
    }
}

#[test]
fn side_threads_stay_off_the_pinned_processors() {
    let cpus = allowed();
    let [first, .., last] = cpus.as_slice() else {
        // With one processor there is nowhere to stay.
        return;
    };
    let temp = tempdir().unwrap();
    let broker = Broker::start(temp.path(), &["--cores", last]);
    let threads = threads(broker.pid());
    assert_eq!(threads.get("felix-core-0"), Some(last));
    for side in [
        "felix-control",
        "felix-log",
        "felix-block-0",
        "felix-heavy-0",
    ] {
        let list = threads
            .get(side)
            .unwrap_or_else(|| panic!("no {side} in {threads:?}"));
        assert!(list.starts_with(first.as_str()), "{side} runs on {list}");
        assert!(
            !list.split([',', '-']).any(|cpu| cpu == last),
            "{side} runs on {list}"
        );
    }
}

/// How the kernel schedules each thread, by its name.
fn policies(pid: u32) -> BTreeMap<String, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .filter_map(|task| {
            // One may end meanwhile.
            let stat = fs::read_to_string(task.unwrap().path().join("stat")).ok()?;
            let (name, fields) = stat.rsplit_once(") ").unwrap();
            let (_, name) = name.split_once('(').unwrap();
            // Field 41 of proc_pid_stat(5); the third is the first here.
            let policy = fields.split(' ').nth(41 - 3).unwrap();
            Some((name.to_owned(), policy.to_owned()))
        })
        .collect()
}

#[test]
fn threads_that_may_share_a_processor_with_a_core_give_way_to_it() {
    let temp = tempdir().unwrap();
    let broker = Broker::start(temp.path(), &[]);
    let policies = policies(broker.pid());
    for (name, policy) in [
        ("felix-core-0", "0"),
        ("felix-block-0", "3"),
        ("felix-heavy-0", "3"),
        ("felix-control", "3"),
        ("felix-log", "3"),
    ] {
        let found = policies.get(name).map(String::as_str);
        assert_eq!(found, Some(policy), "{name} of {policies:?}");
    }
}

#[test]
fn sigterm_and_sigint_end_it_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let temp = tempdir().unwrap();
        let mut broker = Broker::start(temp.path(), &[]);
        assert_eq!(broker.get("/ready"), (200, "ok".to_owned()));
        broker.signal(signal);
        let (status, lines) = broker.wait();
        assert_eq!(status.code(), Some(0), "{lines:#?}");
        assert!(
            lines.last().unwrap().contains("\"message\":\"ended\""),
            "{lines:#?}"
        );
        assert!(
            lines
                .iter()
                .all(|line| !line.contains("\"level\":\"ERROR\"")),
            "{lines:#?}"
        );
    }
}

#[test]
fn sighup_ends_nothing() {
    let temp = tempdir().unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    broker.signal(Signal::HUP);
    broker.line("SIGHUP: there is no file that is read anew while the broker runs");
    assert_eq!(broker.get("/ready"), (200, "ok".to_owned()));
    broker.signal(Signal::TERM);
    let line = broker.line("shutting down");
    assert_eq!(field(&line, "signal"), "SIGTERM");
    let (status, lines) = broker.wait();
    assert_eq!(status.code(), Some(0), "{lines:#?}");
}

#[test]
fn a_second_broker_on_the_same_directory_is_refused() {
    let temp = tempdir().unwrap();
    let broker = Broker::start(temp.path(), &[]);
    let second = refused(&dev(temp.path()));
    assert_eq!(second.status.code(), Some(1));
    assert!(
        second
            .stderr
            .contains("belongs to a broker that is running"),
        "{}",
        second.stderr
    );
    // Whatever is removed in it: the lock is on the directory itself.
    for entry in fs::read_dir(temp.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && !path.ends_with("catalog-state.toml") {
            fs::remove_file(path).unwrap();
        }
    }
    let again = refused(&dev(temp.path()));
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(again.stderr, second.stderr);
    drop(broker);
    Broker::start(temp.path(), &[]);
}

#[test]
fn a_killed_broker_starts_again_with_the_same_streams() {
    let temp = tempdir().unwrap();
    let mut broker = Broker::start(temp.path(), &[]);
    let id = field(&broker.line("stream"), "id");
    broker.signal(Signal::KILL);
    let (status, _) = broker.wait();
    assert_eq!(status.signal(), Some(9));
    let mut broker = Broker::start(temp.path(), &[]);
    assert_eq!(field(&broker.line("stream"), "id"), id);
    assert_eq!(broker.get("/ready"), (200, "ok".to_owned()));
}

#[test]
fn streams_of_the_catalog_file_are_served_beside_the_one_of_dev() {
    let temp = tempdir().unwrap();
    let catalog = temp.path().join("catalog.toml");
    let text = "[[stream]]\ntenant = \"dev\"\nnamespace = \"default\"\nname = \"orders\"\n\
                shards = 2\n";
    fs::write(&catalog, text).unwrap();
    let flags = ["--catalog-file", catalog.to_str().unwrap()];
    let mut broker = Broker::start(&temp.path().join("data"), &flags);
    assert_eq!(broker.metric("felix_shard_open"), Some(5.0));
}

#[test]
fn a_shard_that_cannot_be_opened_is_named_and_the_others_are_served() {
    let temp = tempdir().unwrap();
    // A file where the shard's directory was.
    let mut broker = Broker::start(temp.path(), &[]);
    let id = field(&broker.line("stream"), "id");
    broker.signal(Signal::TERM);
    broker.wait();
    let shard = temp
        .path()
        .join("streams/dev")
        .join(id)
        .join("default.clicks-1");
    fs::remove_dir_all(&shard).unwrap();
    fs::write(&shard, "").unwrap();

    let mut broker = Broker::start(temp.path(), &[]);
    let (status, body) = broker.get("/ready");
    assert_eq!(status, 200);
    let begins = "ok\nfailed: dev/default.clicks-1: ";
    assert!(body.starts_with(begins), "{body}");
    assert!(body.contains("missing"), "{body}");
    assert_eq!(broker.metric("felix_shard_open"), Some(2.0));
    assert_eq!(broker.metric("felix_shard_failed"), Some(1.0));
}
