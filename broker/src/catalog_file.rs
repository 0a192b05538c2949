//! The streams an operator lists in a TOML file, until a control plane keeps them.

use crate::identity::Identity;
use felix_core::limits::{AGE_SECONDS_MAX, RETENTION_BYTES_MAX};
use felix_core::{Durability, Generation, Retention, Stream, StreamId, Timestamps};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

/// What a stream has whose entry does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamDefaults {
    /// When its appends are flushed.
    pub(crate) durability: Durability,
    /// How much of it is kept.
    pub(crate) retention: Retention,
    /// After how long its segments are sealed.
    pub(crate) segment_age: Duration,
}

/// A stream as an operator describes it: no identity yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Described {
    /// The tenant that owns it.
    pub(crate) tenant: String,
    /// The namespace.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
    /// Number of shards.
    pub(crate) shards: u32,
    /// Flush policy.
    pub(crate) durability: Durability,
    /// Whose clock.
    pub(crate) timestamps: Timestamps,
    /// How much of it is kept.
    pub(crate) retention: Retention,
    /// After how long its segments are sealed.
    pub(crate) segment_age: Duration,
    /// The stream of that name is to be left behind for an empty one, if it has this identity.
    pub(crate) begin_anew: Option<StreamId>,
}

impl Described {
    /// The stream, with its identity.
    #[must_use]
    pub(crate) fn stream(&self, id: StreamId, generation_floor: Generation) -> Stream {
        Stream {
            id,
            tenant: self.tenant.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            shards: self.shards,
            durability: self.durability,
            timestamps: self.timestamps,
            retention: self.retention,
            segment_age: self.segment_age,
            generation_floor,
        }
    }

    /// The stream that `--dev` brings: `default.clicks` of tenant `dev`, with three shards.
    #[must_use]
    pub(crate) fn dev(defaults: &StreamDefaults) -> Self {
        Self {
            tenant: "dev".into(),
            namespace: "default".into(),
            name: "clicks".into(),
            shards: 3,
            durability: defaults.durability,
            timestamps: Timestamps::Append,
            retention: defaults.retention,
            segment_age: defaults.segment_age,
            begin_anew: None,
        }
    }

    /// The Kafka topic.
    #[must_use]
    pub(crate) fn topic(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }

    /// Whether both are about the same name.
    #[must_use]
    pub(crate) fn is_namesake(&self, other: &Self) -> bool {
        let name = |stream: &'_ Self| {
            (
                stream.tenant.clone(),
                stream.namespace.clone(),
                stream.name.clone(),
            )
        };
        name(self) == name(other)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    stream: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    tenant: String,
    namespace: String,
    name: String,
    shards: u32,
    durability: Option<DurabilityWord>,
    #[serde(default)]
    timestamps: TimestampsWord,
    retention_bytes: Option<Bound<RETENTION_BYTES_MAX>>,
    retention_seconds: Option<Bound<AGE_SECONDS_MAX>>,
    segment_seconds: Option<Within<AGE_SECONDS_MAX>>,
    begin_anew: Option<Identity>,
}

/// A whole number from 1 to a greatest.
#[derive(Clone, Copy)]
struct Within<const MAX: u64>(NonZeroU64);

/// How much is kept: all, where there is no number.
#[derive(Clone, Copy)]
struct Bound<const MAX: u64>(Option<Within<MAX>>);

impl<const MAX: u64> Within<MAX> {
    /// `None`: it is not within them.
    fn of(number: i64) -> Option<Self> {
        let number = u64::try_from(number).ok().and_then(NonZeroU64::new)?;
        (number.get() <= MAX).then_some(Self(number))
    }
}

impl<const MAX: u64> Bound<MAX> {
    fn number(self) -> Option<NonZeroU64> {
        self.0.map(|Within(number)| number)
    }
}

/// Reads the values above.
struct Numbers<const MAX: u64> {
    or_unlimited: bool,
}

