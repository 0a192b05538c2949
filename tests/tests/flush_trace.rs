//! An `on_commit` answer means that the record is on the device, and the kernel is the witness. Its
//! tracepoints show, for every answer: the batch was written to the shard's file, after that a flush
//! of that same file was submitted to the ring and completed without error, and only after that did
//! the answer go to the client's socket. A kill proves nothing of this, since the page cache stays.
//!
//! Needs root and tracefs. Where they are not to be had the tests say so and prove nothing; in CI
//! and in a full run they fail then.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::trace::{self, Done, Trace, Tracing};
use felix_tests::wire::Wire;
use felix_tests::{Broker, Descriptors, Policy, Stream, traced_answers};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::thread;

const SHARDS: u32 = 5;
const CLIENTS: usize = 12;

/// An answer as its client got it.
struct Answer {
    partition: u32,
    offset: u64,
    /// The client's own port.
    port: u16,
    /// Where the answer begins in all that the client got on that connection.
    begin: u64,
}

/// A batch in a file.
struct Placed {
    position: u64,
    bytes: u64,
}

/// What the trace says of the answers.
#[derive(Default)]
struct Order {
    /// Answers that went out before the flush of their batch was done, and how so.
    early: Vec<String>,
    /// For each answer that did not, the flush it had to wait for: partition, file and number.
    flushes: Vec<(u32, PathBuf, usize)>,
}

/// How a stream is driven.
#[derive(Clone, Copy)]
struct Drive {
    topic: &'static str,
    /// Answers that each client waits for.
    answers: usize,
    /// Bytes of every value, beside a few.
    value_bytes: usize,
    /// How many partitions are written to.
    partitions: u32,
}

/// What a thread beside a core writes of a larger batch in one call.
const PIECE_BYTES: u64 = 256 << 10;

/// Produces from many connections at once; every third keeps four requests under way.
fn drive(broker: &Broker, drive: Drive) -> (Vec<Wire>, Vec<Answer>) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let port = broker.port();
            thread::spawn(move || drive_one(port, drive, client))
        })
        .collect();
    let mut all = Vec::new();
    let mut wires = Vec::new();
    for client in clients {
        let (wire, answers) = client.join().expect("the client got its answers");
        wires.push(wire);
        all.extend(answers);
    }
    (wires, all)
}

fn drive_one(port: u16, drive: Drive, client: usize) -> (Wire, Vec<Answer>) {
    let mut wire = Wire::connect(port);
    let own_port = wire.socket().local_addr().unwrap().port();
    let depth = if client.is_multiple_of(3) { 4 } else { 1 };
    let mut answers = Vec::new();
    while answers.len() < drive.answers {
        let partitions = (0..depth).map(|ahead| {
            let next = u32::try_from(client + answers.len() + ahead * 3).expect("it is small");
            next % drive.partitions
        });
        let partitions: Vec<u32> = partitions.collect();
        for partition in &partitions {
            let value = vec![b'x'; drive.value_bytes + answers.len() * 7 % 2000];
            wire.send_produce(drive.topic, (*partition).cast_signed(), &value)
                .expect("the broker reads");
        }
        for partition in partitions {
            let begin = wire.received_bytes();
            let (error, offset) = wire.receive_produce();
            assert_eq!(error, 0);
            answers.push(Answer {
                partition,
                offset: u64::try_from(offset).unwrap(),
                port: own_port,
                begin,
            });
        }
    }
    (wire, answers)
}

/// Where each batch lies, by its first offset.
fn batches(file: &Path) -> HashMap<u64, Placed> {
    let bytes = std::fs::read(file).unwrap();
    let mut found = HashMap::new();
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 12) {
        let offset = u64::from_be_bytes(head[..8].try_into().unwrap());
        let length = u32::from_be_bytes(head[8..].try_into().unwrap());
        if length == 0 {
            break;
        }
        let size = 12 + u64::from(length);
        let position = u64::try_from(at).unwrap();
        found.insert(
            offset,
            Placed {
                position,
                bytes: size,
            },
        );
        at += usize::try_from(size).unwrap();
    }
    found
}

/// The files of a shard's batches, in order.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .collect();
    files.sort();
    files
}

/// Holds every answer against the trace.
fn order(trace: &Trace, broker: &Broker, topic: &str, answers: &[Answer]) -> Order {
    let descriptors = Descriptors::of(broker.pid());
    let aside = trace.writes_of_all();
    let mut order = Order::default();
    let mut sends = HashMap::new();
    for answer in answers {
        sends
            .entry(answer.port)
            .or_insert_with(|| trace.sends(descriptors.connection(broker.port(), answer.port)));
    }
    let written: BTreeSet<u32> = answers.iter().map(|answer| answer.partition).collect();
    for partition in written {
        for file in segments(&broker.shard_dir(topic, partition)) {
            let descriptor = descriptors.file(&file);
            let (writes, flushes) = (trace.writes(descriptor), trace.flushes(descriptor));
            let placed = batches(&file);
            let of_shard = answers
                .iter()
                .filter(|answer| answer.partition == partition);
            for answer in of_shard {
                let Some(batch) = placed.get(&answer.offset) else {
                    continue;
                };
                let write = if batch.bytes > PIECE_BYTES {
                    written_aside(batch, &aside)
                } else {
                    written_on_core(batch, &writes)
                };
                let send = sent(answer, &sends[&answer.port]);
                assert!(
                    write.end < send.begin,
                    "no answer before its batch is written"
                );
                let flush = flushes.iter().position(|flush| {
                    flush.begin > write.end && flush.end < send.begin && flush.result == 0
                });
                match flush {
                    Some(flush) => order.flushes.push((partition, file.clone(), flush)),
                    None => order.early.push(format!(
                        "partition {partition}, offset {}: written at {}, sent at {}, flushed {:?}",
                        answer.offset,
                        write.end,
                        send.begin,
                        flushes.iter().find(|flush| flush.begin > write.end)
                    )),
                }
            }
        }
    }
    order
}

