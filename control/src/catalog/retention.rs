//! How much of a stream is kept: what the catalog says, and what a broker makes of it.

use felix_core::Retention;
use felix_core::limits::{AGE_SECONDS_MAX, RETENTION_BYTES_MAX};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// One bound of it. In JSON a number, `"unlimited"`, or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RetentionBound {
    /// The broker's own setting.
    #[default]
    Inherit,
    /// None, whatever the broker's setting is.
    Unlimited,
    /// This.
    At(NonZeroU64),
}

/// How much of each shard of a stream is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionPolicy {
    /// How old a record may be, in seconds: up to [`AGE_SECONDS_MAX`].
    #[serde(default, skip_serializing_if = "RetentionBound::is_inherited")]
    pub max_age_seconds: RetentionBound,
    /// How many bytes are kept at least: up to [`RETENTION_BYTES_MAX`].
    #[serde(default, skip_serializing_if = "RetentionBound::is_inherited")]
    pub max_size_bytes: RetentionBound,
}

impl RetentionBound {
    /// Whether the broker's own setting holds.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        *self == Self::Inherit
    }

    fn resolve(self, default: Option<NonZeroU64>) -> Option<NonZeroU64> {
        match self {
            Self::Inherit => default,
            Self::Unlimited => None,
            Self::At(bound) => Some(bound),
        }
    }

    fn is_above(self, max: u64) -> bool {
        matches!(self, Self::At(bound) if bound.get() > max)
    }
}

impl RetentionPolicy {
    /// What a broker with this default keeps.
    #[must_use]
    pub fn resolve(&self, default: Retention) -> Retention {
        let whole_seconds = |age: Duration| NonZeroU64::new(age.as_secs());
        let age = match self.max_age_seconds {
            // Not by way of whole seconds: the broker's default may be shorter than one.
            RetentionBound::Inherit => default.age,
            bound => bound
                .resolve(default.age.and_then(whole_seconds))
                .map(|seconds| Duration::from_secs(seconds.get())),
        };
        Retention {
            bytes: self.max_size_bytes.resolve(default.bytes),
            age,
        }
    }

    /// The field that is above its bound, and the bound.
    pub(crate) fn fault(&self) -> Option<(&'static str, u64)> {
        if self.max_age_seconds.is_above(AGE_SECONDS_MAX) {
            Some(("retention.max_age_seconds", AGE_SECONDS_MAX))
        } else if self.max_size_bytes.is_above(RETENTION_BYTES_MAX) {
            Some(("retention.max_size_bytes", RETENTION_BYTES_MAX))
        } else {
            None
        }
    }
}

impl Serialize for RetentionBound {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Inherit => to.serialize_none(),
            Self::Unlimited => to.serialize_str("unlimited"),
            Self::At(bound) => to.serialize_u64(bound.get()),
        }
    }
}

impl<'de> Deserialize<'de> for RetentionBound {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Bounds)
    }
}

struct Bounds;

impl Visitor<'_> for Bounds {
    type Value = RetentionBound;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number above 0, \"unlimited\", or null for the broker's own setting")
    }

    fn visit_unit<E: de::Error>(self) -> Result<RetentionBound, E> {
        Ok(RetentionBound::Inherit)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<RetentionBound, E> {
        NonZeroU64::new(number)
            .map(RetentionBound::At)
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<RetentionBound, E> {
        if word == "unlimited" {
            return Ok(RetentionBound::Unlimited);
        }
        Err(E::invalid_value(Unexpected::Str(word), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RetentionPolicy, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn a_bound_is_the_brokers_or_none_or_the_streams_own() {
        let broker = Retention {
            bytes: NonZeroU64::new(500),
            age: Some(Duration::from_millis(1500)),
        };
        let kept = |text: &str| {
            let kept = read(text).unwrap().resolve(broker);
            (kept.bytes.map(NonZeroU64::get), kept.age)
        };
        assert_eq!(kept("{}"), (Some(500), broker.age));
        let null = r#"{"max_age_seconds": null, "max_size_bytes": null}"#;
        assert_eq!(kept(null), (Some(500), broker.age));
        let none = r#"{"max_age_seconds": "unlimited", "max_size_bytes": "unlimited"}"#;
        assert_eq!(kept(none), (None, None));
        let own = r#"{"max_age_seconds": 9, "max_size_bytes": 7}"#;
        assert_eq!(kept(own), (Some(7), Some(Duration::from_secs(9))));
        for text in ["{}", none, own] {
            let policy = read(text).unwrap();
            assert_eq!(
                read(&serde_json::to_string(&policy).unwrap()).unwrap(),
                policy
            );
        }
    }

    #[test]
    fn a_bound_that_keeps_nothing_or_is_no_number_is_refused_with_what_is_wanted() {
        for text in ["0", "-1", "1.5", "\"long\"", "true"] {
            let refusal = read(&format!("{{\"max_size_bytes\": {text}}}"))
                .unwrap_err()
                .to_string();
            assert!(
                refusal.contains("expected a whole number above 0"),
                "{refusal}"
            );
        }
        let above = read(&format!("{{\"max_age_seconds\": {}}}", AGE_SECONDS_MAX + 1)).unwrap();
        assert_eq!(
            above.fault(),
            Some(("retention.max_age_seconds", AGE_SECONDS_MAX))
        );
    }
}
