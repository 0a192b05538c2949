//! What a stream is set to, and which settings go together.

use crate::catalog::retention::RetentionPolicy;
use crate::refusal::Invalid;
use felix_core::limits::{AGE_SECONDS_MAX, SHARDS_PER_STREAM_MAX};
use felix_core::{Durability, Timestamps};
use serde::{Deserialize, Serialize};

/// Which view of the log a stream is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Kind {
    /// Each subscriber reads all of it.
    #[default]
    Stream,
    /// Subscribers share it.
    Queue,
    /// Its newest record of each key counts.
    Cache,
}

/// Who has a record before it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Consistency {
    /// The leader.
    #[default]
    Leader,
    /// A majority of the replicas.
    Quorum,
}

/// How often a subscriber sees a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Delivery {
    /// Once, or not at all.
    AtMostOnce,
    /// Once, or again.
    #[default]
    AtLeastOnce,
}

/// When appends are flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DurabilityPolicy {
    /// As the broker's own setting says.
    #[default]
    Inherit,
    /// When the kernel pleases.
    None,
    /// Every interval.
    Periodic,
    /// Before they are acknowledged.
    OnCommit,
}

impl DurabilityPolicy {
    /// What a broker with this default does.
    #[must_use]
    pub fn resolve(self, default: Durability) -> Durability {
        match self {
            Self::Inherit => default,
            Self::None => Durability::None,
            Self::Periodic => Durability::Periodic,
            Self::OnCommit => Durability::OnCommit,
        }
    }
}

/// What a stream is set to. Read from JSON, what is not said is as here by default.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamSettings {
    /// Which view it is for. For life.
    pub kind: Kind,
    /// Shards: Kafka's partitions. There may come more and never fewer. With more, a key goes to
    /// another shard than before: what was written under it stays where it is, and the order
    /// between old and new records of a key is kept no longer.
    pub shards: u32,
    /// Whether it has a log on disk. For life.
    pub durable: bool,
    /// Who has a record before it is acknowledged.
    pub consistency: Consistency,
    /// How often a subscriber sees a record.
    pub delivery: Delivery,
    /// When appends are flushed.
    pub durability: DurabilityPolicy,
    /// Whose clock its records carry.
    #[serde(with = "crate::spelling::timestamps")]
    pub timestamps: Timestamps,
    /// How much of it is kept.
    pub retention: RetentionPolicy,
    /// After how many seconds a segment is sealed; `None`: as the broker's own setting says.
    pub segment_seconds: Option<u64>,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            kind: Kind::Stream,
            shards: 1,
            durable: true,
            consistency: Consistency::Leader,
            delivery: Delivery::AtLeastOnce,
            durability: DurabilityPolicy::Inherit,
            timestamps: Timestamps::Append,
            retention: RetentionPolicy::default(),
            segment_seconds: None,
        }
    }
}

impl StreamSettings {
    /// Those of a stream in memory, where nothing else is said.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            durable: false,
            delivery: Delivery::AtMostOnce,
            ..Self::default()
        }
    }

    /// Whether they can be, and go together.
    ///
    /// # Errors
    /// The first of them that cannot, or does not.
    pub fn check(&self) -> Result<(), Invalid> {
        check_shards(self.shards)?;
        if let Some((field, max)) = self.retention.fault() {
            return Err(Invalid::TooLarge { field, max });
        }
        if let Some(seconds) = self.segment_seconds
            && !(1..=AGE_SECONDS_MAX).contains(&seconds)
        {
            return Err(Invalid::SegmentSeconds(seconds));
        }
        if self.durable {
            return Ok(());
        }
        self.check_in_memory()
    }

    fn check_in_memory(&self) -> Result<(), Invalid> {
        let inherits = RetentionPolicy::default();
        let (field, why) = if self.delivery != Delivery::AtMostOnce {
            (
                "delivery",
                "what is not on disk cannot be delivered again: AtMostOnce",
            )
        } else if self.consistency != Consistency::Leader {
            ("consistency", "there is no log to replicate: Leader")
        } else if self.durability != DurabilityPolicy::Inherit {
            ("durability", "there is nothing to flush: leave it out")
        } else if self.retention != inherits {
            (
                "retention",
                "it keeps its newest records in a ring of fixed size: leave it out",
            )
        } else if self.segment_seconds.is_some() {
            ("segment_seconds", "it has no segments: leave it out")
        } else {
            return Ok(());
        };
        Err(Invalid::InMemory { field, why })
    }

    /// Whether a stream with these settings can be given those.
    ///
    /// # Errors
    /// Something in them is for life, or they cannot be at all.
    pub fn check_change(&self, to: &Self) -> Result<(), Invalid> {
        to.check()?;
        if to.kind != self.kind {
            return Err(Invalid::ForLife { field: "kind" });
        }
        if to.durable != self.durable {
            return Err(Invalid::ForLife { field: "durable" });
        }
        check_more_shards(self.shards, to.shards)
    }
}

