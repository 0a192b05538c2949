//! What an owner is told about a shard it is to open.

use crate::log;
use felix_core::{Durability, Generation, Retention, ShardId, Stream, Timestamps};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A shard to be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardSpec {
    /// Which.
    pub id: ShardId,
    /// The same for people: `<tenant>/<namespace>.<stream>-<shard>`.
    pub name: String,
    /// Where its log is.
    pub directory: PathBuf,
    /// When its appends are acknowledged and flushed.
    pub durability: Durability,
    /// Whose clock its records carry.
    pub timestamps: Timestamps,
    /// How much of it is kept.
    pub retention: Retention,
    /// How long after its first append a segment is sealed at the latest.
    pub segment_age: Duration,
    /// Its generation is above this.
    pub generation_floor: Generation,
    /// That one above it is opened next is noted durably, as in the catalog's state before a log is
    /// opened.
    pub is_floor_noted: bool,
    /// What people are to do where the log is not there whole, which was there before: then it is
    /// lost, and nothing is made in its place. `None`: a log that is not there is made.
    pub if_lost: Option<String>,
}

impl ShardSpec {
    /// The shards of `stream`, with their logs under `root`.
    pub fn of_stream<'a>(root: &'a Path, stream: &'a Stream) -> impl Iterator<Item = Self> + 'a {
        stream.shard_ids().map(move |id| Self {
            id,
            name: format!("{}/{}-{}", stream.tenant, stream.topic(), id.index),
            directory: directory(root, stream, id.index),
            durability: stream.durability,
            timestamps: stream.timestamps,
            retention: stream.retention,
            segment_age: segment_age(stream),
            generation_floor: stream.generation_floor,
            is_floor_noted: false,
            if_lost: None,
        })
    }

    /// The same, where that it is opened next is noted durably before, and what is to be done if it
    /// is lost.
    #[must_use]
    pub fn noted(self, if_lost: Option<String>) -> Self {
        Self {
            if_lost,
            is_floor_noted: true,
            ..self
        }
    }

    /// Why the log counts as lost, in a sentence; `None`: it does not.
    pub(crate) fn lost(&self) -> Option<String> {
        let cure = self.if_lost.as_deref()?;
        let missing = log::what_is_missing(&self.directory)?;
        let directory = self.directory.display();
        Some(format!(
            "{directory}: {missing}, and this shard was there before, so nothing is made in its \
             place; {cure}"
        ))
    }

    /// The same of a log that was open a while ago.
    pub(crate) fn lost_since_open(&self) -> Option<String> {
        let missing = log::what_is_missing(&self.directory)?;
        let directory = self.directory.display();
        Some(format!(
            "{directory}: {missing}, and the log was in use, so nothing is made in its place; mount \
             the disk again or restore the directory"
        ))
    }
}

/// After how long a segment is sealed. No record is kept for much longer than the stream says for
/// the want of a full segment.
fn segment_age(stream: &Stream) -> Duration {
    let kept = stream.retention.age.unwrap_or(Duration::MAX);
    stream.segment_age.min(kept)
}

/// `<root>/streams/<tenant>/<stream id>/<namespace>.<stream>-<shard>`.
///
/// The last part is what Kafka calls the same partition's directory, so that it reads at a glance.
/// Tenants may have topics of one name, hence
/// the tenant; a stream made anew under an old name must not find the old one's log, hence the
/// stream id. The id is a level of its own because a topic name may take all but six of the 255
/// bytes that a file name has.
#[must_use]
pub fn directory(root: &Path, stream: &Stream, index: u32) -> PathBuf {
    root.join("streams")
        .join(&stream.tenant)
        .join(stream.id.to_string())
        .join(format!("{}-{index}", stream.topic()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::StreamId;
    use felix_core::limits::{SEGMENT_AGE, SHARDS_PER_STREAM_MAX, TOPIC_NAME_BYTES_MAX};

    fn stream(tenant: &str, id: u128, name: &str) -> Stream {
        Stream {
            id: StreamId(id),
            tenant: tenant.into(),
            namespace: "default".into(),
            name: name.into(),
            shards: 2,
            durability: Durability::Periodic,
            timestamps: Timestamps::Append,
            retention: Retention::default(),
            segment_age: SEGMENT_AGE,
            generation_floor: Generation::new(0),
        }
    }

    #[test]
    fn a_directory_names_the_shard_and_is_its_own() {
        let clicks = stream("dev", 10, "clicks");
        let specs: Vec<_> = ShardSpec::of_stream(Path::new("/data"), &clicks).collect();
        assert_eq!(
            specs[1].directory,
            Path::new("/data/streams/dev/0000000000000000000000000000000a/default.clicks-1")
        );
        assert_eq!(specs[1].name, "dev/default.clicks-1");
        let others = [stream("prod", 10, "clicks"), stream("dev", 11, "clicks")];
        for other in others {
            assert_ne!(directory(Path::new("/data"), &other, 1), specs[1].directory);
        }
    }

    #[test]
    fn a_log_is_lost_only_where_it_was_there_before_and_then_says_where_and_what_to_do() {
        let temp = tempfile::tempdir().unwrap();
        let clicks = stream("dev", 10, "clicks");
        let new = ShardSpec::of_stream(temp.path(), &clicks).next().unwrap();
        assert_eq!(new.lost(), None);
        let before = ShardSpec {
            if_lost: Some("mount it".into()),
            ..new
        };
        let sentence = before.lost().unwrap();
        let directory = before.directory.display().to_string();
        assert!(sentence.starts_with(&directory), "{sentence}");
        assert!(sentence.ends_with("; mount it"), "{sentence}");
        std::fs::create_dir_all(&before.directory).unwrap();
        for (name, bytes) in log::founding_files() {
            assert!(before.lost().is_some());
            std::fs::write(before.directory.join(name), bytes).unwrap();
        }
        assert_eq!(before.lost(), None);
    }

    #[test]
    fn a_segment_is_sealed_no_later_than_its_records_are_to_go() {
        let age_of = |kept: Option<u64>| {
            let mut clicks = stream("dev", 10, "clicks");
            clicks.retention.age = kept.map(Duration::from_secs);
            let mut specs = ShardSpec::of_stream(Path::new("/data"), &clicks);
            specs.next().unwrap().segment_age
        };
        assert_eq!(age_of(None), SEGMENT_AGE);
        assert_eq!(age_of(Some(60)), Duration::from_secs(60));
        assert_eq!(age_of(Some(10_000_000)), SEGMENT_AGE);
    }

    #[test]
    fn the_longest_name_is_a_legal_file_name() {
        let name = "x".repeat(TOPIC_NAME_BYTES_MAX - "default.".len());
        let path = directory(
            Path::new("/"),
            &stream("dev", 1, &name),
            SHARDS_PER_STREAM_MAX - 1,
        );
        assert!(path.file_name().unwrap().len() <= 255);
    }
}
