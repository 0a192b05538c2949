//! What a real broker lets go of. Whole full segments go from the head of a log, by bytes or by age;
//! clients are told where it begins, and a kill at any moment leaves a log that is whole from there.

use felix_tests::wire::Wire;
use felix_tests::{Broker, Kept, Policy, Random, Stream, eventually, files, kcat};
use std::path::PathBuf;

const TOPIC: &str = "kept.stream";
const ON_COMMIT: [Stream; 1] = [Stream::new(TOPIC, 1).flushed(Policy::OnCommit)];

/// The smallest segments there are: nine of the values below fill one.
const SMALL_SEGMENTS: (&str, &str) = ("FELIX_DURABLE_SEGMENT_BYTES", "8388608");
const SEGMENT_BYTES: u64 = 8 << 20;
const KEPT: (&str, &str) = ("FELIX_DURABLE_RETENTION_BYTES", "16777216");
const KEPT_BYTES: u64 = 16 << 20;

const OFFSET_OUT_OF_RANGE: i16 = 1;

/// A record that knows its number by its size.
fn value(number: i64) -> Vec<u8> {
    let bytes = 900_000 + usize::try_from(number).expect("numbers count up");
    vec![b'x'; bytes]
}

/// Writes the records of these numbers, which are their offsets.
fn produce(wire: &mut Wire, numbers: std::ops::Range<i64>) {
    produce_to(wire, TOPIC, numbers);
}

fn produce_to(wire: &mut Wire, topic: &'static str, numbers: std::ops::Range<i64>) {
    for number in numbers {
        assert_eq!(wire.produce(topic, 0, &value(number)), (0, number));
    }
}

/// Where the log begins, as a fetch says it.
fn start(wire: &mut Wire) -> i64 {
    start_of(wire, TOPIC)
}

fn start_of(wire: &mut Wire, topic: &'static str) -> i64 {
    let answer = wire.fetch(topic, 0, 0, 0);
    answer.responses[0].partitions[0].log_start_offset
}

/// Base offsets of the segments on disk.
fn segments(broker: &Broker) -> Vec<i64> {
    let paths = files(&broker.shard_dir(TOPIC, 0), "log").into_iter();
    let base = |path: PathBuf| path.file_stem()?.to_str()?.parse().ok();
    paths.map(|path| base(path).expect("20 digits")).collect()
}

fn log_bytes(broker: &Broker) -> u64 {
    let dir = broker.shard_dir(TOPIC, 0);
    let size = |base: i64| {
        let path = dir.join(format!("{base:020}.log"));
        path.metadata().map_or(0, |found| found.len())
    };
    segments(broker).into_iter().map(size).sum()
}

/// What a reader from the beginning gets: every record from the log start to the end, as written.
fn assert_whole(broker: &Broker, start: i64, end: i64) {
    assert_eq!(first_read(broker, end), start);
}

/// The offset of the first record that a reader from the beginning gets, which gets every record
/// from there to the end, as written.
fn first_read(broker: &Broker, end: i64) -> i64 {
    let seen = kcat::read(&broker.bootstrap(), TOPIC, None, "beginning", r"%o %S\n");
    let first = seen
        .split(' ')
        .next()
        .and_then(|offset| offset.parse().ok());
    let first = first.unwrap_or(end);
    let expected: Vec<String> = (first..end)
        .map(|number| format!("{number} {}", value(number).len()))
        .collect();
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
    first
}

/// No file is left below the log start.
fn files_begin_at(broker: &Broker, start: i64) {
    eventually("the files below the log start are gone", || {
        segments(broker).first() == Some(&start)
    });
}

#[test]
fn by_bytes_the_head_goes_and_clients_are_told_where_the_log_begins_after_a_restart_too() {
    let mut broker = Broker::start_with(&ON_COMMIT, &[SMALL_SEGMENTS, KEPT]);
    let mut wire = Wire::connect(broker.port());
    produce(&mut wire, 0..60);
    let (mut begins, mut seen) = (0, 0);
    eventually("the log start moves with the last full segment", || {
        begins = start(&mut wire);
        seen += 1;
        broker.metric("felix_storage_retention_segments_deleted_total") >= 4.0
    });
    let begins = begins.max(start(&mut wire));
    assert!(begins > 0 && seen > 0);
    files_begin_at(&broker, begins);
    let kept = log_bytes(&broker);
    assert!((KEPT_BYTES..KEPT_BYTES + 2 * SEGMENT_BYTES).contains(&kept));
    let below = wire.fetch(TOPIC, 0, begins - 1, 0);
    let part = &below.responses[0].partitions[0];
    assert_eq!(part.error_code, OFFSET_OUT_OF_RANGE);
    let partition = format!("{TOPIC}:0:-2");
    let listed = kcat::output(&broker.bootstrap(), &["-Q", "-t", &partition]);
    assert!(
        listed.trim_end().ends_with(&format!("offset {begins}")),
        "{listed}"
    );
    assert_whole(&broker, begins, 60);

    broker.terminate();
    broker.start_again();
    let mut wire = Wire::connect(broker.port());
    assert_eq!(start(&mut wire), begins);
    assert_whole(&broker, begins, 60);
    produce(&mut wire, 60..61);
}