/// Whether there can be so many shards.
///
/// # Errors
/// There cannot.
pub(crate) fn check_shards(shards: u32) -> Result<(), Invalid> {
    let can_be = (1..=SHARDS_PER_STREAM_MAX).contains(&shards);
    can_be.then_some(()).ok_or(Invalid::Shards(shards))
}

/// Whether so many shards can become so many.
///
/// # Errors
/// They are fewer.
pub(crate) fn check_more_shards(had: u32, asked: u32) -> Result<(), Invalid> {
    (asked >= had)
        .then_some(())
        .ok_or(Invalid::FewerShards { had, asked })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::RetentionBound;
    use felix_core::limits::RETENTION_BYTES_MAX;
    use std::num::NonZeroU64;

    fn refusal(settings: &StreamSettings) -> String {
        settings.check().unwrap_err().to_string()
    }

    #[test]
    fn what_nobody_says_is_durable_led_by_one_and_delivered_at_least_once() {
        let read: StreamSettings = serde_json::from_str("{}").unwrap();
        assert_eq!(read, StreamSettings::default());
        assert!(read.durable);
        assert_eq!((read.shards, read.check()), (1, Ok(())));
        assert!(serde_json::from_str::<StreamSettings>(r#"{"shard": 3}"#).is_err());
        let all = r#"{"kind":"Queue","shards":3,"durable":true,"consistency":"Quorum",
            "delivery":"AtMostOnce","durability":"on_commit","timestamps":"create",
            "retention":{"max_age_seconds":60},"segment_seconds":5}"#;
        let read: StreamSettings = serde_json::from_str(all).unwrap();
        assert_eq!(read.check(), Ok(()));
        let written = serde_json::to_string(&read).unwrap();
        assert_eq!(
            serde_json::from_str::<StreamSettings>(&written).unwrap(),
            read
        );
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_possible_ones() {
        let with = |change: fn(&mut StreamSettings)| {
            let mut settings = StreamSettings::default();
            change(&mut settings);
            refusal(&settings)
        };
        assert!(with(|of| of.shards = 0).contains("0 shards; give 1 to 1024"));
        assert!(with(|of| of.shards = 1025).contains("1025 shards; give 1 to 1024"));
        let sentence = with(|of| of.segment_seconds = Some(0));
        assert!(
            sentence.contains("segment_seconds is 0; give 1 to 10000000000"),
            "{sentence}"
        );
        let sentence = with(|of| {
            let above = NonZeroU64::new(RETENTION_BYTES_MAX + 1).unwrap();
            of.retention.max_size_bytes = RetentionBound::At(above);
        });
        assert!(sentence.contains("retention.max_size_bytes"), "{sentence}");
        assert!(sentence.contains("1152921504606846976"), "{sentence}");
    }

    #[test]
    fn a_stream_in_memory_promises_nothing_that_takes_a_disk() {
        assert_eq!(StreamSettings::in_memory().check(), Ok(()));
        let with = |change: fn(&mut StreamSettings)| {
            let mut settings = StreamSettings::in_memory();
            change(&mut settings);
            refusal(&settings)
        };
        for (sentence, field) in [
            (with(|of| of.delivery = Delivery::AtLeastOnce), "delivery"),
            (
                with(|of| of.consistency = Consistency::Quorum),
                "consistency",
            ),
            (
                with(|of| of.durability = DurabilityPolicy::Periodic),
                "durability",
            ),
            (
                with(|of| of.retention.max_age_seconds = RetentionBound::Unlimited),
                "retention",
            ),
            (with(|of| of.segment_seconds = Some(1)), "segment_seconds"),
        ] {
            assert!(sentence.starts_with(field), "{sentence}");
            assert!(sentence.contains("durable: false"), "{sentence}");
        }
    }

    #[test]
    fn shards_may_be_added_and_kind_and_durable_are_for_life() {
        let three = StreamSettings {
            shards: 3,
            ..StreamSettings::default()
        };
        let changed = |change: fn(&mut StreamSettings)| {
            let mut to = three.clone();
            change(&mut to);
            three.check_change(&to)
        };
        assert_eq!(changed(|to| to.shards = 4), Ok(()));
        assert_eq!(changed(|to| to.consistency = Consistency::Quorum), Ok(()));
        assert_eq!(
            changed(|to| to.shards = 2),
            Err(Invalid::FewerShards { had: 3, asked: 2 })
        );
        assert_eq!(
            changed(|to| to.kind = Kind::Queue),
            Err(Invalid::ForLife { field: "kind" })
        );
        let in_memory = three.check_change(&StreamSettings {
            shards: 3,
            ..StreamSettings::in_memory()
        });
        assert_eq!(in_memory, Err(Invalid::ForLife { field: "durable" }));
    }
}
