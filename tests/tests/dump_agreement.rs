//! Two readers of the same files, Apache Kafka's `kafka-dump-log` and our `felix-log`, see the same
//! in logs that were written under load and then killed, recovered, closed, and cut by retention: the
//! same batches with the same offsets, checksums, counts and places, and the same index entries.
//!
//! Where a killed or a living broker has space prepared behind the last batch, both see the same
//! batches, and then `kafka-dump-log` gives up on the zeros, as it does on a file that Kafka itself
//! has preallocated. Its decoder of producer states is of no use here: our snapshot of producers is
//! `producers`, in a format of its own (`docs/log-format.md`), and `shard/src/log/tests/inspected.rs`
//! holds it against the batches.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::{Broker, Process, Stream, dump_log, eventually, felix_log, files, python};
use std::path::{Path, PathBuf};
use std::time::Duration;

const TOPIC: &str = "agree.stream";
/// The least there may be, so that it rolls often.
const SETTINGS: [(&str, &str); 2] = [
    ("FELIX_DURABLE_SEGMENT_BYTES", "8388608"),
    ("FELIX_DURABLE_RETENTION_BYTES", "16777216"),
];
/// How `kafka-dump-log` gives up on zeros.
const ZEROS: &str = "Found record size 0 smaller than minimum record overhead";

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// What follows `name` in a line of pairs, up to one of `ends`.
fn field<'a>(line: &'a str, name: &str, ends: &[char]) -> &'a str {
    let at = line
        .find(name)
        .unwrap_or_else(|| panic!("no {name} in {line}"));
    let value = &line[at + name.len()..];
    value.split(ends).next().unwrap()
}

/// A batch or an entry as both tell of it.
fn seen_by_kafka(dump: &dump_log::Dump) -> Vec<String> {
    let mut file = String::new();
    let mut seen = Vec::new();
    for line in dump.text() {
        let get = |name: &str| field(&line, &format!("{name}: "), &[' ']).to_owned();
        if let Some(path) = line.strip_prefix("Dumping ") {
            file = name(Path::new(path));
        } else if line.starts_with("baseOffset: ") {
            if get("isvalid") != "true" {
                break;
            }
            let clock = ["LogAppendTime", "CreateTime"];
            let clock = clock.iter().find(|clock| line.contains(**clock)).unwrap();
            seen.push(format!(
                "{file} {}..{} of {} at {} with {} bytes, {}, crc {}, time {}, generation {}, \
                 producer {} {} {}",
                get("baseOffset"),
                get("lastOffset"),
                get("count"),
                get("position"),
                get("size"),
                get("compresscodec"),
                get("crc"),
                get(clock),
                get("partitionLeaderEpoch"),
                get("producerId"),
                get("producerEpoch"),
                get("baseSequence"),
            ));
        } else if line.starts_with("offset: ") {
            seen.push(format!("{file} {} at {}", get("offset"), get("position")));
        } else if line.starts_with("timestamp: ") {
            seen.push(format!("{file} {} at {}", get("timestamp"), get("offset")));
        }
    }
    seen
}

/// What lies behind the last batch that is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    Nothing,
    Zeros,
    /// A batch whose write the kill has cut short.
    Torn,
}

/// The same as we see it, up to what is not whole.
fn seen_by_us(file: &Path) -> (Vec<String>, Rest) {
    let mut seen = Vec::new();
    let mut rest = Rest::Nothing;
    for line in felix_log::dump(file) {
        let get = |name: &str| {
            let value = field(&line, &format!("\"{name}\":"), &[',', '}']);
            value.trim_matches('"').to_owned()
        };
        let of_file = get("file");
        assert_eq!(of_file, name(file));
        match &*get("type") {
            "batch" if get("valid") != "true" => return (seen, Rest::Torn),
            "batch" => {
                let crc = u32::from_str_radix(&get("crc"), 16).unwrap();
                seen.push(format!(
                    "{of_file} {}..{} of {} at {} with {} bytes, {}, crc {crc}, time {}, \
                     generation {}, producer {} {} {}",
                    get("base_offset"),
                    get("last_offset"),
                    get("records"),
                    get("position"),
                    get("bytes"),
                    get("codec"),
                    get("max_timestamp"),
                    get("generation"),
                    get("producer_id"),
                    get("producer_epoch"),
                    get("base_sequence"),
                ));
            }
            "index" => seen.push(format!(
                "{of_file} {} at {}",
                get("offset"),
                get("position")
            )),
            "timeindex" => {
                seen.push(format!(
                    "{of_file} {} at {}",
                    get("timestamp"),
                    get("offset")
                ));
            }
            "rest" if get("fault") == "null" => rest = Rest::Zeros,
            "rest" => rest = Rest::Torn,
            other => panic!("{other}: {line}"),
        }
    }
    (seen, rest)
}

