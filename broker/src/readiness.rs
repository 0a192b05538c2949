//! How far the broker is, as `/ready` tells it.

use felix_core::ShardId;
use std::collections::HashMap;
use std::fmt;

/// Failed shards that are named. More are counted.
const NAMED_MAX: usize = 100;

/// Where the broker stands between start and end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Shards are being opened.
    Opening,
    /// Everything that can be served is.
    Serving,
    /// It is shutting down.
    Draining,
}

/// The shards of the catalog, as one core's table has them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ShardCounts {
    /// All of them.
    pub(crate) all: usize,
    /// Those that are open.
    pub(crate) open: usize,
    /// Those that serve nothing. They do not keep the others from it.
    pub(crate) failed: Vec<FailedShard>,
    /// Why appends are refused, if they are: the disk is full. Reads go on.
    pub(crate) full: Option<String>,
}

impl ShardCounts {
    /// Takes what the cores that own failed shards say of them.
    pub(crate) fn explain(&mut self, reasons: Vec<(ShardId, String)>) {
        let mut reasons: HashMap<ShardId, String> = reasons.into_iter().collect();
        for shard in &mut self.failed {
            shard.reason = reasons.remove(&shard.id);
        }
    }
}

/// A shard that serves nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FailedShard {
    /// Which.
    pub(crate) id: ShardId,
    /// The same for people: topic and partition.
    pub(crate) name: String,
    /// Why; `None`: its core did not tell in time.
    pub(crate) reason: Option<String>,
}

impl fmt::Display for FailedShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One a line, whatever a path has in it.
        let reason = self.reason.as_deref().unwrap_or("the log says why");
        write!(f, "failed: {}: {}", self.name, reason.replace('\n', " "))
    }
}

/// How far the broker is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Readiness {
    /// Where it stands.
    pub(crate) phase: Phase,
    /// Its shards; `None`: the core that was asked did not answer in time.
    pub(crate) shards: Option<ShardCounts>,
}

impl Readiness {
    /// Whether clients are to be sent here.
    #[must_use]
    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Serving && self.shards.is_some()
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.phase, &self.shards) {
            (Phase::Draining, _) => f.write_str("draining")?,
            (Phase::Opening | Phase::Serving, None) => f.write_str("core 0 does not answer")?,
            (Phase::Opening, Some(shards)) => {
                write!(f, "opening: {} of {} shards", shards.open, shards.all)?;
            }
            (Phase::Serving, Some(_)) => f.write_str("ok")?,
        }
        let full = self.shards.as_ref().and_then(|shards| shards.full.as_ref());
        if let Some(full) = full {
            write!(f, "\nfull: {}", full.replace('\n', " "))?;
        }
        let failed = self
            .shards
            .as_ref()
            .map_or(&[][..], |shards| &shards.failed);
        for shard in failed.iter().take(NAMED_MAX) {
            write!(f, "\n{shard}")?;
        }
        match failed.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, "\nfailed: {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::StreamId;

    fn failed(index: u32) -> FailedShard {
        FailedShard {
            id: ShardId {
                stream: StreamId(1),
                index,
            },
            name: format!("default.clicks-{index}"),
            reason: None,
        }
    }

    #[test]
    fn what_is_missing_is_said_and_a_failed_shard_does_not_hide_the_rest() {
        let shards = ShardCounts {
            all: 3,
            open: 1,
            ..ShardCounts::default()
        };
        let mut readiness = Readiness {
            phase: Phase::Opening,
            shards: Some(shards.clone()),
        };
        assert_eq!(readiness.to_string(), "opening: 1 of 3 shards");
        assert!(!readiness.is_ready());
        readiness.phase = Phase::Serving;
        assert_eq!(readiness.to_string(), "ok");
        let mut shards = ShardCounts {
            failed: vec![failed(0), failed(2)],
            ..shards
        };
        shards.explain(vec![(failed(2).id, "no space\nat all".to_owned())]);
        readiness.shards = Some(shards);
        assert!(readiness.is_ready());
        assert_eq!(
            readiness.to_string(),
            "ok\nfailed: default.clicks-0: the log says why\n\
             failed: default.clicks-2: no space at all"
        );
        readiness.phase = Phase::Draining;
        assert!(readiness.to_string().starts_with("draining\n"));
        assert!(!readiness.is_ready());
    }

    #[test]
    fn a_full_disk_is_told_before_failed_shards_and_reads_are_to_come_here_all_the_same() {
        let readiness = Readiness {
            phase: Phase::Serving,
            shards: Some(ShardCounts {
                failed: vec![failed(0)],
                full: Some("the disk of /a\nb is full".to_owned()),
                ..ShardCounts::default()
            }),
        };
        assert!(readiness.is_ready());
        assert_eq!(
            readiness.to_string(),
            "ok\nfull: the disk of /a b is full\nfailed: default.clicks-0: the log says why"
        );
    }

    #[test]
    fn of_very_many_failed_shards_the_first_are_named() {
        let readiness = Readiness {
            phase: Phase::Serving,
            shards: Some(ShardCounts {
                failed: (0..300).map(failed).collect(),
                ..ShardCounts::default()
            }),
        };
        let text = readiness.to_string();
        assert_eq!(text.lines().count(), 1 + NAMED_MAX + 1);
        assert!(text.ends_with("\nfailed: 200 more"), "{text}");
    }

    #[test]
    fn a_core_that_does_not_answer_is_not_ready() {
        let readiness = Readiness {
            phase: Phase::Serving,
            shards: None,
        };
        assert!(!readiness.is_ready());
        assert_eq!(readiness.to_string(), "core 0 does not answer");
    }
}
