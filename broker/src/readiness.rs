//! How far the broker is, as `/ready` tells it.

use std::fmt;

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
    /// Those that serve nothing, by topic and partition. They do not keep the others from it.
    pub(crate) failed: Vec<String>,
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
        for shard in self.shards.iter().flat_map(|shards| &shards.failed) {
            write!(f, "\nfailed: {shard}; the log says why")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_and_a_failed_shard_does_not_hide_the_rest() {
        let shards = ShardCounts {
            all: 3,
            open: 1,
            failed: Vec::new(),
        };
        let mut readiness = Readiness {
            phase: Phase::Opening,
            shards: Some(shards.clone()),
        };
        assert_eq!(readiness.to_string(), "opening: 1 of 3 shards");
        assert!(!readiness.is_ready());
        readiness.phase = Phase::Serving;
        assert_eq!(readiness.to_string(), "ok");
        let failed = vec!["default.clicks-2".to_owned()];
        readiness.shards = Some(ShardCounts { failed, ..shards });
        assert!(readiness.is_ready());
        assert_eq!(
            readiness.to_string(),
            "ok\nfailed: default.clicks-2; the log says why"
        );
        readiness.phase = Phase::Draining;
        assert!(readiness.to_string().starts_with("draining\n"));
        assert!(!readiness.is_ready());
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
