//! What goes wrong in the middle is told, and what was measured before is there.

use crate::program::{path, program, run, said};
use felix_tests::{Broker, Process, Stream, eventually};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

#[test]
fn a_broker_that_is_killed_is_named_in_every_report() {
    let mut broker = Broker::start(&[Stream::new("default.load", 1)]);
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("report.html");
    let target = format!("felix={}", broker.bootstrap());
    let mut command = program();
    command
        .args([
            "run",
            "--target",
            &target,
            "--topic",
            "default.load",
            "--floor",
            "none",
            "--json",
        ])
        .args([
            "--duration",
            "300ms",
            "--warm-up",
            "0s",
            "--rounds",
            "1000",
            "--rate",
            "1000",
        ])
        .args(["--html", path(&html)]);
    let mut run = Process::start("felix-bench", &mut command, None);
    run.wait_until("the third round", Duration::from_secs(60), |_, said| {
        String::from_utf8_lossy(said).contains("round 3 of 1000")
    });
    broker.kill();
    let finished = run.finish(Duration::from_secs(60));
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
    let object: serde_json::Value = serde_json::from_slice(&finished.stdout).unwrap();
    let problem = object["problem"].as_str().unwrap();
    assert!(problem.starts_with("felix: "), "{problem}");
    let rounds = object["comparisons"][0]["sides"][0]["rounds"]
        .as_array()
        .unwrap();
    assert!(rounds.len() >= 2);
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("This run could not go on: felix: "));
}

#[test]
fn a_report_that_cannot_be_written_takes_nothing_else_with_it() {
    let arguments = [
        "run",
        "--rate",
        "500",
        "--duration",
        "200ms",
        "--rounds",
        "1",
    ];
    let output = run(&[&arguments[..], &["--html", "/dev/full"]].concat());
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/dev/full cannot be written"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("echo (floor)"));
}

#[test]
fn two_reports_cannot_be_one_file() {
    let output = run(&["run", "--html", "/tmp/one", "--hlog", "/tmp/one"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("the same file"));
}

/// Answers each frame on one connection after the other, by `correlation` of the number of the
/// request and how many came before it.
fn serve(listener: &TcpListener, correlation: impl Fn(i32, usize) -> i32) {
    for connection in listener.incoming().take(2) {
        let mut connection: TcpStream = connection.unwrap();
        let mut length = [0; 4];
        let mut count = 0;
        while connection.read_exact(&mut length).is_ok() {
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            connection.read_exact(&mut request).unwrap();
            let asked = i32::from_be_bytes(request[4..8].try_into().unwrap());
            let mut answer = vec![0; 53];
            answer[..4].copy_from_slice(&49_i32.to_be_bytes());
            answer[4..8].copy_from_slice(&correlation(asked, count).to_be_bytes());
            count += 1;
            // Whoever does not like the answer hangs up.
            if connection.write_all(&answer).is_err() {
                break;
            }
        }
    }
}

#[test]
fn an_answer_to_another_request_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, |asked, count| asked + i32::from(count == 100)));
        let output = run(&[
            "run",
            "--floor",
            &address,
            "--rounds",
            "1",
            "--duration",
            "5s",
        ]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("answered another request"), "{said}");
    });
}

#[test]
fn no_process_is_left_of_a_broker_behind_a_script() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("felix-broker");
    let real = felix_tests::broker_binary().display().to_string();
    // Not by exec: the broker is a child of the shell.
    std::fs::write(&script, format!("#!/bin/sh\n{real} \"$@\"\nexit $?\n")).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let home = dir.path().join("data");
    std::fs::create_dir(&home).unwrap();
    let output = run(&[
        "race",
        "--quick",
        "--only",
        "fetch",
        "--rounds",
        "1",
        "--turn",
        "200ms",
        "--broker",
        path(&script),
        "--dir",
        path(&home),
    ]);
    assert!(output.status.success(), "{}", said(&output));
    eventually("nobody works in the directory", || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let dirs = processes.filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok());
        !dirs.into_iter().any(|cwd| cwd.starts_with(dir.path()))
    });
}
