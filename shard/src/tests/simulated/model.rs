//! What a shard has promised, and whether it keeps that.

use super::sent::{Fate, Sent};
use super::told::Told;
use crate::tests::Rig;
use felix_core::batch::BatchBuilder;
use felix_core::shards::Appended;
use felix_core::{
    Batch, Durability, Generation, Offset, PlacedBatch, Retention, Timestamp, Timestamps,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Of most values.
const VALUE_BYTES_MAX: usize = 150;

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
    /// Of some values, so that segments that may be large have space prepared.
    value_bytes_max: usize,
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
    /// Openings that may have taken an offset for a batch that no reader gets, and those that have.
    promotions: u64,
    controls: BTreeSet<Offset>,
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
            value_bytes_max: usize::try_from(rig.segment_bytes_max / 40)
                .expect("segments are small here")
                .max(VALUE_BYTES_MAX),
            retention: rig.retention,
            timestamps: rig.timestamps,
            ahead,
            is_open: false,
            sent: BTreeMap::new(),
            seen: BTreeMap::new(),
            generation: Generation::new(0),
            start: Offset::ZERO,
            end: Offset::ZERO,
            promotions: 0,
            controls: BTreeSet::new(),
            told: Told::default(),
        }
    }

    /// What it went through.
    pub(super) fn told(&self) -> Told {
        self.told.clone()
    }

    /// Whether this life has begun with the log open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
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
                Some(_) | None => Timestamp(now.0 - random.i64(0..50)),
            })
            .collect();
        let place = place(count);
        let batch = self.add(random, timestamps, now, place);
        (id, batch)
    }

    /// The first records of a batch of several, as a batch of their own: another log may have had no
    /// more of it.
    pub(super) fn head(&mut self, random: &mut fastrand::Rng, id: u64) -> Option<u64> {
        let sent = &self.sent[&id];
        let batch = sent.batch();
        let header = batch.header();
        let place = (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        );
        let records = usize::try_from(header.count).expect("it has records");
        if records == 1 {
            return None;
        }
        let (timestamps, sent_at) = sent.first(random.usize(1..records));
        let head = self.sent.len() as u64;
        self.add(random, timestamps, sent_at, Some(place));
        self.batch(id).head = Some(head);
        Some(head)
    }

    fn add(
        &mut self,
        random: &mut fastrand::Rng,
        timestamps: Vec<Timestamp>,
        now: Timestamp,
        place: Option<(i64, i16, i32)>,
    ) -> Batch {
        let id = self.sent.len() as u64;
        let size = match random.u8(..8) {
            0 => random.usize(..self.value_bytes_max),
            _ => random.usize(..VALUE_BYTES_MAX),
        };
        let value = format!("{id}:{}", "x".repeat(size));
        let start = match place {
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
        Batch::parse(bytes).expect("the builder builds batches")
    }

    /// The same batch once more.
    pub(super) fn send_again(&mut self, id: u64) -> Batch {
        self.batch(id).again()
    }

    /// The batch, to be placed.
    pub(super) fn sent(&self, id: u64) -> Batch {
        self.sent[&id].batch()
    }

    /// Where the batch is, if that is promised.
    pub(super) fn promised(&self, id: u64) -> Option<Offset> {
        self.sent[&id].promised()
    }

    /// The batch was placed there, as a follower gets batches. `is_taken`: its log says so.
    pub(super) fn placed(&mut self, id: u64, offset: Offset, is_taken: bool, now: Duration) {
        let is_committed = self.durability != Durability::OnCommit;
        let sent = self.batch(id);
        sent.placed = Some(offset);
        if !is_taken {
            return;
        }
        sent.fate = Fate::At(offset);
        if is_committed {
            sent.known = Some(now);
            let end = offset.after(sent.records());
            self.end = self.end.max(end);
        }
        self.told.applied += 1;
    }

    /// Batches at most that no reader gets.
    pub(super) fn promotions(&self) -> u64 {
        self.promotions
    }

    /// Another leader takes over: its generation may begin with a batch that no reader gets.
    pub(super) fn is_promoted(&mut self) {
        self.promotions += 1;
    }

    /// It has, and all of the log is durable.
    pub(super) fn promoted(&mut self, control: Option<Offset>) {
        self.controls.extend(control);
        self.told.promoted += u64::from(control.is_some());
        self.closed();
    }

    fn batch(&mut self, id: u64) -> &mut Sent {
        self.sent.get_mut(&id).expect("it was sent")
    }

    /// The broker says where the batch is.
    pub(super) fn acknowledged(&mut self, id: u64, appended: &Appended, now: Duration) {
        self.told.acknowledged += 1;
        let offset = appended.base_offset;
        self.start = self.start.max(appended.log_start);
        let end = offset.after(self.sent[&id].records());
        self.end = self.end.max(end).max(self.start);
        if self.is_completed(id, offset, now) {
            return;
        }
        let start = self.start;
        let sent = self.batch(id);
        if let Some(answer) = sent.answer
            && answer != offset
        {
            let is_deleted = sent.again && answer < start;
            assert!(is_deleted, "batch {id} was at {answer} and is at {offset}");
            sent.begin_anew(Fate::Open);
        }
        self.is_at(id, offset, now);
        let sent = self.batch(id);
        sent.answer = Some(offset);
        if let Some(time) = appended.append_time {
            let first = *sent.append_time.get_or_insert(time);
            assert_eq!(first, time, "the append time of batch {id} changed");
        }
    }

    /// Whether the batch is acknowledged with where its first records are, or may be. Where the others
    /// are a reader will see.
    fn is_completed(&mut self, id: u64, offset: Offset, now: Duration) -> bool {
        let Some(head) = self.sent[&id].head else {
            return false;
        };
        let head = self.batch(head);
        if head.placed != Some(offset) {
            return false;
        }
        if head.fate == Fate::At(offset) {
            head.known.get_or_insert(now);
        }
        let sent = self.batch(id);
        sent.known.get_or_insert(now);
        sent.answer = Some(offset);
        true
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
        let mut next = from;
        let mut generation = Generation::new(0);
        let mut append_time = Timestamp(0);
        for (number, batch) in batches.iter().enumerate() {
            let base = batch.base_offset();
            if number == 0 && base <= from {
                assert!(
                    from < batch.next_offset(),
                    "a read from {from} begins with the batch at {base}"
                );
            } else {
                self.check_hole(next, batch, generation);
            }
            next = batch.next_offset();
            assert!(
                batch.generation() >= generation,
                "generations fall at {base}"
            );
            let hidden = self.controls.range(base..next).next();
            assert_eq!(hidden, None, "another batch was there");
            generation = batch.generation();
            let id = id_of(batch);
            let before = self.seen.insert((base, generation), id);
            assert!(
                before.is_none_or(|before| before == id),
                "readers saw batches {before:?} and {id} at {base}, generation {generation}"
            );
            self.is_at(id, base, now);
            let is_completed = !self.sent[&id].is_whole(batch);
            self.told.completed += u64::from(is_completed && before.is_none());
            let timestamps = self.timestamps;
            self.batch(id).check(batch, timestamps);
            let time = batch.max_timestamp();
            assert!(
                timestamps == Timestamps::Create || time >= append_time,
                "append times fall at {base}"
            );
            append_time = time;
        }
        if !batches.is_empty() {
            self.end = self.end.max(next);
        }
    }

    /// Whether so few offsets lie between that all may be of batches that begin a generation.
    pub(super) fn hides(&self, next: Offset, base: Offset) -> bool {
        let hole = base.get().checked_sub(next.get());
        hole.is_some_and(|hole| hole <= self.promotions)
    }

    /// Before a batch no offset is missing but those of batches that begin a generation.
    fn check_hole(&self, next: Offset, batch: &PlacedBatch, generation: Generation) {
        let base = batch.base_offset();
        let is_hidden = base == next || (self.hides(next, base) && batch.generation() > generation);
        assert!(is_hidden, "a batch is at {base}, and {next} comes next");
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
        self.end = self.end.max(told.1);
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
                sent.is_doubtful();
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
            let at = match sent.fate {
                Fate::At(offset) => Some(offset),
                Fate::Open => sent.answer,
                Fate::Gone => None,
            };
            if let (Some(offset), Some(_)) = (at, sent.known) {
                assert!(
                    offset < start,
                    "batch {id} at {offset} was promised and is lost: the log is {start}..{end}"
                );
                assert!(
                    sent.may_go(self.retention, self.timestamps, now),
                    "batch {id} at {offset} is not old enough to go: the log is {start}..{end}"
                );
                // Nobody asks for it any more.
                sent.begin_anew(Fate::At(offset));
                continue;
            }
            if at.is_some_and(|at| at >= start) {
                self.told.lost += 1;
            }
            sent.begin_anew(Fate::Gone);
        }
        self.shown(start, batches, Duration::ZERO);
        self.check_completed(start, batches, &found);
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

    /// Where a batch was completed, its first records are there too.
    fn check_completed(
        &self,
        start: Offset,
        batches: &[PlacedBatch],
        found: &BTreeMap<u64, Offset>,
    ) {
        for batch in batches {
            let sent = &self.sent[&id_of(batch)];
            if let (Some(head), false) = (sent.head, sent.is_whole(batch)) {
                let is_deleted = self.sent[&head].placed < Some(start);
                assert!(
                    is_deleted || found.contains_key(&head),
                    "batch {head} is missing before {batch:?}"
                );
            }
        }
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
