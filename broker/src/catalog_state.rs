//! What a broker remembers of its streams: the identity of each, which of its shards were served,
//! and the greatest generation that clients may have seen under each name.
//!
//! A stream keeps its identity for good, whether or not the catalog lists it at this start, and
//! whether or not its logs are there: a catalog file forgotten once must not cost anybody their
//! logs, nor a disk that was not mounted. Only the catalog file takes it away, by naming it under
//! `begin_anew`. The next stream of that name has another identity, and opens above whatever clients
//! saw under the name before, so that no leader epoch ever goes backwards.

use crate::catalog_file::Described;
use crate::data_dir::DataDir;
use crate::identity::{Identity, draw};
use crate::state_error::StateError;
use crate::{state_text, stream_dirs};
use felix_core::limits::SHARDS_PER_STREAM_MAX;
use felix_core::{Catalog, Generation, ShardId, Stream, StreamId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};

/// Its name in the data directory.
pub(crate) const FILE: &str = "catalog-state.toml";

/// Seconds from 1970 to 2020. Generations begin at the seconds since then: by 2054 that is half of
/// what a signed 32-bit number holds, and the other half is left for openings.
const SECONDS_TO_2020: u64 = 1_577_836_800;

/// The last generation that another can follow.
const FLOOR_MAX: u32 = (i32::MAX - 1).cast_unsigned();

/// The state file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CatalogState {
    /// Seconds since 2020 when the data directory began: the floor of every name never seen.
    begun: u32,
    #[serde(default, rename = "stream")]
    names: Vec<Known>,
}

/// What is known of a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    tenant: String,
    namespace: String,
    name: String,
    /// The identity of the stream of that name.
    id: Identity,
    /// Shards of that stream.
    #[serde(default)]
    shards: u32,
    /// Those of them whose logs were never founded, nor served. The log of any other is lost where
    /// it is not there, and not yet to be made. A file from before this was written has none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    unopened: BTreeSet<u32>,
    /// The stream's generations are above this.
    floor: u32,
    /// No generation opened under this name is above this.
    seen: u32,
}

impl CatalogState {
    /// What the directory remembers, or the beginning of a new memory at `now`, in seconds since
    /// 1970.
    ///
    /// # Errors
    /// The file is damaged or cannot be read, or it is missing beside logs.
    pub(crate) fn load(data: &DataDir, now: u64) -> Result<Self, StateError> {
        let Some(bytes) = data.read(FILE)? else {
            if stream_dirs::has_any(data)? {
                return Err(StateError::Lost(data.path().to_owned()));
            }
            return Ok(Self {
                begun: since_2020(now),
                names: Vec::new(),
            });
        };
        state_text::read(&bytes)
            .and_then(|state: Self| state.check().map(|()| state))
            .map_err(|fault| StateError::Damaged {
                path: data.path().join(FILE),
                fault,
            })
    }

