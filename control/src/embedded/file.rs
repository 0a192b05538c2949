//! The file of a catalog, by redb: what it holds and how it is written.
//!
//! Three tables: `records` by key and `changes` by sequence, as JSON, and `catalog` with one row.
//! Every commit is flushed before it is answered. A torn one is undone by redb when it is opened.

use crate::catalog::{Entry, State};
use crate::embedded::EmbeddedOptions;
use crate::store::{CatalogId, Position, StoreError};
use crate::view::{Settled, View};
use crate::{Change, Sequence, edit};
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition, WriteTransaction,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

const CATALOG: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("catalog");
const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");
const CHANGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("changes");

/// The key of the row of `catalog`.
const HEAD: &str = "head";

/// What this program writes. It reads nothing else.
const FORMAT: u32 = 1;

/// Pages of the file that are kept in memory, in bytes: they are read at the start and written
/// since.
const CACHE_BYTES: usize = 8 << 20;

/// What the file says of itself.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: u32,
    catalog: CatalogId,
    sequence: Sequence,
}

/// Where a catalog is.
pub(super) enum Place {
    /// In a file.
    File(PathBuf),
    /// On a disk that somebody made up.
    Disk(Box<dyn Fn() -> Result<Database, DatabaseError> + Send>),
}

/// The file of a catalog. Lives on the thread that writes it.
#[derive(Debug)]
pub(super) struct CatalogFile {
    place: Place,
    options: EmbeddedOptions,
    /// `None`: a write failed, and nobody knows what it left.
    database: Option<Database>,
}

impl CatalogFile {
    /// Opens a file or founds it, and reads it.
    pub(super) fn open(place: Place, options: EmbeddedOptions) -> Result<(Self, View), StoreError> {
        let mut file = Self {
            place,
            options,
            database: None,
        };
        let view = file.reopen()?;
        Ok((file, view))
    }

    /// Whether it can be written, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        self.database.is_some()
    }

    /// Opens it again after a write that failed: what it has then is what counts.
    pub(super) fn reopen(&mut self) -> Result<View, StoreError> {
        let database = match &self.place {
            Place::File(path) => builder().create(path),
            Place::Disk(create) => create(),
        };
        self.load(database.map_err(|error| self.refused(&error))?)
    }

    /// Keeps what proposals have made of the catalog. When it returns it is on the device.
    pub(super) fn keep(&mut self, settled: &Settled) -> Result<(), StoreError> {
        let Some(database) = &self.database else {
            return Err(StoreError::Unavailable("a write of it failed".into()));
        };
        let kept = write(database, settled).map_err(|error| self.unavailable(&error));
        if kept.is_err() {
            self.database = None;
        }
        kept
    }

    fn load(&mut self, database: Database) -> Result<View, StoreError> {
        let head = found(&database, self.options).map_err(|error| self.failed(&error))?;
        if head.format != FORMAT {
            let format = head.format;
            return Err(StoreError::Unusable(format!(
                "{} is of format {format}, and this program knows {FORMAT}; upgrade this program",
                self.name()
            )));
        }
        let view = read(&database, &head, self.options.window);
        let view = view.map_err(|error| self.failed(&error))?;
        let view =
            view.map_err(|fault| StoreError::Damaged(format!("{}: {fault}", self.name())))?;
        self.database = Some(database);
        Ok(view)
    }

    fn name(&self) -> String {
        match &self.place {
            Place::File(path) => path.display().to_string(),
            Place::Disk(_) => "its disk".into(),
        }
    }

    fn unavailable(&self, error: &dyn std::error::Error) -> StoreError {
        StoreError::Unavailable(format!("{}: {error}", self.name()))
    }

    fn failed(&self, error: &redb::Error) -> StoreError {
        match error {
            redb::Error::Corrupted(fault) => {
                StoreError::Damaged(format!("{}: {fault}", self.name()))
            }
            other => self.unavailable(other),
        }
    }

    fn refused(&self, error: &DatabaseError) -> StoreError {
        let name = self.name();
        match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Unusable(format!(
                "{name} is in use by another process; one at a time has it, so end that first"
            )),
            DatabaseError::Storage(StorageError::Corrupted(fault)) => {
                StoreError::Damaged(format!("{name}: {fault}"))
            }
            DatabaseError::UpgradeRequired(format) => StoreError::Unusable(format!(
                "{name} is a redb file of format {format}, which this program does not read"
            )),
            other => self.unavailable(other),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Disk(_) => f.write_str("Disk"),
        }
    }
}

