//! What is wrong with the storage of a broker that serves: shards that failed, and a full disk. Told by
//! the cores, each of which knows of its own.

use felix_core::ShardId;
use std::collections::BTreeMap;

/// Failed shards that the numbers name. More are counted: each reason is a series of its own.
const NAMED_MAX: usize = 64;

/// What numbers say of a reason at most, in bytes.
const REASON_BYTES_MAX: usize = 400;

/// What one core knows of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Troubles {
    /// Its shards that failed, and why.
    pub(crate) failures: Vec<(ShardId, String)>,
    /// Why it refuses appends, if it does: the disk is full.
    pub(crate) full: Option<String>,
}

/// How numbers name a failed shard.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) tenant: String,
    /// `<namespace>.<stream>`.
    pub(crate) stream: String,
    pub(crate) shard: u32,
}

/// Failed shards as numbers name them: few, and the others by their count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Named {
    failed: BTreeMap<Place, String>,
    unnamed: usize,
}

impl Named {
    /// Adds a shard, with what it failed of first: that does not change while it is tried again.
    pub(crate) fn add(&mut self, place: Place, reason: &str) {
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let reason = reason.get(..end).unwrap_or_default();
        self.failed.insert(place, reason.to_owned());
        if self.failed.len() > NAMED_MAX {
            // The same ones each time.
            self.failed.pop_last();
            self.unnamed += 1;
        }
    }

    /// Adds those of another core.
    pub(crate) fn merge(&mut self, other: Self) {
        self.unnamed += other.unnamed;
        for (place, reason) in other.failed {
            self.add(place, &reason);
        }
    }

    /// How many are not named.
    pub(crate) fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// The labels of each that is.
    pub(crate) fn labels(self) -> impl Iterator<Item = Vec<(&'static str, String)>> {
        self.failed.into_iter().map(|(place, reason)| {
            vec![
                ("tenant", place.tenant),
                ("stream", place.stream),
                ("shard", place.shard.to_string()),
                ("reason", reason),
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(shards: impl Iterator<Item = u32>) -> Named {
        let mut named = Named::default();
        for shard in shards {
            let place = Place {
                tenant: "dev".into(),
                stream: "default.clicks".into(),
                shard,
            };
            named.add(place, &"\u{e9}".repeat(1000));
        }
        named
    }

    #[test]
    fn of_very_many_failed_shards_the_same_few_are_named_and_the_others_counted() {
        let mut one = named((0..300).step_by(2));
        one.merge(named(
            (1..300).step_by(2).collect::<Vec<_>>().into_iter().rev(),
        ));
        assert_eq!(one.unnamed(), 300 - NAMED_MAX);
        let shards = one.labels().map(|labels| labels[2].1.clone());
        let first: Vec<_> = (0..NAMED_MAX).map(|shard| shard.to_string()).collect();
        assert_eq!(shards.collect::<Vec<_>>(), first);
    }

    #[test]
    fn a_long_reason_is_cut_between_two_characters() {
        let labels = named(0..1).labels().next().unwrap();
        assert_eq!(labels[0], ("tenant", "dev".to_owned()));
        assert_eq!(labels[3].1, "\u{e9}".repeat(REASON_BYTES_MAX / 2));
    }
}
