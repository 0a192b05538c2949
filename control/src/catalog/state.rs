//! The whole catalog at one sequence.
//!
//! All states share what they have in common: a copy costs nothing, so that a reader keeps one for
//! as long as it likes, and a change that could not be kept is undone by forgetting its state.

use crate::catalog::floor::{FLOOR_MAX, since_2020};
use crate::catalog::{
    Assignment, Cache, CachePath, Floor, Key, Namespace, NamespacePath, Node, Quota, Record,
    Stream, StreamPath, Tenant, TenantName,
};
use crate::{Change, Sequence, Version};
use felix_core::{BrokerId, Generation, ShardId, StreamId, Timestamp};
use rpds::RedBlackTreeMapSync;
use serde::{Deserialize, Serialize};
use std::ops::Bound;
use std::sync::Arc;

/// A record and its version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The change that made it what it is.
    pub version: Version,
    /// What it is.
    pub record: Record,
}

/// The whole catalog at one sequence.
#[derive(Clone, Debug)]
pub struct State {
    sequence: Sequence,
    records: RedBlackTreeMapSync<Key, Arc<Entry>>,
    /// Which live stream has a name.
    streams: RedBlackTreeMapSync<StreamPath, StreamId>,
    /// Which deleted ones had it.
    deleted: RedBlackTreeMapSync<(StreamPath, StreamId), ()>,
    /// Which cache has an identity.
    caches: RedBlackTreeMapSync<StreamId, CachePath>,
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident, $kind:ident, $key:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self, key: $key) -> Option<(Version, &$kind)> {
            let entry = self.records.get(&Key::$kind(key.clone()))?;
            match &entry.record {
                Record::$kind(found) => Some((entry.version, found)),
                other => unreachable!("{other:?} is not found under this kind of key"),
            }
        }
    )*};
}

/// All records from a key on, as long as they are of one kind.
macro_rules! from {
    ($state:expr, $kind:ident, $first:expr) => {
        $state
            .records
            .range((Bound::Included(Key::$kind($first)), Bound::Unbounded))
            .map_while(|(_, entry)| match &entry.record {
                Record::$kind(found) => Some((entry.version, found)),
                _ => None,
            })
    };
}

impl State {
    /// An empty catalog, founded at this time.
    #[must_use]
    pub fn founded(at: Timestamp) -> Self {
        let mut state = Self::empty(Sequence::ZERO);
        state.raise_floor(None, since_2020(at), Version::from(Sequence::ZERO));
        state
    }

    /// The catalog of these records at a sequence.
    #[must_use]
    pub fn of(sequence: Sequence, entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut state = Self::empty(sequence);
        for entry in entries {
            state.insert(entry);
        }
        state
    }

    fn empty(sequence: Sequence) -> Self {
        Self {
            sequence,
            records: RedBlackTreeMapSync::new_sync(),
            streams: RedBlackTreeMapSync::new_sync(),
            deleted: RedBlackTreeMapSync::new_sync(),
            caches: RedBlackTreeMapSync::new_sync(),
        }
    }

    /// The last change that it has.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// How many records it has, of all kinds.
    #[must_use]
    pub fn record_count(&self) -> usize {
        self.records.size()
    }

