//! The requests we speak, and the version of each.

use super::Problem;
use std::fmt;

/// A kind of request, in the one version we speak of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Api {
    /// Appends batches.
    Produce,
    /// Reads batches.
    Fetch,
    /// Finds the end of a partition.
    ListOffsets,
    /// Tells partitions and their leaders.
    Metadata,
    /// Names the mechanism of the authentication that follows.
    SaslHandshake,
    /// Tells which versions a broker serves.
    ApiVersions,
    /// Makes a topic.
    CreateTopics,
    /// Drops a topic.
    DeleteTopics,
    /// Hands out the id of an idempotent producer.
    InitProducerId,
    /// Authenticates.
    SaslAuthenticate,
}

impl Api {
    /// Without these there is nothing to measure.
    pub const NEEDED: [Self; 4] = [
        Self::Produce,
        Self::Fetch,
        Self::ListOffsets,
        Self::Metadata,
    ];

    /// Its number on the wire.
    #[must_use]
    pub const fn key(self) -> i16 {
        match self {
            Self::Produce => 0,
            Self::Fetch => 1,
            Self::ListOffsets => 2,
            Self::Metadata => 3,
            Self::SaslHandshake => 17,
            Self::ApiVersions => 18,
            Self::CreateTopics => 19,
            Self::DeleteTopics => 20,
            Self::InitProducerId => 22,
            Self::SaslAuthenticate => 36,
        }
    }

    /// The version we speak. None is a flexible one, whose fields are of varying length.
    #[must_use]
    pub const fn version(self) -> i16 {
        match self {
            // Zstandard came with 7 (KIP-110), and some brokers end there.
            Self::Produce => 7,
            // Zstandard came with 10; 11 is the last one without compact encodings.
            Self::Fetch => 11,
            Self::ListOffsets => 2,
            // With 4, asking for a topic need not make it (KIP-204).
            Self::Metadata | Self::CreateTopics => 4,
            Self::SaslHandshake
            | Self::DeleteTopics
            | Self::InitProducerId
            | Self::SaslAuthenticate => 1,
            Self::ApiVersions => 0,
        }
    }

    /// Its name in the protocol's documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Produce => "Produce",
            Self::Fetch => "Fetch",
            Self::ListOffsets => "ListOffsets",
            Self::Metadata => "Metadata",
            Self::SaslHandshake => "SaslHandshake",
            Self::ApiVersions => "ApiVersions",
            Self::CreateTopics => "CreateTopics",
            Self::DeleteTopics => "DeleteTopics",
            Self::InitProducerId => "InitProducerId",
            Self::SaslAuthenticate => "SaslAuthenticate",
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Versions of one kind of request that a broker serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Served {
    pub(super) key: i16,
    pub(super) min: i16,
    pub(super) max: i16,
}

/// Fails with a sentence unless `served` has our version of `api`.
pub(super) fn check_served(api: Api, served: &[Served]) -> Result<(), Problem> {
    let version = api.version();
    let Some(range) = served.iter().find(|served| served.key == api.key()) else {
        return Err(Problem::new(format!("the broker does not serve {api}")));
    };
    if (range.min..=range.max).contains(&version) {
        return Ok(());
    }
    Err(Problem::new(format!(
        "the broker serves {api} in versions {} to {}, and felix-bench speaks version {version}; \
         it needs a broker of another release",
        range.min, range.max
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn range(key: i16, min: i16, max: i16) -> Served {
        Served { key, min, max }
    }

    #[test]
    fn a_version_at_either_end_of_the_range_is_served() {
        for (min, max) in [(7, 11), (0, 7), (7, 7)] {
            assert_eq!(check_served(Api::Produce, &[range(0, min, max)]), Ok(()));
        }
    }

    #[test]
    fn a_broker_that_lacks_our_version_is_told_by_its_range() {
        for (min, max) in [(8, 12), (0, 6)] {
            let problem = check_served(Api::Produce, &[range(0, min, max)]).unwrap_err();
            let problem = problem.to_string();
            assert!(
                problem.contains(&format!("Produce in versions {min} to {max}")),
                "{problem}"
            );
        }
        let problem = check_served(Api::CreateTopics, &[range(0, 0, 9)]).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "the broker does not serve CreateTopics"
        );
    }
}
