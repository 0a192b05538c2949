//! A batch that somebody sent in a story, and what is known of it.

use bytes::BytesMut;
use felix_core::batch::Place;
use felix_core::{Batch, Generation, Offset, PlacedBatch, Retention, Timestamp, Timestamps};
use std::time::Duration;

/// What of a batch no broker changes: all but base offset and generation, and, where its time is
/// set, but that, the attribute that says so and the checksum.
const KEPT_FROM: usize = 16;
const KEPT_BESIDE_TIME: [std::ops::Range<usize>; 2] = [KEPT_FROM..17, 23..35];
const KEPT_BEHIND_TIME: usize = 43;

/// What happened to a batch that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Nobody knows.
    Open,
    /// In the log, at this offset: it was acknowledged, or shown.
    At(Offset),
    /// A crash has taken it, and nothing may bring it back.
    Gone,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sent {
    bytes: Vec<u8>,
    pub(super) fate: Fate,
    /// When the broker first said where it is: an acknowledgement, or a reader that saw it.
    pub(super) known: Option<Duration>,
    /// On the device, whatever its policy: it was there at an opening, or the log was closed since.
    pub(super) durable: bool,
    pub(super) generation: Option<Generation>,
    /// The time that the broker set, as far as it has said so.
    pub(super) append_time: Option<Timestamp>,
    /// It was sent more than once.
    pub(super) again: bool,
    /// The offset that it was acknowledged with.
    pub(super) answer: Option<Offset>,
    /// The batch of its first records that was sent ahead of it, to be completed by it.
    pub(super) head: Option<u64>,
    /// Where it was placed before it was sent, as a follower gets batches. If nobody said that it was
    /// taken, it may be there.
    pub(super) placed: Option<Offset>,
    timestamps: Vec<Timestamp>,
    /// When it was sent first.
    at: Timestamp,
}

impl Sent {
    /// One that is sent now.
    pub(super) fn new(bytes: &[u8], timestamps: Vec<Timestamp>, now: Timestamp) -> Self {
        Self {
            bytes: bytes.to_vec(),
            fate: Fate::Open,
            known: None,
            durable: false,
            generation: None,
            append_time: None,
            again: false,
            answer: None,
            head: None,
            placed: None,
            timestamps,
            at: now,
        }
    }

    /// The same once more: what a crash took may come back now.
    pub(super) fn again(&mut self) -> Batch {
        self.again = true;
        if self.known.is_none() {
            self.begin_anew(Fate::Open);
        }
        self.batch()
    }

    /// The same as it was sent.
    pub(super) fn batch(&self) -> Batch {
        Batch::parse(BytesMut::from(&self.bytes[..])).expect("it was sent before")
    }

    /// Its first records: when each of them was made, and when it was sent.
    pub(super) fn first(&self, records: usize) -> (Vec<Timestamp>, Timestamp) {
        (self.timestamps[..records].to_vec(), self.at)
    }

    /// Where it is, as far as that is promised: its first record, if some were there before.
    pub(super) fn promised(&self) -> Option<Offset> {
        self.known?;
        match self.fate {
            _ if self.head.is_some() => self.answer,
            Fate::At(offset) => Some(offset),
            Fate::Open | Fate::Gone => None,
        }
    }

    /// The crash may have taken it.
    pub(super) fn is_doubtful(&mut self) {
        self.known = None;
        self.answer = None;
        if self.placed.is_some() && self.fate != Fate::Gone {
            self.fate = Fate::Open;
        }
    }

    /// What was known of it is of no use any more.
    pub(super) fn begin_anew(&mut self, fate: Fate) {
        self.fate = fate;
        self.known = None;
        self.durable = false;
        self.generation = None;
        self.append_time = None;
        self.answer = None;
    }

    /// How many records it has.
    pub(super) fn records(&self) -> u64 {
        self.timestamps.len() as u64
    }

    /// A reader got it like this, whole or without those of its records that were there before.
    pub(super) fn check(&mut self, found: &PlacedBatch, timestamps: Timestamps) {
        let is_append_time = timestamps == Timestamps::Append;
        assert_eq!(found.header().is_append_time(), is_append_time, "{found:?}");
        if is_append_time {
            let time = found.max_timestamp();
            assert!(time >= self.at, "sent at {:?}, and {found:?}", self.at);
            let first = *self.append_time.get_or_insert(time);
            assert_eq!(first, time, "an append time changed: {found:?}");
        }
        if self.is_whole(found) {
            self.check_bytes(found, is_append_time);
        } else {
            self.check_rest(found, is_append_time);
        }
        let first = *self.generation.get_or_insert(found.generation());
        assert_eq!(first, found.generation(), "another generation: {found:?}");
    }

    /// Whether all of its records are in the batch that a reader got.
    pub(super) fn is_whole(&self, found: &PlacedBatch) -> bool {
        u64::try_from(found.header().count) == Ok(self.records())
    }

    fn check_bytes(&self, found: &PlacedBatch, is_append_time: bool) {
        let (sent, got) = (&self.bytes, found.bytes());
        assert_eq!(sent.len(), got.len(), "{found:?}");
        let all = KEPT_FROM..sent.len();
        let behind_time = KEPT_BEHIND_TIME..sent.len();
        let kept = match is_append_time {
            false => vec![all],
            true => KEPT_BESIDE_TIME
                .into_iter()
                .chain(Some(behind_time))
                .collect(),
        };
        for kept in kept {
            let is_same = sent[kept.clone()] == got[kept];
            assert!(is_same, "a batch is not as it was sent: {found:?}");
        }
    }

    fn check_rest(&self, found: &PlacedBatch, is_append_time: bool) {
        assert!(self.head.is_some(), "records are missing: {found:?}");
        let left = u64::try_from(found.header().count).expect("it has records");
        let present = u32::try_from(self.records() - left).expect("batches are small");
        let rest = self.batch().without_first(present);
        let rest = rest.expect("it was sent whole").place(Place {
            base_offset: found.base_offset(),
            generation: found.generation(),
            append_time: is_append_time.then(|| found.max_timestamp()),
        });
        assert_eq!(rest.bytes(), found.bytes(), "what is left of a batch");
    }

    /// Whether retention may have taken it by now. Its own time counts, but none later than its
    /// append, which came no earlier than it was sent.
    pub(super) fn may_go(
        &self,
        retention: Retention,
        timestamps: Timestamps,
        now: Timestamp,
    ) -> bool {
        let newest = match timestamps {
            Timestamps::Append => self.at,
            Timestamps::Create => {
                let times = self.timestamps.iter();
                let newest = match self.head {
                    // Any of its records may be all that was left of it.
                    Some(_) => times.min(),
                    None => times.max(),
                };
                self.at.min(*newest.expect("it has records"))
            }
        };
        let is_old = retention.age.is_some_and(|age| {
            let age = i64::try_from(age.as_millis()).expect("ages are short here");
            now.0 - newest.0 > age
        });
        is_old || retention.bytes.is_some()
    }
}
