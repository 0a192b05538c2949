//! A batch that somebody sent in a story, and what is known of it.

use bytes::BytesMut;
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
        Batch::parse(BytesMut::from(&self.bytes[..])).expect("it was sent before")
    }

    /// What was known of it is of no use any more.
    pub(super) fn begin_anew(&mut self, fate: Fate) {
        self.fate = fate;
        self.known = None;
        self.durable = false;
        self.generation = None;
        self.append_time = None;
    }

    /// How many records it has.
    pub(super) fn records(&self) -> u64 {
        self.timestamps.len() as u64
    }

    /// A reader got it like this.
    pub(super) fn check(&mut self, found: &PlacedBatch, timestamps: Timestamps) {
        let is_append_time = timestamps == Timestamps::Append;
        assert_eq!(found.header().is_append_time(), is_append_time, "{found:?}");
        let found_bytes = found.bytes();
        assert_eq!(self.bytes.len(), found_bytes.len(), "{found:?}");
        if is_append_time {
            for kept in KEPT_BESIDE_TIME {
                assert_eq!(
                    self.bytes[kept.clone()],
                    found_bytes[kept],
                    "a batch is not as it was sent: {found:?}"
                );
            }
            assert_eq!(
                self.bytes[KEPT_BEHIND_TIME..],
                found_bytes[KEPT_BEHIND_TIME..],
                "a batch is not as it was sent: {found:?}"
            );
            let time = found.max_timestamp();
            assert!(time >= self.at, "sent at {:?}, and {found:?}", self.at);
            let first = *self.append_time.get_or_insert(time);
            assert_eq!(first, time, "an append time changed: {found:?}");
        } else {
            assert_eq!(
                self.bytes[KEPT_FROM..],
                found_bytes[KEPT_FROM..],
                "a batch is not as it was sent: {found:?}"
            );
        }
        let first = *self.generation.get_or_insert(found.generation());
        assert_eq!(first, found.generation(), "another generation: {found:?}");
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
                let newest = self.timestamps.iter().max().expect("it has records");
                self.at.min(*newest)
            }
        };
        let is_old = retention.age.is_some_and(|age| {
            let age = i64::try_from(age.as_millis()).expect("ages are short here");
            now.0 - newest.0 > age
        });
        is_old || retention.bytes.is_some()
    }
}