    /// Keeps it on the device, and founds the logs of shards that were never served. Before any of
    /// them is used: an identity that a client has seen must outlive a power loss, and a log that
    /// anything was written to must be known as one that is not to be made again. After everything
    /// that may end the start, so that a start that fails leaves all as it was.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep(&mut self, data: &DataDir, catalog: &Catalog) -> Result<(), StateError> {
        stream_dirs::make_root(data)?;
        // First the state: a directory that nobody knows would look like lost state.
        self.store(data)?;
        for stream in catalog.streams() {
            self.found(data, stream);
        }
        // Until here a crash leaves logs that nothing was written to, and that are founded again.
        self.store(data)
    }

    fn found(&mut self, data: &DataDir, stream: &Stream) {
        let Some(known) = self.known(stream.id) else {
            return;
        };
        if !known.may_found(data, stream) {
            return;
        }
        let founded = stream_dirs::found_all(data, stream, &known.unopened);
        known.unopened.retain(|index| !founded.contains(index));
    }

    /// Keeps it on the device, if there is news.
    ///
    /// # Errors
    /// It cannot be written; the old state stands.
    pub(crate) fn store(&self, data: &DataDir) -> Result<(), StateError> {
        Ok(data.replace(FILE, &state_text::write(self))?)
    }

    /// The catalog of these streams, each to be opened once: known ones keep their identity, and
    /// those that are new, or are to begin anew, get one. To be kept before the catalog is used.
    ///
    /// # Errors
    /// The catalog is refused, a stream lost shards, all logs are lost, or no randomness can be
    /// read.
    pub(crate) fn catalog(
        &mut self,
        listed: &[Described],
        data: &DataDir,
        now: u64,
    ) -> Result<Catalog, StateError> {
        let mut streams = Vec::with_capacity(listed.len());
        for described in listed {
            streams.push(self.admit(described, now)?);
        }
        let catalog = Catalog::new(streams)?;
        // Names that were never served are no loss.
        if self.names.iter().any(Known::has_served) && !stream_dirs::has_any(data)? {
            return Err(StateError::LogsLost(data.path().to_owned()));
        }
        Ok(catalog)
    }

    /// What people are to do where the log of this shard is not there; `None`: it is to be made.
    /// After [`CatalogState::keep`].
    #[must_use]
    pub(crate) fn cure_if_lost(
        &self,
        data: &DataDir,
        stream: &Stream,
        index: u32,
    ) -> Option<String> {
        let known = self.names.iter().find(|known| known.id.0 == stream.id)?;
        if known.unopened.contains(&index) && known.may_found(data, stream) {
            return None;
        }
        let anew = anew(stream.id);
        Some(format!(
            "is a disk not mounted? Mount it, or restore the directory from a replica or a backup, \
             and start again; or, {anew}"
        ))
    }

    /// Notes that a shard was opened at a generation, so that its log is known as one that was
    /// there, and a later stream of that name opens above it. Whether that is news: only of a log
    /// that came from elsewhere, and was not founded here or knew greater generations.
    pub(crate) fn note(&mut self, shard: ShardId, generation: Generation) -> bool {
        let Some(known) = self.known(shard.stream) else {
            return false;
        };
        let seen = known.seen.max(generation.get().min(FLOOR_MAX));
        let is_news = seen > known.seen;
        known.seen = seen;
        known.unopened.remove(&shard.index) || is_news
    }

    fn known(&mut self, id: StreamId) -> Option<&mut Known> {
        self.names.iter_mut().find(|known| known.id.0 == id)
    }

    fn admit(&mut self, described: &Described, now: u64) -> Result<Stream, StateError> {
        let known = self.names.iter().position(|known| known.is_for(described));
        let draw = || draw().map_err(StateError::Randomness);
        let at = match known {
            Some(at) => at,
            None => {
                self.names.push(Known::new(described, self.begun, draw()?));
                self.names.len() - 1
            }
        };
        let known = self.names.get_mut(at).expect("found or pushed above");
        if described.begin_anew == Some(known.id.0) {
            let old = known.id.0;
            known.renew(draw()?, now);
            tracing::warn!(
                tenant = described.tenant,
                topic = described.topic(),
                %old,
                new = %known.id.0,
                "the stream begins anew; the directory of the old one is left to be removed by hand"
            );
        }
        if described.shards < known.shards {
            return Err(StateError::Fewer {
                topic: described.topic(),
                had: known.shards,
                asked: described.shards,
                anew: anew(known.id.0),
            });
        }
        known.unopened.extend(known.shards..described.shards);
        known.shards = described.shards;
        // Where the log is new, nothing but this says what clients have seen.
        let floor = known.floor.max(known.seen);
        // A shard opens one above the greatest it knows of, which is counted before it happens.
        known.seen = floor.saturating_add(1).min(FLOOR_MAX);
        Ok(described.stream(known.id.0, Generation::new(floor)))
    }

    /// What nobody but this broker's writing keeps from being otherwise.
    fn check(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        let mut ids = HashSet::new();
        if self.begun > FLOOR_MAX {
            return Err(format!("begun is {}, above {FLOOR_MAX}", self.begun));
        }
        for known in &self.names {
            let name = (&known.tenant, &known.namespace, &known.name);
            let fault = if known.floor > FLOOR_MAX {
                format!("floor is {}, above {FLOOR_MAX}", known.floor)
            } else if known.seen > FLOOR_MAX {
                format!("seen is {}, above {FLOOR_MAX}", known.seen)
            } else if known.shards > SHARDS_PER_STREAM_MAX {
                format!("shards is {}, above {SHARDS_PER_STREAM_MAX}", known.shards)
            } else if known.unopened.iter().any(|index| *index >= known.shards) {
                "unopened has a shard that there is not".into()
            } else if known.id.0.0 <= 1 {
                "its id is reserved".into()
            } else if !names.insert(name) {
                "the name is there twice".into()
            } else if !ids.insert(known.id.0.0) {
                "its id is there twice".into()
            } else {
                continue;
            };
            let (tenant, namespace, name) = name;
            return Err(format!("stream {tenant}/{namespace}.{name}: {fault}"));
        }
        Ok(())
    }
}

