//! Which APIs are served, at which versions.

/// An API this broker serves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ApiKey {
    /// Append record batches.
    Produce,
    /// Read record batches.
    Fetch,
    /// Find offsets.
    ListOffsets,
    /// Topics, partitions and their leaders.
    Metadata,
    /// The coordinator of a group or transaction. Refused; served because clients look for it.
    FindCoordinator,
    /// Which SASL mechanism a connection authenticates by.
    SaslHandshake,
    /// The APIs and versions served.
    ApiVersions,
    /// An id for an idempotent producer.
    InitProducerId,
    /// Where the records of a leader epoch end.
    OffsetForLeaderEpoch,
    /// Credentials.
    SaslAuthenticate,
    /// The nodes.
    DescribeCluster,
}

/// The versions of one API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The lowest advertised.
    pub min: i16,
    /// The highest advertised.
    pub max: i16,
    /// The first with compact encodings and tagged fields (KIP-482).
    pub flexible_from: i16,
}

/// What to do with a request, by the key and version in its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// Decode and serve it.
    Served(ApiKey),
    /// ApiVersions at a version we do not speak: answer UNSUPPORTED_VERSION in the layout of
    /// version 0, whatever the body holds, and keep the connection (claim 127).
    ApiVersionsUnsupported,
    /// Close the connection: no answer would have a shape the client expects.
    Unsupported,
}

impl ApiKey {
    /// All served APIs, by rising key.
    pub const ALL: [Self; 11] = [
        Self::Produce,
        Self::Fetch,
        Self::ListOffsets,
        Self::Metadata,
        Self::FindCoordinator,
        Self::SaslHandshake,
        Self::ApiVersions,
        Self::InitProducerId,
        Self::OffsetForLeaderEpoch,
        Self::SaslAuthenticate,
        Self::DescribeCluster,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn wire(self) -> i16 {
        match self {
            Self::Produce => 0,
            Self::Fetch => 1,
            Self::ListOffsets => 2,
            Self::Metadata => 3,
            Self::FindCoordinator => 10,
            Self::SaslHandshake => 17,
            Self::ApiVersions => 18,
            Self::InitProducerId => 22,
            Self::OffsetForLeaderEpoch => 23,
            Self::SaslAuthenticate => 36,
            Self::DescribeCluster => 60,
        }
    }

    /// The name, as Kafka spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Produce => "Produce",
            Self::Fetch => "Fetch",
            Self::ListOffsets => "ListOffsets",
            Self::Metadata => "Metadata",
            Self::FindCoordinator => "FindCoordinator",
            Self::SaslHandshake => "SaslHandshake",
            Self::ApiVersions => "ApiVersions",
            Self::InitProducerId => "InitProducerId",
            Self::OffsetForLeaderEpoch => "OffsetForLeaderEpoch",
            Self::SaslAuthenticate => "SaslAuthenticate",
            Self::DescribeCluster => "DescribeCluster",
        }
    }

    /// The table of what is advertised.
    #[must_use]
    pub const fn versions(self) -> Versions {
        let (min, max, flexible_from) = match self {
            // From 0, because librdkafka tells by a low minimum what a broker can do. Versions 0
            // to 2 are answered with an error for each partition: they cannot carry batches of
            // the format the log is made of.
            Self::Produce => (0, 11, 9),
            // From 13 on topics go by id only.
            Self::Fetch => (4, 12, 12),
            // Version 9 brings offsets in tiered storage, 10 a timeout for asking there.
            Self::ListOffsets => (1, 8, 6),
            Self::Metadata => (0, 12, 9),
            // librdkafka enables LZ4 only where version 0 is advertised.
            Self::FindCoordinator => (0, 6, 3),
            // After version 0, tokens follow on the wire without Kafka's headers. No version is
            // flexible.
            Self::SaslHandshake => (0, 1, i16::MAX),
            Self::ApiVersions => (0, 4, 3),
            Self::InitProducerId => (0, 5, 2),
            // Before version 2 a client cannot say which leader it believes in.
            Self::OffsetForLeaderEpoch => (2, 4, 4),
            Self::SaslAuthenticate => (0, 2, 2),
            // Version 2 tells of fenced brokers.
            Self::DescribeCluster => (0, 1, 0),
        };
        Versions {
            min,
            max,
            flexible_from,
        }
    }

    /// The API of a number on the wire.
    #[must_use]
    pub fn from_wire(key: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.wire() == key)
    }

    /// Whether this version is advertised.
    #[must_use]
    pub fn serves(self, version: i16) -> bool {
        let Versions {
            min,
            max,
            flexible_from: _,
        } = self.versions();
        (min..=max).contains(&version)
    }

    /// Whether this version has compact encodings and tagged fields.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.versions().flexible_from
    }

    /// Whether an answer's header has tagged fields (response header 1).
    #[must_use]
    pub fn has_flexible_response_header(self, version: i16) -> bool {
        // KIP-511: a client reads the answer to ApiVersions before it knows what the broker
        // speaks, so its header never changes.
        self != Self::ApiVersions && self.is_flexible(version)
    }
}

impl Support {
    /// What to do with a request of this key and version.
    #[must_use]
    pub fn of(key: i16, version: i16) -> Self {
        match ApiKey::from_wire(key) {
            Some(api) if api.serves(version) => Self::Served(api),
            Some(ApiKey::ApiVersions) => Self::ApiVersionsUnsupported,
            Some(_) | None => Self::Unsupported,
        }
    }
}
