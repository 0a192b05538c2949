//! What a broker remembers of its streams: the identity of each and the greatest generation that
//! clients may have seen under each name.
//!
//! A stream keeps its identity for good, whether or not the catalog lists it at this start: a
//! catalog file forgotten once must not cost anybody their logs. Only whoever removes a stream's
//! directory takes it away. The next of that name is another stream with another identity, and
//! opens above whatever clients saw under the name before, so that no leader epoch ever goes
//! backwards.

use crate::catalog_file::Described;
use crate::data_dir::DataDir;
use crate::stream_dirs;
use felix_core::{Catalog, Generation, Stream, StreamId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};

const FILE: &str = "catalog-state.toml";
const HEADER: &str = "# Written by the broker: identities of streams. Without it every stream \
                      here is lost. Do not edit.\n\n";

/// Seconds from 1970 to 2020. Generations begin at the seconds since then: by 2054 that is half of
/// what a signed 32-bit number holds, and the other half is left for openings.
const SECONDS_TO_2020: u64 = 1_577_836_800;

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
    /// The stream's generations are above this.
    floor: u32,
    /// No generation opened under this name is above this.
    seen: u32,
}

/// A stream id, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Identity(u128);

impl TryFrom<String> for Identity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = u128::from_str_radix(&text, 16)
            .ok()
            .filter(|_| text.len() == 32);
        number
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not 32 hexadecimal digits"))
    }
}

impl From<Identity> for String {
    fn from(id: Identity) -> Self {
        format!("{:032x}", id.0)
    }
}

/// Why the streams cannot be served.
#[derive(Debug)]
pub(crate) enum StateError {
    /// The state file is unreadable or does not parse.
    Damaged(String),
    /// There are logs and no state file.
    Lost,
    /// There is a state file with streams and nowhere any log of theirs.
    LogsLost,
    /// A stream lost shards.
    Fewer {
        /// Its topic name.
        topic: String,
        /// Shards it had.
        had: u32,
        /// Shards it is said to have.
        asked: u32,
    },
    /// The names or counts are refused.
    Catalog(felix_core::catalog::CatalogError),
    /// The state cannot be kept, or no identity can be drawn.
    Io(io::Error),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(fault) => write!(
                f,
                "{FILE} in the data directory is damaged: {fault}; restore it from a backup, \
                 since the logs belong to the identities in it"
            ),
            Self::Lost => write!(
                f,
                "the data directory has logs in streams/ and no {FILE}, which says whose they \
                 are; restore it from a backup, or, to begin anew without these logs, move \
                 streams/ away"
            ),
            Self::LogsLost => write!(
                f,
                "{FILE} in the data directory knows streams, and streams/, where their logs were, \
                 is gone; bring it back (is a disk not mounted?), or, to begin anew without their \
                 logs, make an empty directory streams/"
            ),
            Self::Fewer { topic, had, asked } => write!(
                f,
                "stream {topic} has {had} shards and the catalog says {asked}; shards cannot be \
                 taken away: say {had} or more, or remove the stream's directory to make it anew"
            ),
            Self::Catalog(error) => write!(f, "the catalog: {error}"),
            Self::Io(error) => write!(f, "the data directory cannot keep streams: {error}"),
        }
    }
}

impl std::error::Error for StateError {}

impl From<felix_core::catalog::CatalogError> for StateError {
    fn from(error: felix_core::catalog::CatalogError) -> Self {
        Self::Catalog(error)
    }
}

impl From<io::Error> for StateError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl CatalogState {
    /// What the directory remembers, or the beginning of a new memory at `now`, in seconds since
    /// 1970.
    ///
    /// # Errors
    /// The file is damaged, or it or the logs are missing.
    pub(crate) fn load(data: &DataDir, now: u64) -> Result<Self, StateError> {
        let Some(text) = data.read(FILE)? else {
            if stream_dirs::has_any(data)? {
                return Err(StateError::Lost);
            }
            return Ok(Self {
                begun: since_2020(now),
                names: Vec::new(),
            });
        };
        let state: Self =
            toml::from_str(&text).map_err(|error| StateError::Damaged(error.to_string()))?;
        if !state.names.is_empty() && !stream_dirs::has_root(data)? {
            return Err(StateError::LogsLost);
        }
        Ok(state)
    }