#[test]
fn by_age_a_quiet_stream_loses_its_last_records_too_after_a_restart_as_well() {
    let settings = [
        ("FELIX_DURABLE_RETENTION_SECONDS", "2"),
        ("FELIX_DURABLE_RETENTION_INTERVAL_SECONDS", "1"),
    ];
    let streams = [Policy::None, Policy::Periodic, Policy::OnCommit];
    for policy in streams {
        let mut broker = Broker::start_with(&[Stream::new(TOPIC, 1).flushed(policy)], &settings);
        let mut wire = Wire::connect(broker.port());
        for end in [3, 6] {
            produce(&mut wire, end - 3..end);
            eventually("nothing is left", || start(&mut wire) == end);
            files_begin_at(&broker, end);
            assert_whole(&broker, end, end);
        }
        assert_eq!(broker.metric("felix_storage_segment_roll_total"), 2.0);
        produce(&mut wire, 6..7);
        broker.kill();
        broker.start_again();
        let mut wire = Wire::connect(broker.port());
        eventually("nothing is left", || start(&mut wire) == 7);
        files_begin_at(&broker, 7);
        produce(&mut wire, 7..8);
    }
}

#[test]
fn a_kill_amid_retention_leaves_every_record_from_the_log_start_on() {
    let mut random = Random::from_environment();
    let mut broker = Broker::start_with(&ON_COMMIT, &[SMALL_SEGMENTS, KEPT]);
    let (mut end, mut before) = (0, 0);
    for _ in 0..8 {
        let mut wire = Wire::connect(broker.port());
        let more = 1 + i64::try_from(random.within(0..14)).expect("few");
        produce(&mut wire, end..end + more);
        end += more;
        // What the last roll left to do is under way.
        broker.kill();
        broker.start_again();
        let mut wire = Wire::connect(broker.port());
        let begins = start(&mut wire);
        assert!(begins >= before, "a log never begins earlier again");
        let first = first_read(&broker, end);
        // Retention may go on meanwhile.
        before = start(&mut wire);
        assert!(
            begins <= first && first <= before,
            "{begins} {first} {before}"
        );
        eventually("the files below the log start are gone", || {
            segments(&broker).first() == Some(&start(&mut wire))
        });
    }
}

#[test]
fn each_stream_keeps_what_its_entry_says_and_the_others_what_the_settings_say() {
    let stream = |topic, bytes, seconds| {
        let stream = Stream::new(topic, 1).flushed(Policy::OnCommit);
        stream.keeping(bytes, seconds)
    };
    let streams = [
        stream("kept.unsaid", Kept::Unsaid, Kept::Unsaid),
        stream("kept.less", Kept::For(8 << 20), Kept::Unsaid),
        stream("kept.all", Kept::Unlimited, Kept::Unsaid),
        stream("kept.briefly", Kept::Unlimited, Kept::For(1)),
    ];
    let look = ("FELIX_DURABLE_RETENTION_INTERVAL_SECONDS", "1");
    let mut broker = Broker::start_with(&streams, &[SMALL_SEGMENTS, KEPT, look]);
    // Four full segments of nine records, and one more record at least: two of the segments and it
    // are 16 MiB, one and it are 8 MiB. By age the last one goes as well.
    let starts = [
        ("kept.unsaid", 18),
        ("kept.less", 27),
        ("kept.all", 0),
        ("kept.briefly", 38),
    ];
    let mut wire = Wire::connect(broker.port());
    for (topic, _) in starts {
        produce_to(&mut wire, topic, 0..38);
    }
    for _ in 0..2 {
        let mut wire = Wire::connect(broker.port());
        eventually("each begins where it should", || {
            starts.map(|(topic, _)| (topic, start_of(&mut wire, topic))) == starts
        });
        broker.terminate();
        broker.start_again();
    }
}
