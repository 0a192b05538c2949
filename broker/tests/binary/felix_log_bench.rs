//! `felix-log bench`, run as an operator runs it: tiny runs, whose figures say nothing.

use crate::printed::{lines, said};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const QUANTILES: [&str; 5] = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"];

fn bench(dir: &Path, arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_felix-log"));
    program.arg("bench").arg(dir).args(arguments);
    program.stdin(Stdio::null());
    program
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    bench(dir, arguments).output().unwrap()
}

/// What one prints that ends well.
fn measured(dir: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = run(dir, arguments);
    assert!(output.status.success(), "{}", said(&output));
    lines(&output)
}

fn is_left_as_it_was(dir: &Path) -> bool {
    let names = std::fs::read_dir(dir).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names == ["kept"]
}

/// A directory with a file of somebody else.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kept"), "of somebody else").unwrap();
    dir
}

#[test]
fn every_combination_is_measured_beside_its_floor_and_nothing_is_left() {
    let dir = place();
    let arguments = [
        "--policy=none,periodic,on_commit",
        "--waiters=1,3",
        "--shards=2",
        "--batch-bytes=2000",
        "--seconds=0.05",
        "--rounds=2",
        "--json",
    ];
    let lines = measured(dir.path(), &arguments);
    assert_eq!(lines[0]["type"], "machine");
    assert!(!lines[0]["kernel"].as_str().unwrap().is_empty());
    let sides: Vec<_> = lines.iter().filter(|line| line["type"] == "side").collect();
    assert_eq!(sides.len(), 2 * 6);
    for side in &sides {
        let quantiles = QUANTILES.map(|name| side[name].as_f64().unwrap());
        assert!(quantiles.is_sorted() && quantiles[0] > 0.0, "{side}");
        assert!(side["samples"].as_u64().unwrap() > 0, "{side}");
        assert!(side["appends_per_second"].as_f64().unwrap() > 0.0, "{side}");
        assert_eq!(
            (&side["rounds"], &side["p999_is_indicative"]),
            (&2.into(), &true.into())
        );
    }
    let flushed: Vec<_> = sides
        .iter()
        .filter(|side| side["policy"] == "on_commit" && side["waiters"] == 3)
        .collect();
    for side in flushed {
        let fan_in = side["appends_per_flush"].as_f64().unwrap();
        assert!(fan_in > 0.0 && fan_in <= 3.0, "{side}");
    }
    let ratios = lines.iter().filter(|line| line["type"] == "ratio");
    assert_eq!(ratios.count(), 6);
    assert!(is_left_as_it_was(dir.path()));
}

#[test]
fn an_open_loop_makes_as_many_appends_as_the_rate_says_and_a_table_shows_them() {
    let dir = place();
    let arguments = [
        "--policy=periodic",
        "--rate=2000",
        "--seconds=0.1",
        "--rounds=1",
    ];
    let told = measured(dir.path(), &[&arguments[..], &["--json"]].concat());
    for side in told.iter().filter(|line| line["type"] == "side") {
        assert_eq!(side["samples"], 200, "{side}");
    }
    let table = said(&run(dir.path(), &arguments));
    for words in [
        "Linux",
        "periodic, 1024 bytes",
        "p99.9 us",
        "engine",
        "floor",
        "ratio",
    ] {
        assert!(table.contains(words), "no {words} in {table}");
    }
    assert!(table.contains('~'), "few samples are marked: {table}");
}

#[test]
fn each_scenario_tells_its_target_what_was_measured_and_the_verdict() {
    let dir = place();
    let lines = measured(dir.path(), &["--scenarios", "--quick", "--json"]);
    let told: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "scenario")
        .collect();
    let names: Vec<&str> = told
        .iter()
        .map(|line| line["name"].as_str().unwrap())
        .collect();
    for name in [
        "append-tail 2000/s",
        "append-tail 20000/s",
        "commit-latency",
        "fan-in, one shard",
        "fan-in, 64 shards",
        "dirty-shards",
        "recovery",
        "open-shards, time",
        "open-shards, memory",
        "disturbance, a catch-up reader",
        "disturbance, running retention",
        "disturbance, a neighbour that fills the page cache",
        "disturbance, a memory limit of 1 GiB",
    ] {
        assert!(names.contains(&name), "no {name} among {names:?}");
    }
    for line in told {
        let verdict = line["verdict"].as_str().unwrap();
        assert!(
            ["met", "missed", "not measured"].contains(&verdict),
            "{line}"
        );
        let measured = line["measured"].as_str().unwrap();
        assert!(!measured.is_empty() && !measured.contains("NaN"), "{line}");
    }
    assert!(is_left_as_it_was(dir.path()));
}

#[test]
fn arguments_that_make_no_sense_are_answered_with_what_is_wrong_with_them() {
    let dir = place();
    for (arguments, words) in [
        (&["--policy=often"][..], "often"),
        (&["--rate=0"], "--rate"),
        (&["--waiters=0"], "--waiters"),
        (&["--batch-bytes=5"], "--batch-bytes"),
        (&["--seconds=soon"], "not a number"),
        (
            &["--cpus=4000"],
            "processor 4000 is none that this program may use",
        ),
        (&["--scenarios=speed"], "append-tail"),
        (&["--quick"], "--scenarios"),
        (
            &["--segment-bytes=65536", "--batch-bytes=100000"],
            "--segment-bytes is below --batch-bytes",
        ),
    ] {
        let refused = run(dir.path(), arguments);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(words), "{}", said(&refused));
    }
    assert!(is_left_as_it_was(dir.path()));
}

#[test]
fn files_go_only_where_no_logs_are() {
    let dir = place();
    let file = run(&dir.path().join("kept"), &[]);
    assert_eq!(file.status.code(), Some(2));
    assert!(
        said(&file).contains("is not a directory"),
        "{}",
        said(&file)
    );
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir(data.path().join("streams")).unwrap();
    let refused = run(data.path(), &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("holds logs"), "{}", said(&refused));
}

#[test]
fn one_that_is_asked_to_end_takes_its_files_with_it() {
    let dir = place();
    let mut command = bench(dir.path(), &["--policy=periodic", "--seconds=3000"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut told = std::io::BufReader::new(child.stdout.take().unwrap());
    // The first line comes once its directory is there.
    std::io::BufRead::read_line(&mut told, &mut String::new()).unwrap();
    assert!(!is_left_as_it_was(dir.path()));
    let pid = i32::try_from(child.id()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(is_left_as_it_was(dir.path()));
}