impl<const MAX: u64> Visitor<'_> for Numbers<MAX> {
    type Value = Bound<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {MAX}")?;
        if self.or_unlimited {
            write!(f, ", or \"unlimited\"")?;
        }
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        match Within::of(number) {
            Some(within) => Ok(Bound(Some(within))),
            None => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
        if self.or_unlimited && word == "unlimited" {
            return Ok(Bound(None));
        }
        Err(E::invalid_value(Unexpected::Str(word), &self))
    }
}

impl<'de, const MAX: u64> Deserialize<'de> for Bound<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Numbers { or_unlimited: true })
    }
}

impl<'de, const MAX: u64> Deserialize<'de> for Within<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let or_unlimited = false;
        let Bound(number) = from.deserialize_any(Numbers { or_unlimited })?;
        Ok(number.expect("only a number was taken"))
    }
}

impl Entry {
    fn retention(&self, default: Retention) -> Retention {
        let age = |bound: Bound<AGE_SECONDS_MAX>| {
            bound
                .number()
                .map(|seconds| Duration::from_secs(seconds.get()))
        };
        Retention {
            bytes: self.retention_bytes.map_or(default.bytes, Bound::number),
            age: self.retention_seconds.map_or(default.age, age),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum DurabilityWord {
    None,
    Periodic,
    OnCommit,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum TimestampsWord {
    #[default]
    Append,
    Create,
}

/// The streams of the catalog file, if there is one, and the one that `--dev` brings unless the file
/// has it.
///
/// # Errors
/// A sentence with the file and the line.
pub(crate) fn listed(
    file: Option<&Path>,
    dev: bool,
    defaults: &StreamDefaults,
) -> Result<Vec<Described>, String> {
    let mut listed = match file {
        Some(path) => read(path, defaults)?,
        None => Vec::new(),
    };
    let clicks = Described::dev(defaults);
    if dev && !listed.iter().any(|stream| stream.is_namesake(&clicks)) {
        listed.push(clicks);
    }
    Ok(listed)
}

/// Reads a catalog file.
///
/// # Errors
/// A sentence with the file and the line.
fn read(path: &Path, defaults: &StreamDefaults) -> Result<Vec<Described>, String> {
    let text = fs::read_to_string(path).map_err(|error| {
        let shown = path.display();
        format!("the catalog file {shown} cannot be read: {error}; FELIX_CATALOG_FILE names it")
    })?;
    parse(&text, defaults).map_err(|fault| format!("the catalog file {}: {fault}", path.display()))
}

fn parse(text: &str, defaults: &StreamDefaults) -> Result<Vec<Described>, String> {
    let page: Page = toml::from_str(text).map_err(|error| error.to_string())?;
    let described = page.stream.into_iter().map(|entry| Described {
        retention: entry.retention(defaults.retention),
        segment_age: entry
            .segment_seconds
            .map_or(defaults.segment_age, |Within(seconds)| {
                Duration::from_secs(seconds.get())
            }),
        tenant: entry.tenant,
        namespace: entry.namespace,
        name: entry.name,
        shards: entry.shards,
        durability: match entry.durability {
            Some(DurabilityWord::None) => Durability::None,
            Some(DurabilityWord::Periodic) => Durability::Periodic,
            Some(DurabilityWord::OnCommit) => Durability::OnCommit,
            None => defaults.durability,
        },
        timestamps: match entry.timestamps {
            TimestampsWord::Append => Timestamps::Append,
            TimestampsWord::Create => Timestamps::Create,
        },
        begin_anew: entry.begin_anew.map(|Identity(id)| id),
    });
    Ok(described.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLICKS: &str = "[[stream]]\ntenant = \"dev\"\nnamespace = \"default\"\n\
                          name = \"clicks\"\nshards = 3\n";

    const WEEK: Duration = Duration::from_secs(604_800);

    fn defaults(durability: Durability) -> StreamDefaults {
        StreamDefaults {
            durability,
            retention: Retention::default(),
            segment_age: WEEK,
        }
    }

    #[test]
    fn retention_is_the_brokers_unless_the_stream_has_its_own_or_none() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let broker = Retention {
            bytes: NonZeroU64::new(500),
            age: seconds(60),
        };
        let of = |extra: &str| {
            let defaults = StreamDefaults {
                durability: Durability::None,
                retention: broker,
                segment_age: WEEK,
            };
            let streams = parse(&format!("{CLICKS}{extra}"), &defaults).unwrap();
            let retention = streams[0].retention;
            (retention.bytes.map(NonZeroU64::get), retention.age)
        };
        assert_eq!(of(""), (Some(500), seconds(60)));
        assert_eq!(of("retention_bytes = 7\n"), (Some(7), seconds(60)));
        assert_eq!(of("retention_seconds = 9\n"), (Some(500), seconds(9)));
        let none = "retention_bytes = \"unlimited\"\nretention_seconds = \"unlimited\"\n";
        assert_eq!(of(none), (None, None));
    }

    #[test]
    fn segments_are_sealed_after_the_brokers_time_unless_the_stream_has_its_own() {
        let of = |extra: &str| {
            let text = format!("{CLICKS}{extra}");
            parse(&text, &defaults(Durability::None)).map(|streams| streams[0].segment_age)
        };
        assert_eq!(of(""), Ok(WEEK));
        assert_eq!(of("segment_seconds = 5\n"), Ok(Duration::from_secs(5)));
        assert!(of("segment_seconds = 0\n").is_err());
    }

    #[test]
    fn a_stream_needs_a_name_and_a_shard_count_and_the_rest_has_defaults() {
        let streams = parse(CLICKS, &defaults(Durability::Periodic)).unwrap();
        assert_eq!(streams, [Described::dev(&defaults(Durability::Periodic))]);
        let all = format!("{CLICKS}durability = \"on_commit\"\ntimestamps = \"create\"\n");
        let streams = parse(&all, &defaults(Durability::Periodic)).unwrap();
        assert_eq!(streams[0].durability, Durability::OnCommit);
        assert_eq!(streams[0].timestamps, Timestamps::Create);
        assert_eq!(streams[0].begin_anew, None);
        let anew = format!("{CLICKS}begin_anew = \"0000000000000000000000000000000a\"\n");
        let streams = parse(&anew, &defaults(Durability::Periodic)).unwrap();
        assert_eq!(streams[0].begin_anew, Some(StreamId(10)));
        assert_eq!(parse("", &defaults(Durability::None)).unwrap(), []);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (extra, fault) in [
            ("shard = 3", "unknown field `shard`"),
            ("durability = \"sometimes\"", "unknown variant `sometimes`"),
            ("timestamps = \"now\"", "unknown variant `now`"),
            (
                "retention_bytes = 0",
                "a whole number from 1 to 1152921504606846976, or \"unlimited\"",
            ),
            (
                "retention_bytes = 1152921504606846977",
                "a whole number from 1 to 1152921504606846976, or \"unlimited\"",
            ),
            (
                "retention_seconds = \"long\"",
                "a whole number from 1 to 10000000000, or \"unlimited\"",
            ),
            (
                "retention_seconds = 10000000001",
                "a whole number from 1 to 10000000000, or \"unlimited\"",
            ),
            // What Kafka's users write for "never".
            (
                "segment_seconds = 9223372036854775807",
                "expected a whole number from 1 to 10000000000",
            ),
            (
                "segment_seconds = \"unlimited\"",
                "expected a whole number from 1 to 10000000000",
            ),
            (
                "segment_seconds = 1.5",
                "expected a whole number from 1 to 10000000000",
            ),
            (
                "begin_anew = \"yes\"",
                "\"yes\" is not 32 hexadecimal digits",
            ),
        ] {
            let sentence =
                parse(&format!("{CLICKS}{extra}\n"), &defaults(Durability::None)).unwrap_err();
            assert!(sentence.contains(fault), "{sentence}");
            assert!(sentence.contains("line 6"), "{sentence}");
        }
        let sentence = parse("[[streams]]\n", &defaults(Durability::None)).unwrap_err();
        assert!(sentence.contains("unknown field `streams`"), "{sentence}");
        let sentence = parse(
            "[[stream]]\ntenant = \"dev\"\n",
            &defaults(Durability::None),
        )
        .unwrap_err();
        assert!(sentence.contains("missing field"), "{sentence}");
    }
}