    /// All records, by key.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.records.values().map(AsRef::as_ref)
    }

    /// A record.
    #[must_use]
    pub fn entry(&self, key: &Key) -> Option<&Entry> {
        self.records.get(key).map(AsRef::as_ref)
    }

    accessors! {
        /// A tenant.
        tenant, Tenant, &TenantName;
        /// A namespace.
        namespace, Namespace, &NamespacePath;
        /// A stream, live or deleted.
        stream, Stream, StreamId;
        /// A cache.
        cache, Cache, &CachePath;
        /// A broker.
        node, Node, BrokerId;
        /// Who leads a shard.
        assignment, Assignment, ShardId;
        /// What a tenant may use.
        quota, Quota, &TenantName;
    }

    /// The live stream of a name.
    #[must_use]
    pub fn stream_named(&self, path: &StreamPath) -> Option<(Version, &Stream)> {
        self.stream(*self.streams.get(path)?)
    }

    /// The deleted streams that had a name and can be restored, or are due to go.
    pub fn deleted_namesakes(&self, path: &StreamPath) -> impl Iterator<Item = (Version, &Stream)> {
        let path = path.clone();
        let first = (path.clone(), StreamId(0));
        let range = self
            .deleted
            .range((Bound::Included(first), Bound::Unbounded));
        range
            .take_while(move |((name, _), ())| *name == path)
            .filter_map(|((_, id), ())| self.stream(*id))
    }

    /// The cache of an identity.
    #[must_use]
    pub fn cache_by_id(&self, id: StreamId) -> Option<(Version, &Cache)> {
        self.cache(self.caches.get(&id)?)
    }

    /// All tenants, by name.
    pub fn tenants(&self) -> impl Iterator<Item = (Version, &Tenant)> {
        from!(self, Tenant, TenantName::lowest())
    }

    /// The namespaces of a tenant, by name.
    pub fn namespaces(&self, tenant: &TenantName) -> impl Iterator<Item = (Version, &Namespace)> {
        let tenant = tenant.clone();
        from!(self, Namespace, NamespacePath::first_of(&tenant))
            .take_while(move |(_, namespace)| namespace.path.tenant == tenant)
    }

    /// The live streams of a namespace, by name.
    pub fn streams(&self, namespace: &NamespacePath) -> impl Iterator<Item = (Version, &Stream)> {
        let namespace = namespace.clone();
        let first = StreamPath::first_of(&namespace);
        let range = self
            .streams
            .range((Bound::Included(first), Bound::Unbounded));
        range
            .take_while(move |(path, _)| *path.namespace() == namespace)
            .filter_map(|(_, id)| self.stream(*id))
    }

    /// All live streams, by tenant, namespace and name.
    pub fn live_streams(&self) -> impl Iterator<Item = (Version, &Stream)> {
        self.streams.values().filter_map(|id| self.stream(*id))
    }

    /// All streams that are deleted and not yet gone, by the name they had.
    pub fn deleted_streams(&self) -> impl Iterator<Item = (Version, &Stream)> {
        self.deleted.keys().filter_map(|(_, id)| self.stream(*id))
    }

    /// Those of a namespace.
    pub fn deleted_streams_in(
        &self,
        namespace: &NamespacePath,
    ) -> impl Iterator<Item = (Version, &Stream)> {
        let namespace = namespace.clone();
        let first = (StreamPath::first_of(&namespace), StreamId(0));
        let range = self
            .deleted
            .range((Bound::Included(first), Bound::Unbounded));
        range
            .take_while(move |((path, _), ())| *path.namespace() == namespace)
            .filter_map(|((_, id), ())| self.stream(*id))
    }

    /// The caches of a namespace, by name.
    pub fn caches(&self, namespace: &NamespacePath) -> impl Iterator<Item = (Version, &Cache)> {
        let namespace = namespace.clone();
        from!(self, Cache, CachePath::first_of(&namespace))
            .take_while(move |(_, cache)| cache.path.namespace == namespace)
    }

    /// All brokers, by number.
    pub fn nodes(&self) -> impl Iterator<Item = (Version, &Node)> {
        from!(self, Node, BrokerId(0))
    }

    /// All shards that are or were led, by stream or cache and index.
    pub fn assignments(&self) -> impl Iterator<Item = (Version, &Assignment)> {
        let first = ShardId {
            stream: StreamId(0),
            index: 0,
        };
        from!(self, Assignment, first)
    }

    /// Those of one stream or cache.
    pub fn assignments_of(&self, id: StreamId) -> impl Iterator<Item = (Version, &Assignment)> {
        let first = ShardId {
            stream: id,
            index: 0,
        };
        from!(self, Assignment, first).take_while(move |(_, found)| found.shard.stream == id)
    }

    /// Whether a stream or a cache has this identity.
    #[must_use]
    pub fn has_id(&self, id: StreamId) -> bool {
        self.stream(id).is_some() || self.caches.get(&id).is_some()
    }

    /// What the generations of a stream made now under this name are above.
    #[must_use]
    pub fn floor(&self, path: &StreamPath, now: Timestamp) -> Generation {
        let namesakes = self.stream_named(path).into_iter();
        let namesakes = namesakes.chain(self.deleted_namesakes(path));
        let seen = namesakes.map(|(_, stream)| self.greatest_generation(stream));
        let floors = [None, Some(path.clone())].map(|path| self.kept_floor(path));
        seen.chain(floors.into_iter().flatten())
            .chain([since_2020(now)])
            .max()
            .map_or(FLOOR_MAX, |floor| floor.min(FLOOR_MAX))
    }

    /// The greatest generation that clients may have seen of a stream.
    #[must_use]
    pub fn greatest_generation(&self, stream: &Stream) -> Generation {
        let openings = self.assignments_of(stream.id);
        openings
            .map(|(_, assignment)| assignment.generation)
            .max()
            .map_or(stream.generation_floor, |greatest| {
                greatest.max(stream.generation_floor)
            })
    }

    /// Takes in the change that follows; the keys of all records that are otherwise, or gone, since.
    /// Panics if it is not the one that follows.
    pub fn apply(&mut self, change: &Change) -> Vec<Key> {
        assert_eq!(
            change.sequence,
            self.sequence.next(),
            "changes follow each other"
        );
        self.sequence = change.sequence;
        let mut touched = vec![change.record.key()];
        if !change.removes() {
            self.insert(Entry {
                version: change.sequence.into(),
                record: change.record.clone(),
            });
            return touched;
        }
        match &change.record {
            Record::Stream(stream) => {
                touched.extend(self.keep_floor(stream, change));
                touched.extend(self.remove_assignments(stream.id));
            }
            Record::Cache(cache) => touched.extend(self.remove_assignments(cache.id)),
            Record::Tenant(_)
            | Record::Namespace(_)
            | Record::Node(_)
            | Record::Assignment(_)
            | Record::Quota(_)
            | Record::Floor(_) => {}
        }
        self.remove(&change.record.key());
        touched
    }

    /// Notes what clients may have seen of a stream that goes for good.
    fn keep_floor(&mut self, stream: &Stream, change: &Change) -> Option<Key> {
        let greatest = self.greatest_generation(stream);
        // What the clock covers is covered for every name, as long as the clock does not go back.
        let path = (greatest > since_2020(change.at)).then(|| stream.path.clone());
        let covered = self.kept_floor(None).max(self.kept_floor(path.clone()));
        if covered >= Some(greatest) {
            return None;
        }
        self.raise_floor(path.clone(), greatest, change.sequence.into());
        Some(Key::Floor(path))
    }

    fn raise_floor(&mut self, path: Option<StreamPath>, generation: Generation, version: Version) {
        let record = Record::Floor(Floor { path, generation });
        self.insert(Entry { version, record });
    }

    fn kept_floor(&self, path: Option<StreamPath>) -> Option<Generation> {
        match &self.entry(&Key::Floor(path))?.record {
            Record::Floor(floor) => Some(floor.generation),
            other => unreachable!("{other:?} is not found under the key of a floor"),
        }
    }

    fn remove_assignments(&mut self, id: StreamId) -> Vec<Key> {
        let shards = self.assignments_of(id);
        let keys: Vec<Key> = shards.map(|(_, of)| Key::Assignment(of.shard)).collect();
        for key in &keys {
            self.remove(key);
        }
        keys
    }

    fn insert(&mut self, entry: Entry) {
        let key = entry.record.key();
        self.remove(&key);
        match &entry.record {
            Record::Stream(stream) if stream.is_live() => {
                self.streams.insert_mut(stream.path.clone(), stream.id);
            }
            Record::Stream(stream) => {
                self.deleted
                    .insert_mut((stream.path.clone(), stream.id), ());
            }
            Record::Cache(cache) => self.caches.insert_mut(cache.id, cache.path.clone()),
            _ => {}
        }
        self.records.insert_mut(key, Arc::new(entry));
    }

    fn remove(&mut self, key: &Key) {
        let Some(entry) = self.records.get(key).map(Arc::clone) else {
            return;
        };
        match &entry.record {
            Record::Stream(stream) if stream.is_live() => self.streams.remove_mut(&stream.path),
            Record::Stream(stream) => self.deleted.remove_mut(&(stream.path.clone(), stream.id)),
            Record::Cache(cache) => self.caches.remove_mut(&cache.id),
            _ => false,
        };
        self.records.remove_mut(key);
    }
}