/// The write of a batch that is larger than a core writes by itself: the last of its pieces. In files
/// of one shard no two batches have the same place.
fn written_aside<'a>(batch: &Placed, writes: &'a [Done]) -> &'a Done {
    let mut last = None;
    for piece in 0..batch.bytes.div_ceil(PIECE_BYTES) {
        let begin = piece * PIECE_BYTES;
        let bytes = PIECE_BYTES.min(batch.bytes - begin);
        last = writes.iter().find(|write| {
            write.position == Some(batch.position + begin)
                && u64::try_from(write.value) == Ok(bytes)
        });
        assert!(last.is_some(), "piece {piece} was written");
    }
    last.expect("it has bytes")
}

/// The write of a batch.
fn written_on_core<'a>(batch: &Placed, writes: &'a [Done]) -> &'a Done {
    let write = writes
        .iter()
        .find(|write| write.position == Some(batch.position))
        .expect("the batch was written");
    assert_eq!(u64::try_from(write.value), Ok(batch.bytes), "in one write");
    write
}

/// The sending of an answer's first byte.
fn sent<'a>(answer: &Answer, sends: &'a [Done]) -> &'a Done {
    let mut sent = 0;
    let send = sends.iter().filter(|send| send.value > 0).find(|send| {
        sent += send.value.unsigned_abs();
        sent > answer.begin
    });
    send.expect("the answer was sent")
}

/// Runs a stream under tracing; `None` where that cannot be done and need not.
fn traced(policy: Policy, load: Drive, settings: &[(&'static str, &'static str)]) -> Option<Order> {
    let stream = Stream::new(load.topic, SHARDS).flushed(policy);
    let broker = Broker::start_with(&[stream], settings);
    let tracing = match Tracing::start(broker.pid()) {
        Ok(tracing) => tracing,
        Err(reason) => {
            trace::not_checked(load.topic, &reason);
            return None;
        }
    };
    let (wires, answers) = drive(&broker, load);
    let trace = tracing.stop();
    let order = order(&trace, &broker, load.topic, &answers);
    drop(wires);
    assert!(answers.len() >= CLIENTS * load.answers);
    assert_eq!(order.early.len() + order.flushes.len(), answers.len());
    Some(order)
}

fn assert_none_early(order: &Order) {
    assert!(
        order.early.is_empty(),
        "{} answers went out too early, first {:#?}",
        order.early.len(),
        &order.early[..order.early.len().min(5)]
    );
}

#[test]
fn every_on_commit_answer_follows_a_completed_flush_of_its_file() {
    let load = Drive {
        topic: "traced.commit",
        answers: traced_answers(),
        value_bytes: 100,
        partitions: SHARDS,
    };
    let Some(order) = traced(Policy::OnCommit, load, &[]) else {
        return;
    };
    assert_none_early(&order);
    // They share flushes, in every shard.
    for shard in 0..SHARDS {
        let of_shard = order.flushes.iter().filter(|flush| flush.0 == shard);
        let answers = of_shard.clone().count();
        let flushes = of_shard.collect::<HashSet<_>>().len();
        assert!(flushes > 0);
        assert!(
            flushes < answers,
            "shard {shard}: {flushes} flushes, {answers} answers"
        );
    }
}

#[test]
fn so_it_is_while_segments_fill_up_and_follow_each_other() {
    let load = Drive {
        topic: "traced.rolled",
        answers: 16,
        value_bytes: 240_000,
        partitions: SHARDS,
    };
    let small = [("FELIX_DURABLE_SEGMENT_BYTES", "8388608")];
    let Some(order) = traced(Policy::OnCommit, load, &small) else {
        return;
    };
    assert_none_early(&order);
    for shard in 0..SHARDS {
        let files = order.flushes.iter().filter(|flush| flush.0 == shard);
        let files: HashSet<&PathBuf> = files.map(|(_, file, _)| file).collect();
        assert!(files.len() >= 2, "shard {shard}: {files:?}");
    }
}

#[test]
fn so_it_is_with_batches_that_are_written_beside_the_core() {
    let load = Drive {
        topic: "traced.large",
        answers: 8,
        value_bytes: 700_000,
        partitions: 1,
    };
    let Some(order) = traced(Policy::OnCommit, load, &[]) else {
        return;
    };
    assert_none_early(&order);
    assert!(order.flushes.iter().all(|(shard, _, _)| *shard == 0));
}

#[test]
fn a_periodic_stream_answers_before_its_flush_and_the_check_sees_it() {
    let load = Drive {
        topic: "traced.periodic",
        answers: traced_answers(),
        value_bytes: 100,
        partitions: SHARDS,
    };
    let Some(order) = traced(Policy::Periodic, load, &[]) else {
        return;
    };
    let (early, flushed) = (order.early.len(), order.flushes.len());
    assert!(early > flushed, "{early}, and {flushed} later");
}
