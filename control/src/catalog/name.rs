//! Names that cannot be wrong. The rules are those of Kafka topics (claims 113-123), so that every
//! stream that there is can be reached by every client.

use felix_core::catalog::{name_fault, namespace_fault};
use felix_core::limits::TOPIC_NAME_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Why a name is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    part: &'static str,
    name: String,
    fault: &'static str,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, name, fault } = self;
        write!(f, "{part} name {name:?} {fault}; ")?;
        match *part {
            "namespace" => write!(f, "use 1 to 249 of A-Z a-z 0-9 _ -"),
            _ => write!(f, "use 1 to 249 of A-Z a-z 0-9 . _ -"),
        }
    }
}

impl std::error::Error for NameError {}

macro_rules! names {
    ($($(#[$doc:meta])* $type:ident, $part:literal, $fault:path;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// The name, if it follows the rules.
            ///
            /// # Errors
            /// It does not.
            pub fn new(name: &str) -> Result<Self, NameError> {
                match $fault(name) {
                    None => Ok(Self(name.into())),
                    Some(fault) => Err(NameError { part: $part, name: name.to_owned(), fault }),
                }
            }

            /// As text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Before every name, and none: where a range begins.
            #[allow(dead_code, reason = "not every kind of name is ranged over")]
            pub(crate) fn lowest() -> Self {
                Self("".into())
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(&name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($type), "({})"), self.0)
            }
        }
    )*};
}

names! {
    /// The name of a tenant.
    TenantName, "tenant", name_fault;
    /// The name of a namespace: without a dot, at the first of which a topic name is split.
    NamespaceName, "namespace", namespace_fault;
    /// The name of a stream within its namespace.
    StreamName, "stream", name_fault;
    /// The name of a cache within its namespace.
    CacheName, "cache", name_fault;
}

/// A namespace of a tenant. Shown as `tenant/namespace`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespacePath {
    /// The tenant that owns it.
    pub tenant: TenantName,
    /// Its name.
    pub namespace: NamespaceName,
}

impl NamespacePath {
    /// The path of these parts.
    ///
    /// # Errors
    /// One of them is no name.
    pub fn new(tenant: &str, namespace: &str) -> Result<Self, NameError> {
        Ok(Self {
            tenant: TenantName::new(tenant)?,
            namespace: NamespaceName::new(namespace)?,
        })
    }

    /// Where the namespaces of a tenant begin.
    pub(crate) fn first_of(tenant: &TenantName) -> Self {
        Self {
            tenant: tenant.clone(),
            namespace: NamespaceName::lowest(),
        }
    }
}

impl fmt::Display for NamespacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.namespace)
    }
}

/// What a stream is called. Shown as `tenant/namespace/stream`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct StreamPath {
    namespace: NamespacePath,
    name: StreamName,
}

/// How a [`StreamPath`] is written: its parts, before anybody has looked at them together.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    namespace: NamespacePath,
    name: StreamName,
}

impl StreamPath {
    /// A stream of a namespace.
    ///
    /// # Errors
    /// Both together are too long for a Kafka topic.
    pub fn new(namespace: NamespacePath, name: StreamName) -> Result<Self, NameError> {
        let path = Self { namespace, name };
        if path.topic().len() > TOPIC_NAME_BYTES_MAX {
            return Err(NameError {
                part: "stream",
                name: path.topic(),
                fault: "is longer than 249 characters together with its namespace",
            });
        }
        Ok(path)
    }

    /// The path of these parts.
    ///
    /// # Errors
    /// One of them is no name, or the last two are too long together.
    pub fn parse(tenant: &str, namespace: &str, name: &str) -> Result<Self, NameError> {
        Self::new(
            NamespacePath::new(tenant, namespace)?,
            StreamName::new(name)?,
        )
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &NamespacePath {
        &self.namespace
    }

    /// The name within it.
    #[must_use]
    pub fn name(&self) -> &StreamName {
        &self.name
    }

    /// The Kafka topic.
    #[must_use]
    pub fn topic(&self) -> String {
        format!("{}.{}", self.namespace.namespace, self.name)
    }

    /// Where the streams of a namespace begin.
    pub(crate) fn first_of(namespace: &NamespacePath) -> Self {
        Self {
            namespace: namespace.clone(),
            name: StreamName::lowest(),
        }
    }
}

impl TryFrom<Parts> for StreamPath {
    type Error = NameError;