/// How to begin a stream anew: completes "or, ".
fn anew(id: StreamId) -> String {
    format!(
        "to begin the stream anew, empty and without its records, add the line begin_anew = \
         \"{id}\" to its [[stream]] entry in the catalog file (FELIX_CATALOG_FILE)"
    )
}

impl Known {
    /// A name never seen: its first stream opens above `begun`.
    fn new(described: &Described, begun: u32, id: Identity) -> Self {
        Self {
            tenant: described.tenant.clone(),
            namespace: described.namespace.clone(),
            name: described.name.clone(),
            id,
            shards: 0,
            unopened: BTreeSet::new(),
            floor: begun,
            seen: 0,
        }
    }

    /// Another stream under the name of one that is left behind.
    fn renew(&mut self, id: Identity, now: u64) {
        self.id = id;
        self.shards = 0;
        self.unopened.clear();
        // The clock besides: a state restored from a backup has not seen all that clients have.
        self.floor = self.floor.max(self.seen).max(since_2020(now));
    }

    /// Whether any of its shards may have been written to.
    fn has_served(&self) -> bool {
        self.served().next().is_some()
    }

    fn served(&self) -> impl Iterator<Item = u32> {
        (0..self.shards).filter(|index| !self.unopened.contains(index))
    }

    /// Whether shards that were never served can be made beside those that were. Where none of
    /// these is there, the place may be that of a disk that is not mounted.
    fn may_found(&self, data: &DataDir, stream: &Stream) -> bool {
        let mut served = self.served().peekable();
        served.peek().is_none() || served.any(|index| stream_dirs::has_shard(data, stream, index))
    }

    fn is_for(&self, described: &Described) -> bool {
        self.tenant == described.tenant
            && self.namespace == described.namespace
            && self.name == described.name
    }
}