    /// Keeps it on the device, and makes a directory for each of the streams. Before any of them
    /// is used: an identity that a client has seen must outlive a power loss. After everything
    /// that may end the start, so that a start that fails leaves all as it was.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep(&self, data: &DataDir, catalog: &Catalog) -> Result<(), StateError> {
        stream_dirs::make_root(data)?;
        // First the state: a directory that nobody knows would look like lost state.
        self.store(data)?;
        for stream in catalog.streams() {
            stream_dirs::make_of(data, stream)?;
        }
        Ok(())
    }

    /// Keeps it on the device, if there is news.
    ///
    /// # Errors
    /// It cannot be written; the old state stands.
    pub(crate) fn store(&self, data: &DataDir) -> Result<(), StateError> {
        let text = toml::to_string(self).expect("the state is plain tables");
        Ok(data.replace(FILE, &format!("{HEADER}{text}"))?)
    }

    /// The catalog of these streams, each to be opened once: known ones keep their identity, and
    /// those that are new, or whose directory was removed, get one. To be kept before the catalog
    /// is used.
    ///
    /// # Errors
    /// The catalog is refused, a stream lost shards, or no randomness can be read.
    pub(crate) fn catalog(
        &mut self,
        listed: &[Described],
        data: &DataDir,
        now: u64,
    ) -> Result<Catalog, StateError> {
        let mut streams = Vec::with_capacity(listed.len());
        for described in listed {
            streams.push(self.admit(described, data, now)?);
        }
        Ok(Catalog::new(streams)?)
    }

    /// Notes that a generation was opened, so that a later stream of that name opens above it.
    /// Whether that is news: only of a log that came from elsewhere, and knew greater ones than
    /// this directory.
    pub(crate) fn note(&mut self, stream: StreamId, generation: Generation) -> bool {
        let id = Identity(stream.0);
        match self.names.iter_mut().find(|known| known.id == id) {
            Some(known) if known.seen < generation.get() => {
                known.seen = generation.get();
                true
            }
            Some(_) | None => false,
        }
    }

    fn admit(
        &mut self,
        described: &Described,
        data: &DataDir,
        now: u64,
    ) -> Result<Stream, StateError> {
        let known = self.names.iter().position(|known| known.is_for(described));
        let at = match known {
            Some(at) => at,
            None => {
                self.names.push(Known::new(described, self.begun, draw()?));
                self.names.len() - 1
            }
        };
        let is_new = known.is_none();
        let known = self.names.get_mut(at).expect("found or pushed above");
        if !is_new && !stream_dirs::is_there(data, &known.stream(described))? {
            known.renew(draw()?, now);
        }
        if described.shards < known.shards {
            let topic = format!("{}.{}", described.namespace, described.name);
            return Err(StateError::Fewer {
                topic,
                had: known.shards,
                asked: described.shards,
            });
        }
        known.shards = described.shards;
        // A shard opens one above the greatest it knows of, which is the floor or seen already.
        known.seen = known.seen.max(known.floor).saturating_add(1);
        Ok(known.stream(described))
    }
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
            floor: begun,
            seen: 0,
        }
    }

    /// Another stream under the name of one that was taken away.
    fn renew(&mut self, id: Identity, now: u64) {
        self.id = id;
        self.shards = 0;
        // The clock besides: a state restored from a backup has not seen all that clients have.
        self.floor = self.floor.max(self.seen).max(since_2020(now));
    }

    /// The stream of that name.
    fn stream(&self, described: &Described) -> Stream {
        described.stream(StreamId(self.id.0), Generation::new(self.floor))
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

/// A random identity. Kafka reserves 0 (no topic) and 1 (its metadata topic), and so do we.
fn draw() -> io::Result<Identity> {
    let mut bytes = [0; 16];
    loop {
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let id = u128::from_be_bytes(bytes);
        if id > 1 {
            return Ok(Identity(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::Durability;

    const NOW: u64 = SECONDS_TO_2020 + 1000;

    fn clicks(shards: u32) -> Described {
        Described {
            shards,
            ..Described::dev(Durability::Periodic)
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

    fn refusal(data: &DataDir) -> String {
        CatalogState::load(data, NOW).unwrap_err().to_string()
    }

    #[test]
    fn a_stream_keeps_its_identity_across_restarts() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let first = start(&data, &[clicks(3)], NOW);
        let second = start(&data, &[clicks(3)], NOW + 50);
        assert_eq!(only(&first), only(&second));
        assert_eq!(only(&first).generation_floor, Generation::new(1000));
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
        assert_eq!(only(&before), only(&start(&data, &[clicks(3)], NOW + 99)));
    }

    #[test]
    fn a_stream_whose_directory_was_removed_is_another_and_opens_above_what_was_seen() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        let old = start(&data, &[clicks(3)], NOW);
        let old = only(&old);
        let mut state = CatalogState::load(&data, NOW).unwrap();
        assert!(state.note(old.id, Generation::new(5000)));
        assert!(
            !state.note(old.id, Generation::new(4000)),
            "generations only grow"
        );
        state.store(&data).unwrap();

        std::fs::remove_dir(temp.path().join(format!("streams/dev/{}", old.id))).unwrap();
        let new = start(&data, &[clicks(1)], NOW);
        assert_ne!(only(&new).id, old.id);
        assert_eq!(only(&new).generation_floor, Generation::new(5000));
        assert_eq!(only(&new).shards, 1, "the old shard count binds nobody");
        assert_eq!(only(&new), only(&start(&data, &[clicks(1)], NOW)));
    }

    #[test]
    fn openings_are_counted_before_they_happen_whatever_the_clock_says() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        // Killed as soon as its shards were open, five times within a second: none was noted.
        let mut opened = Generation::new(1000);
        for _ in 0..5 {
            start(&data, &[clicks(3)], NOW);
            opened = opened.next();
        }
        let old = start(&data, &[clicks(3)], NOW);
        let id = only(&old).id;
        std::fs::remove_dir(temp.path().join(format!("streams/dev/{id}"))).unwrap();
        let new = start(&data, &[clicks(3)], NOW - 900);
        assert_eq!(only(&new).generation_floor, opened.next());
    }

    #[test]
    fn logs_without_a_state_and_a_state_without_logs_are_refused_with_the_cure() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        start(&data, &[clicks(3)], NOW);
        let (state, streams) = (temp.path().join(FILE), temp.path().join("streams"));
        let text = std::fs::read(&state).unwrap();
        std::fs::remove_file(&state).unwrap();
        let sentence = refusal(&data);
        assert!(sentence.contains("no catalog-state.toml"), "{sentence}");
        assert!(sentence.contains("move streams/ away"), "{sentence}");

        std::fs::write(&state, text).unwrap();
        std::fs::remove_dir_all(&streams).unwrap();
        let sentence = refusal(&data);
        assert!(sentence.contains("make an empty directory"), "{sentence}");
        std::fs::create_dir(&streams).unwrap();
        CatalogState::load(&data, NOW).unwrap();
    }

    #[test]
    fn shards_are_added_and_never_taken_away() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::lock(temp.path()).unwrap();
        start(&data, &[clicks(3)], NOW);
        start(&data, &[clicks(4)], NOW);
        let mut state = CatalogState::load(&data, NOW).unwrap();
        let error = state.catalog(&[clicks(3)], &data, NOW).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("default.clicks has 4 shards"), "{error}");
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