    fn try_from(Parts { namespace, name }: Parts) -> Result<Self, NameError> {
        Self::new(namespace, name)
    }
}

impl From<StreamPath> for Parts {
    fn from(StreamPath { namespace, name }: StreamPath) -> Self {
        Self { namespace, name }
    }
}

impl fmt::Display for StreamPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a cache is called. Shown as `tenant/namespace/cache`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachePath {
    /// The namespace.
    pub namespace: NamespacePath,
    /// The name within it.
    pub name: CacheName,
}

impl CachePath {
    /// The path of these parts.
    ///
    /// # Errors
    /// One of them is no name.
    pub fn parse(tenant: &str, namespace: &str, name: &str) -> Result<Self, NameError> {
        Ok(Self {
            namespace: NamespacePath::new(tenant, namespace)?,
            name: CacheName::new(name)?,
        })
    }

    /// Where the caches of a namespace begin.
    pub(crate) fn first_of(namespace: &NamespacePath) -> Self {
        Self {
            namespace: namespace.clone(),
            name: CacheName::lowest(),
        }
    }
}

impl fmt::Display for CachePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(tenant: &str, namespace: &str, name: &str) -> String {
        StreamPath::parse(tenant, namespace, name)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_topic_is_namespace_dot_stream_and_the_stream_may_have_dots() {
        let path = StreamPath::parse("t1", "orders", "created.eu").unwrap();
        assert_eq!(path.topic(), "orders.created.eu");
        assert_eq!(path.to_string(), "t1/orders/created.eu");
    }

    #[test]
    fn a_name_that_no_kafka_client_could_use_is_refused_with_part_and_cure() {
        for (tenant, namespace, name, sentence) in [
            ("t", "a.b", "c", "namespace name \"a.b\" has a dot"),
            ("t", "", "c", "namespace name \"\" is empty"),
            (
                "t",
                "a",
                "c d",
                "stream name \"c d\" has a character outside",
            ),
            (
                "t",
                "a",
                "näme",
                "stream name \"näme\" has a character outside",
            ),
            ("t", "a", "..", "stream name \"..\" is a reserved path"),
            (
                "a/b",
                "a",
                "c",
                "tenant name \"a/b\" has a character outside",
            ),
        ] {
            let refusal = refusal(tenant, namespace, name);
            assert!(refusal.starts_with(sentence), "{refusal}");
            assert!(refusal.contains("use 1 to 249 of A-Z a-z 0-9"), "{refusal}");
        }
        assert!(
            CachePath::parse("t", "a", "")
                .unwrap_err()
                .to_string()
                .contains("cache name")
        );
    }

    #[test]
    fn namespace_and_stream_together_have_the_length_of_a_topic() {
        assert!(StreamPath::parse("t", "a", &"x".repeat(247)).is_ok());
        assert!(refusal("t", "a", &"x".repeat(248)).contains("together with its namespace"));
        assert!(refusal("t", "a", &"x".repeat(250)).contains("longer than 249"));
    }

    #[test]
    fn what_is_read_back_is_looked_at_like_what_is_new() {
        let path = StreamPath::parse("t1", "orders", "created").unwrap();
        let text = serde_json::to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<StreamPath>(&text).unwrap(), path);
        let wrong = text.replace("orders", "or.ders");
        assert!(serde_json::from_str::<StreamPath>(&wrong).is_err());
        let long = text.replace("created", &"x".repeat(245));
        assert!(serde_json::from_str::<StreamPath>(&long).is_err());
    }
}
