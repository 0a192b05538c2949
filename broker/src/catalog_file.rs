//! The streams an operator lists in a TOML file, until a control plane keeps them.

use crate::identity::Identity;
use felix_core::{Durability, Generation, Stream, StreamId, Timestamps};
use serde::Deserialize;
use std::fs;
use std::path::Path;

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
            generation_floor,
        }
    }

    /// The stream that `--dev` brings: `default.clicks` of tenant `dev`, with three shards.
    #[must_use]
    pub(crate) fn dev(durability: Durability) -> Self {
        Self {
            tenant: "dev".into(),
            namespace: "default".into(),
            name: "clicks".into(),
            shards: 3,
            durability,
            timestamps: Timestamps::Append,
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
    begin_anew: Option<Identity>,
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
/// has it. A stream that names no durability gets `default`.
///
/// # Errors
/// A sentence with the file and the line.
pub(crate) fn listed(
    file: Option<&Path>,
    dev: bool,
    default: Durability,
) -> Result<Vec<Described>, String> {
    let mut listed = match file {
        Some(path) => read(path, default)?,
        None => Vec::new(),
    };
    let clicks = Described::dev(default);
    if dev && !listed.iter().any(|stream| stream.is_namesake(&clicks)) {
        listed.push(clicks);
    }
    Ok(listed)
}

/// Reads a catalog file. A stream that names no durability gets `default`.
///
/// # Errors
/// A sentence with the file and the line.
fn read(path: &Path, default: Durability) -> Result<Vec<Described>, String> {
    let text = fs::read_to_string(path).map_err(|error| {
        let shown = path.display();
        format!("the catalog file {shown} cannot be read: {error}; FELIX_CATALOG_FILE names it")
    })?;
    parse(&text, default).map_err(|fault| format!("the catalog file {}: {fault}", path.display()))
}

fn parse(text: &str, default: Durability) -> Result<Vec<Described>, String> {
    let page: Page = toml::from_str(text).map_err(|error| error.to_string())?;
    let described = page.stream.into_iter().map(|entry| Described {
        tenant: entry.tenant,
        namespace: entry.namespace,
        name: entry.name,
        shards: entry.shards,
        durability: match entry.durability {
            Some(DurabilityWord::None) => Durability::None,
            Some(DurabilityWord::Periodic) => Durability::Periodic,
            Some(DurabilityWord::OnCommit) => Durability::OnCommit,
            None => default,
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

    #[test]
    fn a_stream_needs_a_name_and_a_shard_count_and_the_rest_has_defaults() {
        let streams = parse(CLICKS, Durability::Periodic).unwrap();
        assert_eq!(streams, [Described::dev(Durability::Periodic)]);
        let all = format!("{CLICKS}durability = \"on_commit\"\ntimestamps = \"create\"\n");
        let streams = parse(&all, Durability::Periodic).unwrap();
        assert_eq!(streams[0].durability, Durability::OnCommit);
        assert_eq!(streams[0].timestamps, Timestamps::Create);
        assert_eq!(streams[0].begin_anew, None);
        let anew = format!("{CLICKS}begin_anew = \"0000000000000000000000000000000a\"\n");
        let streams = parse(&anew, Durability::Periodic).unwrap();
        assert_eq!(streams[0].begin_anew, Some(StreamId(10)));
        assert_eq!(parse("", Durability::None).unwrap(), []);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (extra, fault) in [
            ("shard = 3", "unknown field `shard`"),
            ("durability = \"sometimes\"", "unknown variant `sometimes`"),
            ("timestamps = \"now\"", "unknown variant `now`"),
            (
                "begin_anew = \"yes\"",
                "\"yes\" is not 32 hexadecimal digits",
            ),
        ] {
            let sentence = parse(&format!("{CLICKS}{extra}\n"), Durability::None).unwrap_err();
            assert!(sentence.contains(fault), "{sentence}");
            assert!(sentence.contains("line 6"), "{sentence}");
        }
        let sentence = parse("[[streams]]\n", Durability::None).unwrap_err();
        assert!(sentence.contains("unknown field `streams`"), "{sentence}");
        let sentence = parse("[[stream]]\ntenant = \"dev\"\n", Durability::None).unwrap_err();
        assert!(sentence.contains("missing field"), "{sentence}");
    }
}