/// Both see the same in a log whose broker was stopped in order, and nothing to complain of.
fn assert_agree_on_closed(dir: &Path) {
    let [logs, indexes, times] = ["log", "index", "timeindex"].map(|ending| files(dir, ending));
    assert_eq!((indexes.len(), times.len()), (logs.len(), logs.len()));
    let both = [indexes, times].concat();
    let all = [logs, both.clone()].concat();
    let dump = dump_log::run(&all, &["--deep-iteration"]);
    assert!(dump.complaints.is_empty(), "{:#?}", dump.complaints);
    let mut ours = Vec::new();
    for file in &all {
        let (seen, rest) = seen_by_us(file);
        assert_eq!(rest, Rest::Nothing, "{}", file.display());
        ours.extend(seen);
    }
    assert_same(&seen_by_kafka(&dump), &ours);
    let dump = dump_log::run(&both, &["--index-sanity-check"]);
    assert!(dump.complaints.is_empty(), "{:#?}", dump.complaints);
    // Of one without an entry, as a last segment of few bytes has it, there is nothing to check.
    let has_entries = |file: &&PathBuf| file.metadata().unwrap().len() > 0;
    let checked = both.iter().filter(has_entries).count();
    assert_eq!(dump.count(" passed sanity check."), checked);
}

/// Both see the same in a log whose broker was killed, or is alive; how many files have something
/// behind their batches.
fn assert_agree_on_torn(dir: &Path) -> usize {
    let all = ["log", "index", "timeindex"].map(|ending| files(dir, ending));
    let ours = all.concat().into_iter().map(|file| {
        let (seen, rest) = seen_by_us(&file);
        (file, seen, rest)
    });
    let (whole, torn): (Vec<_>, Vec<_>) = ours.partition(|(.., rest)| *rest == Rest::Nothing);
    let seen: Vec<String> = whole.iter().flat_map(|(_, seen, _)| seen.clone()).collect();
    let whole: Vec<PathBuf> = whole.into_iter().map(|(file, ..)| file).collect();
    if !whole.is_empty() {
        let dump = dump_log::run(&whole, &["--deep-iteration"]);
        assert!(dump.complaints.is_empty(), "{:#?}", dump.complaints);
        assert_same(&seen_by_kafka(&dump), &seen);
    }
    for (file, seen, rest) in &torn {
        let one = std::slice::from_ref(file);
        let dump = dump_log::run_to_the_end_or_not(one, &["--deep-iteration"]);
        assert_same(&seen_by_kafka(&dump), seen);
        let complaints = dump.complaints.concat();
        let is_of_zeros = complaints.contains(ZEROS);
        assert!(is_of_zeros || *rest == Rest::Torn, "{complaints}");
    }
    torn.len()
}

fn assert_same(theirs: &[String], ours: &[String]) {
    let differs = theirs
        .iter()
        .zip(ours)
        .find(|(theirs, ours)| theirs != ours);
    assert_eq!(differs, None, "Kafka's first");
    assert_eq!(theirs.len(), ours.len());
}

fn copied(dir: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for ending in ["log", "index", "timeindex"] {
        for file in files(dir, ending) {
            std::fs::copy(&file, to.path().join(name(&file))).unwrap();
        }
    }
    to
}

/// Producers with different codecs, until the broker goes.
fn load(broker: &Broker) -> Vec<Process> {
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    let start = |number: usize| {
        let name = format!("p{number}");
        let codec = format!("compression.type={}", codecs[number]);
        let args = [
            &*broker.bootstrap(),
            TOPIC,
            "1",
            &name,
            &codec,
            "linger.ms=2",
        ];
        python::start("load.py", &args, None)
    };
    (0..codecs.len()).map(start).collect()
}

fn finish(producers: Vec<Process>) {
    for producer in producers {
        drop(producer.finish(Duration::from_secs(90)).ok());
    }
}

/// The segment that the log begins with.
fn first_base(dir: &Path) -> String {
    name(&files(dir, "log")[0])
}

#[test]
fn kafka_and_felix_log_see_the_same_in_a_log_that_was_killed_recovered_and_cut() {
    let mut broker = Broker::start_with(&[Stream::new(TOPIC, 1)], &SETTINGS);
    let dir = broker.shard_dir(TOPIC, 0);
    let begin = first_base(&dir);
    let producers = load(&broker);
    eventually("it has rolled", || {
        broker.metric("felix_storage_segment_roll_total") > 3.5
    });
    broker.kill();
    finish(producers);
    let killed = copied(&dir);
    let torn = assert_agree_on_torn(killed.path());
    assert!(torn > 0, "it was killed with space prepared");
    broker.start_again();
    // A broker that ends leaves what it is removing to the next one.
    eventually("retention has cut it, and what is cut is gone", || {
        let first = first_base(&dir);
        let start = broker.metric("felix_storage_retention_base_offset");
        first != begin && first == format!("{start:020}.log")
    });
    assert!(broker.terminate().success());
    assert!(files(&dir, "log").len() >= 2);
    assert_agree_on_closed(&dir);
}

#[test]
fn kafka_and_felix_log_see_the_same_in_a_copy_of_a_log_that_is_alive() {
    let broker = Broker::start_with(&[Stream::new(TOPIC, 1)], &SETTINGS);
    let dir = broker.shard_dir(TOPIC, 0);
    let mut wire = felix_tests::wire::Wire::connect(broker.port());
    for _ in 0..90 {
        assert_eq!(wire.produce(TOPIC, 0, &[b'x'; 100_000]).0, 0);
    }
    // The space behind a full segment is given back before it has its indexes.
    eventually("the full segment has its indexes", || {
        files(&dir, "timeindex").len() == 1 && files(&dir, "index").len() == 1
    });
    eventually("space is prepared", || {
        broker.metric("felix_storage_prepared_bytes") > 0.0
    });
    let copy = copied(&dir);
    assert_eq!(files(copy.path(), "log").len(), 2);
    assert_eq!(assert_agree_on_torn(copy.path()), 1);
    drop(broker);
}
