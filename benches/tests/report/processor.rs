//! The log processor of the HdrHistogram project, which comes with Apache Kafka's tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const JARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/java/jars");

/// How many values, and the longest in milliseconds, that it reads for a tag of a log.
pub(crate) fn totals(log: &Path, tag: &str) -> (u64, f64) {
    let output = Command::new("java")
        .arg("-cp")
        .arg(jar())
        .arg("org.HdrHistogram.HistogramLogProcessor")
        .arg("-i")
        .arg(log)
        .args(["-tag", tag])
        .output()
        .expect("scripts/setup-java.sh installs Java");
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with("#[Max"));
    let line = line.unwrap_or_else(|| panic!("no totals in {text}{errors}"));
    // #[Max     =      100.139, Total count    =        80000]
    let numbers = line.split(['=', ',', ']']).map(str::trim);
    let numbers: Vec<f64> = numbers.filter_map(|word| word.parse().ok()).collect();
    let [longest_ms, count] = numbers[..] else {
        panic!("{line:?} has other numbers");
    };
    let count = format!("{count}").parse().expect("a count is whole");
    (count, longest_ms)
}

fn jar() -> PathBuf {
    let jars = fs::read_dir(JARS).expect("scripts/setup-java.sh fetches them");
    let mut paths = jars.map(|jar| jar.unwrap().path());
    let jar = paths.find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("HdrHistogram"))
    });
    jar.expect("it is one of those of scripts/setup-java.sh")
}
