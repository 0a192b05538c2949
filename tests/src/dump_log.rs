//! Apache Kafka's own reader of log directories, `kafka-dump-log`, as an oracle for ours.

use crate::java;
use crate::process::{Finished, Process};
use std::path::PathBuf;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(300);

/// What it takes for noise: its logging library tells that nobody set it up.
const NOISE: [&str; 2] = ["SLF4J", "WARNING: sun.reflect"];

/// How the line of a record begins.
const RECORD: &[u8] = b"| offset: ";

/// What the tool said of some files.
#[derive(Debug)]
pub struct Dump {
    stdout: Vec<u8>,
    /// Its complaints, line by line. It exits with 0 whatever it finds in a whole file, so they are
    /// what counts.
    pub complaints: Vec<String>,
}

/// A record as the tool prints it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dumped {
    /// Its offset.
    pub offset: i64,
    /// `CreateTime` or `LogAppendTime`.
    pub clock: String,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
}

/// Has the tool read `files`, with further options.
#[must_use]
pub fn run(files: &[PathBuf], options: &[&str]) -> Dump {
    Dump::of(start(files, options).finish(TIMEOUT).ok())
}

/// The same with files that it may give up on, with a complaint.
#[must_use]
pub fn run_to_the_end_or_not(files: &[PathBuf], options: &[&str]) -> Dump {
    Dump::of(start(files, options).finish(TIMEOUT))
}

fn start(files: &[PathBuf], options: &[&str]) -> Process {
    let names: Vec<&str> = files
        .iter()
        .map(|file| file.to_str().expect("our names are text"))
        .collect();
    let mut command = java::command(&["-cp"]);
    command
        .arg(java::jars())
        .arg("kafka.tools.DumpLogSegments")
        .args(["--max-message-size", "16777216"])
        .args(options)
        .args(["--files", &names.join(",")]);
    let name = format!("kafka-dump-log {}", options.join(" "));
    Process::start(&name, &mut command, None)
}

impl Dump {
    fn of(finished: Finished) -> Self {
        let complaints = finished
            .stderr
            .lines()
            .filter(|line| !line.is_empty() && !NOISE.iter().any(|noise| line.starts_with(noise)));
        Self {
            complaints: complaints.map(str::to_owned).collect(),
            stdout: finished.stdout,
        }
    }

    /// Its lines but for those of records.
    pub fn text(&self) -> impl Iterator<Item = String> {
        let lines = self.lines().filter(|line| !line.starts_with(RECORD));
        lines.map(|line| String::from_utf8_lossy(line).into_owned())
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
    }

    /// Lines that have `text` in them, those of records left out.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        let has = |line: &&[u8]| !line.starts_with(RECORD) && find(line, text).is_some();
        self.lines().filter(has).count()
    }

    /// Lines that begin with `text`.
    #[must_use]
    pub fn count_beginning(&self, text: &str) -> usize {
        let begins = |line: &&[u8]| line.starts_with(text.as_bytes());
        self.lines().filter(begins).count()
    }

    /// The records of all batches, in the order of the files. Needs `--print-data-log`.
    #[must_use]
    pub fn records(&self) -> Vec<Dumped> {
        let lines = self.lines().filter(|line| line.starts_with(RECORD));
        lines.map(Dumped::parse).collect()
    }
}

impl Dumped {
    /// `| offset: 1 CreateTime: 2 keySize: 3 valueSize: 4 sequence: -1 headerKeys: [] key: k payload: v`
    fn parse(line: &[u8]) -> Self {
        let told = || String::from_utf8_lossy(line).into_owned();
        let payload = " payload: ";
        let end = find(line, payload).unwrap_or_else(|| panic!("no payload: {}", told()));
        let (head, value) = (&line[..end], &line[end + payload.len()..]);
        let words: Vec<&str> = std::str::from_utf8(head)
            .expect("our keys are text")
            .split(' ')
            .collect();
        let number = |place: usize| -> i64 {
            let word = words.get(place).and_then(|word| word.parse().ok());
            word.unwrap_or_else(|| panic!("no number at {place}: {}", told()))
        };
        let key = (number(6) >= 0).then(|| {
            let at = find(head, " key: ").unwrap_or_else(|| panic!("no key: {}", told()));
            head[at + " key: ".len()..].to_vec()
        });
        if let Some(key) = &key {
            assert_eq!(Ok(key.len()), usize::try_from(number(6)), "{}", told());
        }
        assert_eq!(Ok(value.len()), usize::try_from(number(8)), "{}", told());
        Self {
            offset: number(2),
            clock: words[3].trim_end_matches(':').to_owned(),
            timestamp: number(4),
            key,
            value: value.to_vec(),
        }
    }
}

fn find(line: &[u8], text: &str) -> Option<usize> {
    line.windows(text.len())
        .position(|found| found == text.as_bytes())
}