/// Has a file there after a power loss: what is in it was flushed, and its name was not.
pub(super) fn flush_name(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let flushed = File::open(folder).and_then(|folder| folder.sync_all());
    let shown = folder.display();
    flushed.map_err(|error| StoreError::Unavailable(format!("{shown} cannot be flushed: {error}")))
}

/// How redb is to open it.
pub(super) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    // The file is small; damage in it is to be told, and not to be stumbled over later.
    builder.set_check_integrity_on_open(true);
    builder
}

/// The head of a file, which is given one if it has none.
fn found(database: &Database, options: EmbeddedOptions) -> Result<Head, redb::Error> {
    let transaction = database.begin_write()?;
    let known = {
        let table = transaction.open_table(CATALOG)?;
        let row = table.get(HEAD)?;
        row.map(|row| json::<Head>(row.value())).transpose()?
    };
    if let Some(head) = known {
        transaction.abort()?;
        return Ok(head);
    }
    let catalog = edit::draw().map_err(std::io::Error::from)?;
    let state = State::founded(options.now);
    let head = Head {
        format: FORMAT,
        catalog: CatalogId(catalog),
        sequence: state.sequence(),
    };
    {
        let mut records = transaction.open_table(RECORDS)?;
        for entry in state.entries() {
            let key = entry.record.key().to_string();
            records.insert(key.as_str(), text(entry).as_slice())?;
        }
        transaction.open_table(CHANGES)?;
    }
    write_head(&transaction, &head)?;
    transaction.commit()?;
    Ok(head)
}

fn read(
    database: &Database,
    head: &Head,
    window: usize,
) -> Result<Result<View, String>, redb::Error> {
    let transaction = database.begin_read()?;
    let mut entries: Vec<Entry> = Vec::new();
    for row in transaction.open_table(RECORDS)?.iter()? {
        entries.push(json(row?.1.value())?);
    }
    let mut changes: Vec<Change> = Vec::new();
    for row in transaction.open_table(CHANGES)?.iter()? {
        changes.push(json(row?.1.value())?);
    }
    let position = Position {
        catalog: head.catalog,
        sequence: head.sequence,
    };
    Ok(View::load(position, entries, changes, window))
}

fn write(database: &Database, settled: &Settled) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut records = transaction.open_table(RECORDS)?;
        for key in &settled.touched {
            let name = key.to_string();
            match settled.view.state().entry(key) {
                Some(entry) => records.insert(name.as_str(), text(entry).as_slice())?,
                None => records.remove(name.as_str())?,
            };
        }
        let mut changes = transaction.open_table(CHANGES)?;
        for change in &settled.changes {
            changes.insert(change.sequence.get(), text(change.as_ref()).as_slice())?;
        }
        let first = settled.view.window().first().map_or(0, Sequence::get);
        changes.retain_in(..first, |_, _| false)?;
    }
    let Position { catalog, sequence } = settled.view.position();
    let head = Head {
        format: FORMAT,
        catalog,
        sequence,
    };
    write_head(&transaction, &head)?;
    // By default a commit returns when it is on the device.
    transaction.commit()?;
    Ok(())
}

fn write_head(transaction: &WriteTransaction, head: &Head) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(CATALOG)?;
    table.insert(HEAD, text(head).as_slice())?;
    Ok(())
}

fn text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what the catalog has can be written as JSON")
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, redb::Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let shown = String::from_utf8_lossy(bytes);
        redb::Error::Corrupted(format!("{shown} is not understood: {error}"))
    })
}