fn since_2020(now: u64) -> u32 {
    // Below the end of the range, so that generations can follow; a clock before 2020 is wrong,
    // and 1 is as good as any.
    let last = (i32::MAX >> 1).cast_unsigned();
    let seconds = now
        .saturating_sub(SECONDS_TO_2020)
        .clamp(1, u64::from(last));
    u32::try_from(seconds).expect("clamped above")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog_file::StreamDefaults;
    use felix_core::{Durability, Retention};
    use std::fs;

    const NOW: u64 = SECONDS_TO_2020 + 1000;

    const DEFAULTS: StreamDefaults = StreamDefaults {
        durability: Durability::Periodic,
        retention: Retention {
            bytes: None,
            age: None,
        },
        segment_age: felix_core::limits::SEGMENT_AGE,
    };

    fn clicks(shards: u32) -> Described {
        Described {
            shards,
            ..Described::dev(&DEFAULTS)
        }
    }

    fn only(catalog: &Catalog) -> &Stream {
        let [stream] = catalog.streams() else {
            panic!("one stream")
        };
        stream
    }

    /// What a start does whose listeners could be bound.
    fn start(data: &DataDir, listed: &[Described], now: u64) -> Catalog {
        let mut state = CatalogState::load(data, now).unwrap();
        let catalog = state.catalog(listed, data, now).unwrap();
        state.keep(data, &catalog).unwrap();
        catalog
    }

    /// Why a start with these streams is refused.
    fn refusal_of(data: &DataDir, listed: &[Described]) -> String {
        let refused = CatalogState::load(data, NOW)
            .and_then(|mut state| state.catalog(listed, data, NOW).map(|_| ()));
        refused.unwrap_err().to_string()
    }

    fn refusal(data: &DataDir) -> String {
        refusal_of(data, &[clicks(3)])
    }

    fn anew(shards: u32, id: StreamId) -> Described {
        Described {
            begin_anew: Some(id),
            ..clicks(shards)
        }
    }

    /// Which shards are not to be made where they are missing.
    fn guarded(data: &DataDir, catalog: &Catalog) -> Vec<u32> {
        let state = CatalogState::load(data, NOW).unwrap();
        let stream = only(catalog);
        let is_guarded = |index: &u32| state.cure_if_lost(data, stream, *index).is_some();
        (0..stream.shards).filter(is_guarded).collect()
    }

    fn directory(data: &DataDir, id: StreamId) -> std::path::PathBuf {
        data.path().join(format!("streams/dev/{id}"))
    }

    #[test]
    fn a_stream_keeps_its_identity_across_restarts_and_its_floor_rises_with_each() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let first = start(&data, &[clicks(3)], NOW);
        let second = start(&data, &[clicks(3)], NOW + 50);
        assert_eq!(only(&first).id, only(&second).id);
        assert_eq!(only(&first).generation_floor, Generation::new(1000));
        assert_eq!(only(&second).generation_floor, Generation::new(1001));
    }

    #[test]
    fn a_stream_that_a_start_does_not_list_keeps_its_identity_and_its_shards() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let before = start(&data, &[clicks(3)], NOW);
        start(&data, &[], NOW + 50);
        let error = CatalogState::load(&data, NOW)
            .unwrap()
            .catalog(&[clicks(2)], &data, NOW);
        assert!(matches!(error, Err(StateError::Fewer { had: 3, .. })));
        let after = start(&data, &[clicks(3)], NOW + 99);
        assert_eq!(only(&before).id, only(&after).id);
    }

    #[test]
    fn a_stream_begins_anew_only_by_its_present_identity_and_above_what_was_seen() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let old = start(&data, &[clicks(3)], NOW);
        let old = only(&old).id;
        let mut state = CatalogState::load(&data, NOW).unwrap();
        let shard = |index| ShardId { stream: old, index };
        assert!(state.note(shard(0), Generation::new(5000)));
        let again = state.note(shard(1), Generation::new(4000));
        assert!(!again, "generations only grow");
        state.store(&data).unwrap();

        let same = start(&data, &[anew(3, StreamId(old.0 ^ 1))], NOW);
        assert_eq!(only(&same).id, old);
        let new = start(&data, &[anew(1, old)], NOW);
        let id = only(&new).id;
        assert_ne!(id, old);
        assert_eq!(only(&new).generation_floor, Generation::new(5001));
        assert_eq!(only(&new).shards, 1, "the old shard count binds nobody");
        assert!(
            directory(&data, old).is_dir(),
            "nobody's records are removed"
        );
        let later = start(&data, &[anew(1, old)], NOW);
        assert_eq!(only(&later).id, id, "the line may stay where it is");
    }

    #[test]
    fn a_stream_whose_directory_is_gone_is_the_same_and_no_log_is_made_for_it() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let before = start(&data, &[clicks(3)], NOW);
        let id = only(&before).id;
        assert_eq!(guarded(&data, &before), [0, 1, 2]);
        fs::remove_dir_all(directory(&data, id)).unwrap();
        // Shards that come to it are not made beside nothing: a disk may not be mounted.
        let after = start(&data, &[clicks(5)], NOW);
        assert_eq!(only(&after).id, id);
        assert!(!directory(&data, id).exists());
        assert_eq!(guarded(&data, &after), [0, 1, 2, 3, 4]);
        let cure = CatalogState::load(&data, NOW)
            .unwrap()
            .cure_if_lost(&data, only(&after), 0);
        let cure = cure.unwrap();
        let line = format!("begin_anew = \"{id}\"");
        assert!(
            cure.contains("not mounted") && cure.contains(&line),
            "{cure}"
        );

        fs::create_dir_all(directory(&data, id).join("default.clicks-1")).unwrap();
        start(&data, &[clicks(5)], NOW);
        let shards = fs::read_dir(directory(&data, id)).unwrap().count();
        assert_eq!(
            shards, 3,
            "the one that is back, and the two that were never made"
        );
    }

    #[test]
    fn a_start_that_was_cut_short_is_completed_by_the_next() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        // Killed when it had written the state and nothing else.
        let mut state = CatalogState::load(&data, NOW).unwrap();
        let catalog = state.catalog(&[clicks(3)], &data, NOW).unwrap();
        state.store(&data).unwrap();
        assert_eq!(guarded(&data, &catalog), [0; 0]);
        // Killed when it had made some of the logs and not noted them.
        stream_dirs::found_all(&data, only(&catalog), &[1].into());
        let state_path = temp.path().join(FILE);
        let text = fs::read(&state_path).unwrap();
        let after = start(&data, &[clicks(3)], NOW);
        assert_eq!(only(&after).id, only(&catalog).id);
        assert_eq!(guarded(&data, &after), [0, 1, 2]);
        fs::write(&state_path, text).unwrap();
        let again = start(&data, &[clicks(3)], NOW);
        assert_eq!(guarded(&data, &again), [0, 1, 2]);
    }

    #[test]
    fn a_log_that_somebody_has_put_there_is_noted_once_it_was_opened() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let id = only(&start(&data, &[clicks(1)], NOW)).id;
        let shard = directory(&data, id).join("default.clicks-1");
        fs::create_dir(&shard).unwrap();
        fs::write(shard.join("00000000000000000000.log"), "").unwrap();
        let catalog = start(&data, &[clicks(2)], NOW);
        assert_eq!(guarded(&data, &catalog), [0]);
        let mut state = CatalogState::load(&data, NOW).unwrap();
        let shard = ShardId {
            stream: id,
            index: 1,
        };
        assert!(state.note(shard, Generation::new(1)));
        assert!(!state.note(shard, Generation::new(1)));
    }

    #[test]
    fn openings_are_counted_before_they_happen_whatever_the_clock_says() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        // Killed as soon as its shards were open, five times within a second: none was noted.
        let mut opened = 1000;
        for _ in 0..5 {
            start(&data, &[clicks(3)], NOW);
            opened += 1;
        }
        let old = start(&data, &[clicks(3)], NOW);
        let old = only(&old);
        assert_eq!(old.generation_floor, Generation::new(opened));
        let new = start(&data, &[anew(3, old.id)], NOW - 900);
        assert_eq!(only(&new).generation_floor, Generation::new(opened + 1));
    }

    #[test]
    fn logs_without_a_state_and_a_state_without_logs_are_refused_with_the_cure() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let catalog = start(&data, &[clicks(3)], NOW);
        let id = only(&catalog).id;
        let (state, streams) = (temp.path().join(FILE), temp.path().join("streams"));
        let text = fs::read(&state).unwrap();
        fs::remove_file(&state).unwrap();
        let sentence = refusal(&data);
        assert!(sentence.contains("no catalog-state.toml"), "{sentence}");
        assert!(sentence.contains("/streams away"), "{sentence}");

        fs::write(&state, text).unwrap();
        fs::remove_dir_all(&streams).unwrap();
        // Gone, and as the mount point of a disk that is not mounted is: there, and empty.
        for _ in 0..2 {
            for listed in [&[clicks(3)][..], &[]] {
                let sentence = refusal_of(&data, listed);
                assert!(sentence.contains("is empty or gone"), "{sentence}");
                assert!(sentence.contains("not mounted"), "{sentence}");
            }
            fs::create_dir_all(&streams).unwrap();
        }
        // Who says that it is on purpose, for all that there are, is believed.
        let new = start(&data, &[anew(3, id)], NOW);
        assert_ne!(only(&new).id, id);
    }

    #[test]
    fn a_start_before_anything_was_served_needs_no_logs() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let mut state = CatalogState::load(&data, NOW).unwrap();
        state.catalog(&[clicks(3)], &data, NOW).unwrap();
        state.store(&data).unwrap();
        start(&data, &[clicks(3)], NOW);
    }

    #[test]
    fn shards_are_added_and_never_taken_away() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        start(&data, &[clicks(3)], NOW);
        let catalog = start(&data, &[clicks(4)], NOW);
        assert_eq!(guarded(&data, &catalog), [0, 1, 2, 3]);
        let error = refusal_of(&data, &[clicks(3)]);
        assert!(error.contains("default.clicks has 4 shards"), "{error}");
        let line = format!("begin_anew = \"{}\"", only(&catalog).id);
        assert!(error.contains(&line), "{error}");
    }

    #[test]
    fn a_damaged_state_is_refused_and_never_begun_anew() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        data.replace(FILE, "begun = 1\n[[stream]]\nid = \"xyz\"\n")
            .unwrap();
        let error = refusal(&data);
        assert!(
            error.contains("damaged") && error.contains("line 3"),
            "{error}"
        );
        let path = temp.path().join(FILE);
        fs::remove_file(&path).unwrap();
        start(&data, &[clicks(3)], NOW);
        let text = fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("clicks", "clocks"),
            ("shards = 3", "shards = 1"),
            ("seen = 1001", "seen = 1000"),
        ] {
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replace(from, to)).unwrap();
            let error = refusal(&data);
            let named = format!("{} is damaged: its checksum", path.display());
            assert!(error.contains(&named), "{error}");
        }
        fs::write(&path, [&text.as_bytes()[..40], b"\xff"].concat()).unwrap();
        let error = refusal(&data);
        assert!(error.contains("no text from byte 40 on"), "{error}");
    }

    #[test]
    fn a_state_from_before_checksums_is_taken_once_and_its_shards_count_as_served() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let before = start(&data, &[clicks(3)], NOW);
        let path = temp.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("checksum"));
        let old: Vec<&str> = lines.collect();
        fs::write(&path, old.join("\n")).unwrap();
        let after = start(&data, &[clicks(3)], NOW);
        assert_eq!(only(&after).id, only(&before).id);
        assert_eq!(guarded(&data, &after), [0, 1, 2]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\nchecksum = \""), "{text}");
    }

    #[test]
    fn numbers_that_no_generation_can_have_are_damage_and_the_last_one_is_usable() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let stream = |begun: u32, shards: u32, floor: u32, seen: u32| {
            format!(
                "begun = {begun}\n[[stream]]\ntenant = \"dev\"\nnamespace = \"default\"\n\
                 name = \"clicks\"\nid = \"{:032x}\"\nshards = {shards}\nfloor = {floor}\n\
                 seen = {seen}\n",
                77
            )
        };
        fs::create_dir_all(temp.path().join("streams/dev")).unwrap();
        for (text, fault) in [
            (stream(1, 3, FLOOR_MAX + 1, 5), "floor is 2147483647"),
            (stream(1, 3, 5, u32::MAX), "seen is 4294967295"),
            (stream(u32::MAX, 3, 5, 5), "begun is 4294967295"),
            (stream(1, 5000, 5, 5), "shards is 5000"),
            (stream(1, 3, 5, 5) + "unopened = [3]\n", "unopened"),
        ] {
            data.replace(FILE, &text).unwrap();
            let error = refusal(&data);
            assert!(
                error.contains("is damaged") && error.contains(fault),
                "{error}"
            );
        }
        data.replace(FILE, &stream(FLOOR_MAX, 3, FLOOR_MAX, FLOOR_MAX))
            .unwrap();
        for _ in 0..2 {
            let last = start(&data, &[clicks(3)], NOW);
            assert_eq!(only(&last).generation_floor, Generation::new(FLOOR_MAX));
        }
    }

    #[test]
    fn a_bad_name_is_refused_in_the_words_of_the_catalog() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let mut state = CatalogState::load(&data, NOW).unwrap();
        let bad = Described {
            namespace: "a.b".into(),
            ..clicks(1)
        };
        let error = state.catalog(&[bad], &data, NOW).unwrap_err().to_string();
        assert!(error.contains("first dot"), "{error}");
    }

    #[test]
    fn a_clock_that_is_off_still_gives_a_usable_generation() {
        assert_eq!(since_2020(0), 1);
        assert!(Generation::new(since_2020(u64::MAX)).get() < u32::MAX >> 1);
    }
}
