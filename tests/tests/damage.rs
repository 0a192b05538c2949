//! What a broker makes of a log that is not what it wrote. Damage below the recovery point is never
//! repaired by guessing: that shard serves nothing and says which file and which byte, and every
//! other shard serves. A tail that never was on the device is cut at the first batch that is not
//! whole, and the shard goes on from there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::wire::Wire;
use felix_tests::{Broker, Policy, Stream, kcat};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What Kafka says where a log failed.
const KAFKA_STORAGE_ERROR: i16 = 56;
const RECORDS: usize = 30;

fn segment(broker: &Broker, topic: &str, partition: u32) -> PathBuf {
    let name = format!("{:020}.log", 0);
    broker.shard_dir(topic, partition).join(name)
}

fn value(partition: u32, number: usize) -> String {
    format!("{partition}-{number}-{}", "x".repeat(200))
}

/// One batch for each record.
fn fill(broker: &Broker, topic: &'static str, shards: u32) {
    let mut wire = Wire::connect(broker.port());
    for partition in 0..shards {
        for number in 0..RECORDS {
            let value = value(partition, number);
            let answer = wire.produce(topic, partition.cast_signed(), value.as_bytes());
            assert_eq!(answer, (0, i64::try_from(number).unwrap()));
        }
    }
}

/// Begin of each batch, and the end of the last.
fn batches(file: &Path) -> Vec<usize> {
    let bytes = fs::read(file).unwrap();
    let mut begins = vec![0];
    while let Some(length) = bytes
        .get(begins[begins.len() - 1] + 8..)
        .and_then(|b| b.get(..4))
    {
        let length = u32::from_be_bytes(length.try_into().unwrap());
        if length == 0 {
            break;
        }
        begins.push(begins[begins.len() - 1] + 12 + usize::try_from(length).unwrap());
    }
    assert_eq!(begins.len(), RECORDS + 1);
    begins
}

