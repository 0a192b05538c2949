//! An `on_commit` answer means that the record is on the device, and the kernel is the witness. Its
//! tracepoints show, for every answer: the batch was written to the shard's file, after that a flush
//! of that same file was submitted to the ring and completed without error, and only after that did
//! the answer go to the client's socket. A kill proves nothing of this, since the page cache stays.
//!
//! Needs root and tracefs. Where they are not to be had the tests say so and prove nothing; in CI
//! and in a full run they fail then.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use felix_tests::trace::{Trace, Tracing};
use felix_tests::wire::Wire;
use felix_tests::{Broker, Descriptors, Policy, Stream, is_strict, traced_answers};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;
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
struct Order {
    /// Answers that went out before the flush of their batch was done, and how so.
    early: Vec<String>,
    /// For each answer that did not, the flush it had to wait for: partition and number.
    flushes: Vec<(u32, usize)>,
}

/// Produces from many connections at once; every third keeps four requests under way.
fn drive(broker: &Broker, topic: &'static str) -> (Vec<Wire>, Vec<Answer>) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let port = broker.port();
            thread::spawn(move || drive_one(port, topic, client))
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

fn drive_one(port: u16, topic: &'static str, client: usize) -> (Wire, Vec<Answer>) {
    let mut wire = Wire::connect(port);
    let own_port = wire.socket().local_addr().unwrap().port();
    let depth = if client.is_multiple_of(3) { 4 } else { 1 };
    let mut answers = Vec::new();
    while answers.len() < traced_answers() {
        let partitions = (0..depth).map(|ahead| {
            u32::try_from((client + answers.len() + ahead * 3) % 5).expect("below the shards")
        });
        let partitions: Vec<u32> = partitions.collect();
        for partition in &partitions {
            let value = vec![b'x'; 100 + answers.len() * 7 % 2000];
            wire.send_produce(topic, (*partition).cast_signed(), &value)
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
fn batches(file: &PathBuf) -> HashMap<u64, Placed> {
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

/// Holds every answer against the trace.
fn order(trace: &Trace, broker: &Broker, topic: &str, answers: &[Answer]) -> Order {
    let descriptors = Descriptors::of(broker.pid());
    let mut order = Order {
        early: Vec::new(),
        flushes: Vec::new(),
    };
    let mut sends = HashMap::new();
    for partition in 0..SHARDS {
        let name = format!("{:020}.log", 0);
        let file = broker.shard_dir(topic, partition).join(name);
        let descriptor = descriptors.file(&file);
        let (writes, flushes) = (trace.writes(descriptor), trace.flushes(descriptor));
        let placed = batches(&file);
        for answer in answers
            .iter()
            .filter(|answer| answer.partition == partition)
        {
            let sends = sends
                .entry(answer.port)
                .or_insert_with(|| trace.sends(descriptors.connection(broker.port(), answer.port)));
            let batch = &placed[&answer.offset];
            let write = writes
                .iter()
                .find(|write| write.position == Some(batch.position))
                .expect("the batch was written");
            assert_eq!(u64::try_from(write.value), Ok(batch.bytes), "in one write");
            let mut sent = 0;
            let send = sends.iter().filter(|send| send.value > 0).find(|send| {
                sent += send.value.unsigned_abs();
                sent > answer.begin
            });
            let send = send.expect("the answer was sent");
            assert!(
                write.end < send.begin,
                "no answer before its batch is written"
            );
            let flush = flushes.iter().position(|flush| {
                flush.begin > write.end && flush.end < send.begin && flush.result == 0
            });
            match flush {
                Some(flush) => order.flushes.push((partition, flush)),
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
    order
}

/// Runs a stream under tracing; `None` where that cannot be done and need not.
fn traced(topic: &'static str, policy: Policy) -> Option<(Order, usize)> {
    let broker = Broker::start(&[Stream::new(topic, SHARDS).flushed(policy)]);
    let tracing = match Tracing::start(broker.pid()) {
        Ok(tracing) => tracing,
        Err(reason) => {
            assert!(!is_strict(), "tracing is impossible here: {reason}");
            // Past the harness, which swallows what a passed test prints.
            let warning = format!("\nNOT CHECKED: {topic}: tracing is impossible here: {reason}\n");
            std::io::stderr().write_all(warning.as_bytes()).unwrap();
            return None;
        }
    };
    let (wires, answers) = drive(&broker, topic);
    let trace = tracing.stop();
    let order = order(&trace, &broker, topic, &answers);
    drop(wires);
    assert_eq!(order.early.len() + order.flushes.len(), answers.len());
    Some((order, answers.len()))
}

#[test]
fn every_on_commit_answer_follows_a_completed_flush_of_its_file() {
    let Some((order, answers)) = traced("traced.commit", Policy::OnCommit) else {
        return;
    };
    assert!(answers >= CLIENTS * traced_answers());
    assert!(
        order.early.is_empty(),
        "{} of {answers} answers went out too early, first {:#?}",
        order.early.len(),
        &order.early[..order.early.len().min(5)]
    );
    // They share flushes, in every shard.
    let flushes: HashSet<(u32, usize)> = order.flushes.iter().copied().collect();
    for shard in 0..SHARDS {
        let of_shard = flushes.iter().filter(|(partition, _)| *partition == shard);
        let answers = order
            .flushes
            .iter()
            .filter(|(partition, _)| *partition == shard);
        let (flushes, answers) = (of_shard.count(), answers.count());
        assert!(flushes > 0);
        assert!(
            flushes < answers,
            "shard {shard}: {flushes} flushes, {answers} answers"
        );
    }
}

#[test]
fn a_periodic_stream_answers_before_its_flush_and_the_check_sees_it() {
    let Some((order, answers)) = traced("traced.periodic", Policy::Periodic) else {
        return;
    };
    let early = order.early.len();
    assert!(early > answers / 2, "{early} of {answers}");
}
