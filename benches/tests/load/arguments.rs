//! What makes no sense gets a sentence, and nothing is started.

use crate::program::{path, run, said};

/// Arguments, and a word of what is said of them.
const NONSENSE: &[(&[&str], &str)] = &[
    (&["run", "--floor", "none"], "--target"),
    (&["run", "--acks", "0"], "--target"),
    (&["run", "--target", "nowhere"], "host:port"),
    (&["run", "--target", "127.0.0.1:0"], "host:port"),
    (
        &[
            "run",
            "--target",
            "a=127.0.0.1:9",
            "--target",
            "a=127.0.0.1:8",
        ],
        "two targets are called a",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--rate", "0"],
        "is no rate",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--rate", "1,,2"],
        "is no rate",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--duration", "0s"],
        "--duration",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--duration", "5 years"],
        "no length of time",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--cpus", "4000"],
        "processor 4000",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--cpus", "x"],
        "no processors",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--size", "big"],
        "no size",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--keys", "zipf"],
        "number of keys",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--skew", "keys"],
        "--keys",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--skew", "hot:200"],
        "hot:90",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--batch", "0"],
        "from 1 to",
    ),
    (
        &[
            "run",
            "--target",
            "127.0.0.1:9",
            "--workload",
            "end-to-end",
            "--acks",
            "0",
        ],
        "--acks",
    ),
    (
        &[
            "run",
            "--target",
            "127.0.0.1:9",
            "--idempotent",
            "--acks",
            "1",
        ],
        "--acks all",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--tls-cert", "a.pem"],
        "belong together",
    ),
    (
        &[
            "run",
            "--target",
            "127.0.0.1:9",
            "--tls-ca",
            "/nonexistent.pem",
        ],
        "/nonexistent.pem",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--users", "/nonexistent"],
        "/nonexistent",
    ),
    (
        &[
            "run",
            "--target",
            "127.0.0.1:9",
            "--html",
            "/nonexistent/r.html",
        ],
        "cannot be written",
    ),
    (
        &["run", "--target", "127.0.0.1:9", "--floor", "here"],
        "host:port",
    ),
    (
        &[
            "race",
            "--broker",
            "/nonexistent/felix-broker",
            "--broker-cpu",
            "4000",
        ],
        "processor 4000",
    ),
    (
        &[
            "race",
            "--broker-cpu",
            "0",
            "--client-cpu",
            "0",
            "--broker",
            "/x",
        ],
        "share processor 0",
    ),
    (
        &["race", "--broker", "/x", "--dir", "/nonexistent"],
        "is no directory",
    ),
    (&["floor"], "KIND"),
    (&["floor", "write-echo"], "--dir"),
    (&["floor", "sky"], "echo"),
    (&["footprint", "--broker-cpu=-1"], "from 0 to"),
    (&["rce"], "race"),
];

#[test]
fn nonsense_gets_a_sentence_and_the_code_for_misuse() {
    for (arguments, word) in NONSENSE {
        let output = run(arguments);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.to_lowercase().contains(&word.to_lowercase()),
            "{arguments:?}: {said}"
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_broker_that_is_not_there_is_named_and_the_report_says_that_nothing_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("report.html");
    // Port 1 is nobody's on a machine of tests.
    let output = run(&["run", "--target", "127.0.0.1:1", "--html", path(&html)]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("127.0.0.1:1"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Nothing was measured"));
    assert!(
        std::fs::read_to_string(html)
            .unwrap()
            .contains("Nothing was measured")
    );
}

#[test]
fn a_password_in_a_file_of_users_is_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users");
    std::fs::write(&users, "hunter2-without-a-colon\n").unwrap();
    let output = run(&["run", "--target", "127.0.0.1:1", "--users", path(&users)]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("line 1: write USER:PASSWORD"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