fn flip(file: &Path, place: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[place] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

fn zero(file: &Path, from: usize, to: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[from..to].fill(0);
    fs::write(file, bytes).unwrap();
}

/// All values of a partition, as kcat reads them.
fn read(broker: &Broker, topic: &str, partition: u32) -> Vec<String> {
    let partition = partition.to_string();
    let bootstrap = broker.bootstrap();
    let printed = kcat::read(&bootstrap, topic, Some(&partition), "beginning", r"%s\n");
    printed.lines().map(str::to_owned).collect()
}

fn values(partition: u32, count: usize) -> Vec<String> {
    (0..count).map(|number| value(partition, number)).collect()
}

/// Names and bytes of the files of a directory.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// `/ready` and the metrics name the shard as failed, with this in the reason.
fn assert_told(broker: &Broker, topic: &str, shard: i32, said: &str) {
    let (_, page) = broker.ready();
    let begins = format!("failed: dev/{topic}-{shard}: ");
    let mut lines = page.lines();
    let is_told = lines.any(|line| line.starts_with(&begins) && line.contains(said));
    assert!(is_told, "{page}");
    let numbers = broker.metrics();
    let begins = format!(
        "felix_shard_failure{{tenant=\"dev\",stream=\"{topic}\",shard=\"{shard}\",reason=\""
    );
    let mut lines = numbers.page().lines();
    let is_told = lines.any(|line| line.starts_with(&begins) && line.contains(said));
    assert!(is_told, "{}", numbers.page());
}

#[test]
fn a_damaged_shard_is_named_and_refused_and_the_others_serve() {
    const TOPIC: &str = "damage.durable";
    const SHARDS: u32 = 7;
    const FILE: &str = "00000000000000000000.log";
    let mut broker = Broker::start(&[Stream::new(TOPIC, SHARDS)]);
    fill(&broker, TOPIC, SHARDS);
    assert!(broker.terminate().success());

    let dirs: Vec<PathBuf> = (0..SHARDS)
        .map(|shard| broker.shard_dir(TOPIC, shard))
        .collect();
    let whole: Vec<_> = dirs.iter().map(|dir| contents(dir)).collect();
    let begins = batches(&segment(&broker, TOPIC, 0));
    // A flipped bit in a value, a hole over two batches, an end cut off, a file of somebody else's,
    // the file gone; shard 5 has its hole where an opening trusts the indexes, shard 6 is left alone.
    flip(&dirs[0].join(FILE), begins[22] + 100);
    zero(&dirs[1].join(FILE), begins[18], begins[20]);
    zero(&dirs[5].join(FILE), begins[7], begins[9]);
    let bytes = fs::read(dirs[2].join(FILE)).unwrap();
    fs::write(dirs[2].join(FILE), &bytes[..bytes.len() - 5]).unwrap();
    fs::write(dirs[3].join("orders.log"), "not ours").unwrap();
    fs::remove_file(dirs[4].join(FILE)).unwrap();
    let damaged: Vec<_> = dirs.iter().map(|dir| contents(dir)).collect();
    let expected = [
        format!("{FILE} is damaged at byte {}: ", begins[22]),
        format!("{FILE} is damaged at byte {}: ", begins[18]),
        format!("{FILE} is damaged at byte {}: ", begins[RECORDS - 1]),
        "orders.log is not a file of this log".to_owned(),
        format!("{FILE} is damaged at byte 0: the file is missing"),
    ];

    broker.start_again();
    let (status, ready) = broker.ready();
    assert_eq!(status, 200, "{ready}");
    let failures = |log: &str| log.matches(" ERROR ").count();
    let log = broker.logged(|log| failures(log) >= expected.len());
    let mut wire = Wire::connect(broker.port());
    for (shard, expected) in (0..).zip(expected) {
        let name = format!("{TOPIC}-{shard}");
        assert_told(&broker, TOPIC, shard, &expected);
        let failure = log
            .lines()
            .find(|line| line.contains(" ERROR ") && line.contains(&name))
            .unwrap_or_else(|| panic!("nothing about {name}"));
        assert!(failure.contains(&expected), "{failure}");
        assert_refused(&mut wire, TOPIC, shard);
    }
    assert_eq!(broker.metrics().sum("felix_shard_failed"), Some(5.0));
    serves_up_to_the_hole(&mut broker, TOPIC, 5, begins[7]);
    assert!(!ready.contains(&format!("{TOPIC}-6")), "{ready}");
    assert_eq!(wire.produce(TOPIC, 6, b"goes on").0, 0);
    let served = read(&broker, TOPIC, 6);
    assert_eq!(served[..RECORDS], values(6, RECORDS));
    assert_eq!(served[RECORDS..], ["goes on"]);

    // Nothing was cut or "repaired": whoever has the lost bytes can put them back.
    assert!(broker.terminate().success());
    for shard in 0..5 {
        assert!(
            contents(&dirs[shard]) == damaged[shard],
            "{}",
            dirs[shard].display()
        );
        fs::remove_dir_all(&dirs[shard]).unwrap();
        fs::create_dir(&dirs[shard]).unwrap();
        for (path, bytes) in &whole[shard] {
            fs::write(path, bytes).unwrap();
        }
    }
    broker.start_again();
    assert_eq!(broker.ready(), (200, "ok".to_owned()));
    for shard in 0..5 {
        assert_eq!(read(&broker, TOPIC, shard), values(shard, RECORDS));
    }
}

fn assert_refused(wire: &mut Wire, topic: &'static str, shard: i32) {
    assert_eq!(wire.produce(topic, shard, b"lost?").0, KAFKA_STORAGE_ERROR);
    let fetched = wire.fetch(topic, shard, 0, 100);
    let part = &fetched.responses[0].partitions[0];
    assert_eq!(part.error_code, KAFKA_STORAGE_ERROR);
}

/// A hole that only a reader meets: all that lies before it is served, and it is not stepped over.
fn serves_up_to_the_hole(broker: &mut Broker, topic: &'static str, partition: u32, hole: usize) {
    let mut wire = Wire::connect(broker.port());
    let mut fetch = |offset| {
        let fetched = wire.fetch(topic, partition.cast_signed(), offset, 100);
        let part = &fetched.responses[0].partitions[0];
        (
            part.error_code,
            part.records.as_ref().map_or(0, |records| records.len()),
        )
    };
    assert_eq!(fetch(0), (0, hole));
    assert_eq!(fetch(7).0, KAFKA_STORAGE_ERROR);
    // What lies behind it is whole, and may be read by who asks for it.
    assert_eq!(fetch(20).0, 0);
    let named = format!("00000000000000000000.log is damaged at byte {hole}: ");
    let shard = format!("{topic}-{partition}");
    let is_named = |log: &str| {
        log.lines()
            .any(|line| line.contains(&shard) && line.contains(&named))
    };
    let log = broker.logged(is_named);
    assert!(is_named(&log), "{log}");
}

#[test]
fn a_tail_that_was_not_durable_is_cut_at_the_damage_and_the_shard_goes_on() {
    const TOPIC: &str = "damage.tail";
    const SHARDS: u32 = 5;
    // The recovery point stays at the opening: nothing asks for a flush.
    let stream = Stream::new(TOPIC, SHARDS).flushed(Policy::None);
    let mut broker = Broker::start(&[stream]);
    fill(&broker, TOPIC, SHARDS);
    broker.kill();

    let files: Vec<PathBuf> = (0..SHARDS)
        .map(|shard| segment(&broker, TOPIC, shard))
        .collect();
    let begins = batches(&files[0]);
    flip(&files[0], begins[RECORDS - 1] + 80);
    zero(&files[1], begins[10], begins[12]);
    let bytes = fs::read(&files[2]).unwrap();
    fs::write(&files[2], &bytes[..begins[20] + 30]).unwrap();
    // A write that went to the wrong place: a whole batch of another offset.
    let mut bytes = fs::read(&files[3]).unwrap();
    bytes.copy_within(begins[3]..begins[4], begins[5]);
    fs::write(&files[3], bytes).unwrap();
    let kept = [RECORDS - 1, 10, 20, 5, RECORDS];
    // Zeros alone are no loss, but what lies behind them is.
    let lost: usize = (0..)
        .zip(kept)
        .map(|(shard, kept)| {
            let bytes = fs::read(&files[shard]).unwrap();
            let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            (last + 1).saturating_sub(begins[kept])
        })
        .sum();

    broker.start_again();
    assert_eq!(broker.ready(), (200, "ok".to_owned()));
    let counted = broker
        .metrics()
        .sum("felix_storage_recovery_truncated_bytes_total");
    #[expect(clippy::cast_precision_loss, reason = "few bytes")]
    let lost = lost as f64;
    assert!(lost > 0.0);
    assert_eq!(counted, Some(lost));
    let mut wire = Wire::connect(broker.port());
    let mut expected = Vec::new();
    for (shard, kept) in (0..SHARDS).zip(kept) {
        assert_eq!(
            read(&broker, TOPIC, shard),
            values(shard, kept),
            "shard {shard}"
        );
        let next = wire.produce(TOPIC, shard.cast_signed(), b"goes on");
        assert_eq!(next, (0, i64::try_from(kept).unwrap()), "shard {shard}");
        let mut all = values(shard, kept);
        all.push("goes on".to_owned());
        assert_eq!(read(&broker, TOPIC, shard), all);
        expected.push(all);
    }
    // What was cut stays cut, and what came after it stays.
    broker.kill();
    broker.start_again();
    for (shard, expected) in (0..SHARDS).zip(expected) {
        assert_eq!(read(&broker, TOPIC, shard), expected);
    }
}

/// Puts `bytes` into a file of ours and makes its checksum, of what `covered` names, right again.
fn craft(file: &Path, place: usize, bytes: &[u8], checksum: usize, covered: Range<usize>) {
    let mut whole = fs::read(file).unwrap();
    whole[place..place + bytes.len()].copy_from_slice(bytes);
    let right = crc32c::crc32c(&whole[covered]);
    whole[checksum..checksum + 4].copy_from_slice(&right.to_be_bytes());
    fs::write(file, whole).unwrap();
}

/// Numbers at the end of their range, with every checksum right, used to end the broker at each
/// start; a flipped bit in a length was believed, and one in an index hid records that were whole.
#[test]
fn what_no_broker_wrote_costs_its_shard_alone_and_a_wrong_index_costs_nothing() {
    const TOPIC: &str = "damage.crafted";
    const SHARDS: u32 = 5;
    const MORE: usize = 60;
    const FILE: &str = "00000000000000000000.log";
    const FAR: &str = "09223372036854775800.log";
    let mut broker = Broker::start(&[Stream::new(TOPIC, SHARDS)]);
    fill(&broker, TOPIC, SHARDS);
    let begins = batches(&segment(&broker, TOPIC, 3));
    let mut wire = Wire::connect(broker.port());
    for number in RECORDS..RECORDS + MORE {
        assert_eq!(wire.produce(TOPIC, 4, value(4, number).as_bytes()).0, 0);
    }
    assert!(broker.terminate().success());

    let dirs: Vec<PathBuf> = (0..SHARDS)
        .map(|shard| broker.shard_dir(TOPIC, shard))
        .collect();
    let (last, end) = (begins[RECORDS - 1], begins[RECORDS]);
    let reach = i32::MAX.to_be_bytes();
    craft(
        &dirs[0].join(FILE),
        last + 23,
        &reach,
        last + 17,
        last + 21..end,
    );
    let table = dirs[1].join("generations");
    let covered = fs::read(&table).unwrap().len() - 4;
    craft(&table, covered - 12, &reach, covered, 0..covered);
    for ending in ["log", "index", "timeindex"] {
        fs::remove_file(dirs[2].join(FILE).with_extension(ending)).unwrap();
    }
    fs::write(dirs[2].join(FAR), b"").unwrap();
    let far = 9_223_372_036_854_775_800_u64.to_be_bytes().repeat(3);
    let checkpoint = dirs[2].join("checkpoint");
    let end = fs::read(&checkpoint).unwrap().len() - 4;
    craft(&checkpoint, 8, &far, end, 0..end);
    // So long that it would take in all that follows, or some of it.
    flip(&dirs[3].join(FILE), begins[7] + 10);
    let index = dirs[4].join(FILE).with_extension("index");
    assert!(fs::read(&index).unwrap().len() >= 24);
    flip(&index, 7);

    broker.start_again();
    let (status, ready) = broker.ready();
    assert_eq!(status, 200, "{ready}");
    let expected = [
        format!("{FILE} is damaged at byte {last}: "),
        format!("generations is damaged at byte {}: ", covered - 12),
        format!("{FAR} is damaged at byte 0: "),
    ];
    let log = broker.logged(|log| expected.iter().all(|text| log.contains(text)));
    let mut wire = Wire::connect(broker.port());
    for (shard, expected) in (0..).zip(expected) {
        assert!(log.contains(&expected), "{log}");
        assert_refused(&mut wire, TOPIC, shard);
    }
    serves_up_to_the_hole(&mut broker, TOPIC, 3, begins[7]);
    for number in 0..RECORDS + MORE {
        let offset = i64::try_from(number).unwrap();
        let fetched = wire.fetch(TOPIC, 4, offset, 100);
        assert_eq!(fetched.responses[0].partitions[0].error_code, 0, "{number}");
    }
    assert_eq!(read(&broker, TOPIC, 4), values(4, RECORDS + MORE));
}
