//! What a shard has promised, and whether it keeps that.

use super::sent::{Fate, Sent};
use super::told::Told;
use crate::tests::Rig;
use felix_core::batch::BatchBuilder;
use felix_core::shards::Appended;
use felix_core::{
    Batch, Durability, Generation, Offset, PlacedBatch, Retention, Timestamp, Timestamps,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// How a life ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Crash {
    /// The process was killed; the kernel goes on.
    Kill,
    /// The power failed.
    Power,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Model {
    durability: Durability,
    /// What may be lost of a periodic shard when the power fails.
    lag: Duration,
    /// What is let go of.
    retention: Retention,
    timestamps: Timestamps,
    /// How far the clocks of some producers are ahead.
    ahead: Option<Duration>,
    /// This life has begun with the log open.
    is_open: bool,
    sent: BTreeMap<u64, Sent>,
    /// What any reader ever saw: which batch at which offset and generation.
    seen: BTreeMap<(Offset, Generation), u64>,
    generation: Generation,
    start: Offset,
    /// The greatest offset that this life has acknowledged or shown.
    end: Offset,
    told: Told,
}

impl Model {
    pub(super) fn new(
        rig: &Rig,
        durability: Durability,
        lag: Duration,
        ahead: Option<Duration>,
    ) -> Self {
        Self {
            durability,
            lag,
            retention: rig.retention,
            timestamps: rig.timestamps,
            ahead,
            is_open: false,
            sent: BTreeMap::new(),
            seen: BTreeMap::new(),
            generation: Generation::new(0),
            start: Offset::ZERO,
            end: Offset::ZERO,
            told: Told::default(),
        }
    }

    /// What it went through.
    pub(super) fn told(&self) -> Told {
        self.told.clone()
    }

    /// Where a reader may begin.
    pub(super) fn span(&self) -> (Offset, Offset) {
        (self.start, self.end)
    }

    /// A new batch, whose records say which it is.
    /// `place`: that of a batch of so many records, if an idempotent producer sends it.
    pub(super) fn send(
        &mut self,
        random: &mut fastrand::Rng,
        now: Timestamp,
        place: impl FnOnce(usize) -> Option<(i64, i16, i32)>,
    ) -> (u64, Batch) {
        let id = self.sent.len() as u64;
        let count = random.usize(1..=4);
        let timestamps: Vec<_> = (0..count)
            .map(|_| match self.ahead {
                Some(ahead) if random.u8(..4) == 0 => {
                    let ahead = i64::try_from(ahead.as_millis()).expect("it is short");
                    Timestamp(now.0 + random.i64(0..=ahead))
                }
                Some(_) | None => Timestamp(now.0 - random.i64(..50)),
            })
            .collect();
        let size = random.usize(0..150);
        let value = format!("{id}:{}", "x".repeat(size));
        let start = match place(count) {
            Some((producer, epoch, sequence)) => {
                BatchBuilder::new().producer(producer, epoch, sequence)
            }
            None => BatchBuilder::new(),
        };
        let builder = timestamps.iter().fold(start, |builder, time| {
            builder.record(*time, None, Some(value.as_bytes()))
        });
        let bytes = builder.build();
        self.sent.insert(id, Sent::new(&bytes, timestamps, now));
        (id, Batch::parse(bytes).expect("the builder builds batches"))
    }

    /// The same batch once more.
    pub(super) fn send_again(&mut self, id: u64) -> Batch {
        self.batch(id).again()
    }

    /// Where the batch is, if that is promised.
    pub(super) fn promised(&self, id: u64) -> Option<Offset> {
        let sent = &self.sent[&id];
        match (sent.fate, sent.known) {
            (Fate::At(offset), Some(_)) => Some(offset),
            (Fate::Open | Fate::Gone | Fate::At(_), _) => None,
        }
    }

    fn batch(&mut self, id: u64) -> &mut Sent {
        self.sent.get_mut(&id).expect("it was sent")
    }

    /// The broker says where the batch is.
    pub(super) fn acknowledged(&mut self, id: u64, appended: &Appended, now: Duration) {
        self.told.acknowledged += 1;
        let offset = appended.base_offset;
        self.start = self.start.max(appended.log_start);
        self.is_at(id, offset, now);
        let sent = self.batch(id);
        let end = offset.after(sent.records());
        if let Some(time) = appended.append_time {
            let first = *sent.append_time.get_or_insert(time);
            assert_eq!(first, time, "the append time of batch {id} changed");
        }
        self.end = self.end.max(end);
    }

    /// The broker says that the batch was never taken.
    pub(super) fn refused(&mut self, id: u64) {
        let sent = self.batch(id);
        assert_eq!(sent.fate, Fate::Open, "batch {id} is refused");
        sent.fate = Fate::Gone;
    }

    fn is_at(&mut self, id: u64, offset: Offset, now: Duration) {
        let sent = self.sent.get_mut(&id).expect("it was sent");
        match sent.fate {
            Fate::Open => sent.fate = Fate::At(offset),
            Fate::At(known) if known == offset => {}
            Fate::At(known) => {
                // A producer all of whose records are deleted is forgotten, and may begin anew.
                let is_deleted = sent.again && known < self.start;
                assert!(
                    is_deleted,
                    "batch {id} is in two places: {known} and {offset}"
                );
                sent.begin_anew(Fate::At(offset));
            }
            Fate::Gone => panic!("batch {id}, which a crash took, is back at {offset}"),
        }
        sent.known.get_or_insert(now);
    }

    /// A reader sees these batches, the first of which holds `from`.
    pub(super) fn shown(&mut self, from: Offset, batches: &[PlacedBatch], now: Duration) {
        let mut next = None;
        let mut generation = Generation::new(0);
        let mut append_time = Timestamp(0);
        for batch in batches {
            let base = batch.base_offset();
            match next {
                None => assert!(
                    base <= from && from < batch.next_offset(),
                    "a read from {from} begins with the batch at {base}"
                ),
                Some(next) => assert_eq!(base, next, "a hole, or two batches at one offset"),
            }
            next = Some(batch.next_offset());
            assert!(
                batch.generation() >= generation,
                "generations fall at {base}"
            );
            generation = batch.generation();
            let id = id_of(batch);
            let before = self.seen.insert((base, generation), id);
            assert!(
                before.is_none_or(|before| before == id),
                "readers saw batches {before:?} and {id} at {base}, generation {generation}"
            );
            self.is_at(id, base, now);
            let timestamps = self.timestamps;
            self.batch(id).check(batch, timestamps);
            let time = batch.max_timestamp();
            assert!(
                timestamps == Timestamps::Create || time >= append_time,
                "append times fall at {base}"
            );
            append_time = time;
        }
        self.end = self.end.max(next.unwrap_or_default());
    }

    /// A reader who asked when the shard reached from `start` to `end` was told of these bounds.
    pub(super) fn bounds(&mut self, (start, end): (Offset, Offset), told: (Offset, Offset)) {
        assert!(
            told.0 >= start && told.1 >= end,
            "a reader knew of {start}..{end} and was told {}..{}",
            told.0,
            told.1
        );
        self.start = self.start.max(told.0);
    }

    /// The log was closed, and nothing went wrong.
    pub(super) fn closed(&mut self) {
        for sent in self.sent.values_mut() {
            sent.durable |= sent.known.is_some();
        }
    }

    /// The life is over, at `now`. Where flushes failed, or the shard did not open, the last
    /// interval of a periodic shard did not come to its end: it took nothing more and said so.
    pub(super) fn crashed(&mut self, crash: Crash, flushes_fail: bool, now: Duration) {
        let is_flushed = self.is_open && !flushes_fail;
        self.is_open = false;
        for sent in self.sent.values_mut() {
            let keeps = match (crash, self.durability) {
                (Crash::Kill, _) | (Crash::Power, Durability::OnCommit) => true,
                (Crash::Power, Durability::Periodic) => {
                    is_flushed && sent.known.is_some_and(|known| known + self.lag < now)
                }
                (Crash::Power, Durability::None) => false,
            };
            if !keeps && !sent.durable {
                sent.known = None;
            }
        }
        self.end = self.start;
    }

    /// The shard is open again at `generation`, and this is all of it. What it shows now it has
    /// flushed, whatever its policy.
    pub(super) fn reopened(
        &mut self,
        (start, end): (Offset, Offset),
        generation: Generation,
        batches: &[PlacedBatch],
        now: Timestamp,
    ) {
        assert!(
            generation > self.generation,
            "the generation was {} and is {generation}",
            self.generation
        );
        self.generation = generation;
        self.is_open = true;
        assert!(
            start >= self.start,
            "the log began at {} and does at {start}",
            self.start
        );
        assert!(
            self.retention.is_bounded() || start == Offset::ZERO,
            "{start}: nothing may go"
        );
        self.start = start;
        let found: BTreeMap<u64, Offset> = batches
            .iter()
            .map(|batch| (id_of(batch), batch.base_offset()))
            .collect();
        assert_eq!(found.len(), batches.len(), "a batch is there twice");
        for (id, sent) in &mut self.sent {
            if found.contains_key(id) {
                // Shown below.
                continue;
            }
            if let (Fate::At(offset), Some(_)) = (sent.fate, sent.known) {
                assert!(
                    offset < start,
                    "batch {id} at {offset} was promised and is lost: the log is {start}..{end}"
                );
                assert!(
                    sent.may_go(self.retention, self.timestamps, now),
                    "batch {id} at {offset} is not old enough to go: the log is {start}..{end}"
                );
                continue;
            }
            if sent.fate != Fate::Gone {
                self.told.lost += 1;
            }
            sent.fate = Fate::Gone;
            sent.durable = false;
        }
        if let Some(first) = batches.first() {
            self.shown(first.base_offset(), batches, Duration::ZERO);
        }
        for id in found.keys() {
            let sent = self.sent.get_mut(id).expect("it was sent");
            sent.known = Some(Duration::ZERO);
            sent.durable = true;
        }
        check_sequences(batches);
        let last = batches.last().map_or(start, PlacedBatch::next_offset);
        assert_eq!(last, end, "the log does not reach to its end");
        self.end = end;
    }
}

/// The batches of each idempotent producer follow each other without a gap, each epoch from 0 on.
fn check_sequences(batches: &[PlacedBatch]) {
    let mut owed: BTreeMap<i64, (i16, i32)> = BTreeMap::new();
    for header in batches.iter().map(PlacedBatch::header) {
        if header.producer_id < 0 {
            continue;
        }
        let found = (header.producer_epoch, header.base_sequence);
        if let Some(owed) = owed.get(&header.producer_id) {
            assert!(
                found == *owed || (found.0 > owed.0 && found.1 == 0),
                "producer {} owed {owed:?}, and {found:?} stands at {}",
                header.producer_id,
                header.base_offset
            );
        }
        owed.insert(header.producer_id, (found.0, found.1 + header.count));
    }
}

/// Which of the batches sent this is, as its records say.
fn id_of(batch: &PlacedBatch) -> u64 {
    let records = batch
        .records()
        .expect("a batch that a reader gets is whole");
    let value = records[0].value.as_ref().expect("it has a value");
    let text = std::str::from_utf8(value).expect("it is text");
    let id = text.split(':').next().expect("it begins with its number");
    id.parse().expect("it begins with its number")
}
