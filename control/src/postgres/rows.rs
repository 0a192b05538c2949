//! The rows of the catalog: how they are read and written.

use super::unavailable;
use crate::catalog::{Entry, State};
use crate::store::{CatalogId, Position, StoreError};
use crate::view::{Settled, View};
use crate::{Change, Sequence, Version, edit, spelling};
use felix_core::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, IsolationLevel, Row, Statement, Transaction};

/// Where whoever changes the catalog says so.
pub(super) const CHANNEL: &str = "felix_catalog";

/// Keeps everybody else from changing the catalog until the transaction is over.
const LOCK: &str = "SELECT sequence FROM felix_catalog FOR UPDATE";

/// The head, and the changes after a sequence. One statement sees one state of the database.
const FOLLOWING: &str = "SELECT catalog, felix_catalog.sequence, change::text
    FROM felix_catalog LEFT JOIN felix_changes ON felix_changes.sequence > $1
    ORDER BY felix_changes.sequence";

const PUT_RECORDS: &str = "INSERT INTO felix_records (key, version, record)
    SELECT key, version, record::jsonb
    FROM unnest($1::text[], $2::bigint[], $3::text[]) AS new (key, version, record)
    ON CONFLICT (key) DO UPDATE SET version = excluded.version, record = excluded.record";

/// All that a batch of edits writes, by one round trip. The others are told once it is kept.
const WRITE: &str = "WITH put AS (
        INSERT INTO felix_records (key, version, record)
        SELECT key, version, record::jsonb
        FROM unnest($1::text[], $2::bigint[], $3::text[]) AS new (key, version, record)
        ON CONFLICT (key) DO UPDATE SET version = excluded.version, record = excluded.record
    ), gone AS (
        DELETE FROM felix_records WHERE key = ANY($4::text[])
    ), added AS (
        INSERT INTO felix_changes (sequence, change)
        SELECT sequence, change::jsonb
        FROM unnest($5::bigint[], $6::text[]) AS new (sequence, change)
    ), trimmed AS (
        DELETE FROM felix_changes WHERE sequence < $7
    ), moved AS (
        UPDATE felix_catalog SET sequence = $8
    )
    SELECT pg_notify($9, $8::bigint::text)";

/// The statements of each edit, which a connection has parsed once.
#[derive(Debug)]
pub(super) struct Statements {
    lock: Statement,
    following: Statement,
    write: Statement,
}

impl Statements {
    /// Those of a connection to a database that has the tables.
    ///
    /// # Errors
    /// The database is away.
    pub(super) async fn prepare(client: &Client) -> Result<Self, StoreError> {
        let prepared = async {
            Ok(Self {
                lock: client.prepare(LOCK).await?,
                following: client.prepare(FOLLOWING).await?,
                write: client.prepare(WRITE).await?,
            })
        };
        prepared.await.map_err(|error| unavailable(&error))
    }
}

/// Founds the catalog, if nobody has.
///
/// # Errors
/// The database is away.
pub(super) async fn found(client: &mut Client, now: Timestamp) -> Result<(), StoreError> {
    let catalog = edit::draw().map_err(|error| {
        StoreError::Unavailable(format!("the kernel gives no randomness: {error}"))
    })?;
    let state = State::founded(now);
    let founded = async {
        let transaction = client.transaction().await?;
        let head = "INSERT INTO felix_catalog (catalog, sequence) VALUES ($1, $2)
            ON CONFLICT DO NOTHING";
        let catalog = CatalogId(catalog).to_string();
        let founded = transaction
            .execute(head, &[&catalog, &number(state.sequence())])
            .await?;
        if founded == 1 {
            let put = Columns::of(state.entries());
            let values: [&(dyn ToSql + Sync); 3] = [&put.keys, &put.versions, &put.records];
            transaction.execute(PUT_RECORDS, &values).await?;
        }
        transaction.commit().await
    };
    founded.await.map_err(|error| unavailable(&error))
}

/// All of it, as it is at one moment.
///
/// # Errors
/// The database is away, or what it has cannot be right.
pub(super) async fn load(client: &mut Client, window: usize) -> Result<View, StoreError> {
    let read = async {
        let transaction = client.build_transaction().read_only(true);
        let transaction = transaction.isolation_level(IsolationLevel::RepeatableRead);
        let transaction = transaction.start().await?;
        let head = "SELECT catalog, sequence FROM felix_catalog";
        let head = transaction.query_opt(head, &[]).await?;
        let entries = "SELECT version, record::text FROM felix_records";
        let entries = transaction.query(entries, &[]).await?;
        let changes = "SELECT change::text FROM felix_changes ORDER BY sequence";
        let changes = transaction.query(changes, &[]).await?;
        transaction.commit().await?;
        Ok((head, entries, changes))
    };
    let (head, entries, changes) = read.await.map_err(|error| unavailable(&error))?;
    let head = head.ok_or_else(|| damaged("felix_catalog has no row"))?;
    let position = position(&head)?;
    let entries = entries.iter().map(entry).collect::<Result<_, _>>()?;
    let changes = changes
        .iter()
        .map(|row| json(row.get(0)))
        .collect::<Result<_, _>>()?;
    View::load(position, entries, changes, window).map_err(damaged)
}

/// Keeps everybody else from changing the catalog until the transaction is over.
///
/// # Errors
/// The database is away, or somebody holds it for too long.
pub(super) async fn lock(
    transaction: &Transaction<'_>,
    statements: &Statements,
) -> Result<(), StoreError> {
    let locked = transaction.query_opt(&statements.lock, &[]).await;
    match locked.map_err(|error| unavailable(&error))? {
        Some(_) => Ok(()),
        None => Err(damaged("felix_catalog has no row")),
    }
}

/// The view with all that was changed since; `None`: it has to be loaded anew.
///
/// # Errors
/// The database is away, or what it has cannot be right.
pub(super) async fn follow(
    client: &impl GenericClient,
    statements: &Statements,
    view: &View,
) -> Result<Option<View>, StoreError> {
    let known = number(view.position().sequence);
    let rows = client.query(&statements.following, &[&known]).await;
    let rows = rows.map_err(|error| unavailable(&error))?;
    let head = rows
        .first()
        .ok_or_else(|| damaged("felix_catalog has no row"))?;
    let end = position(head)?;
    let here = view.position();
    // The database was made anew, or is an older copy of itself.
    if end.catalog != here.catalog || end.sequence < here.sequence {
        return Ok(None);
    }
    let mut followed = view.clone();
    for row in &rows {
        let Some(text) = row.get::<_, Option<&str>>(2) else {
            break;
        };
        let change: Change = json(text)?;
        // What lies between has left the window.
        if change.sequence != followed.position().sequence.next() {
            return Ok(None);
        }
        followed.push(Arc::new(change));
    }
    Ok((followed.position() == end).then_some(followed))
}

/// Writes what proposals have made of the catalog.
///
/// # Errors
/// The database is away.
pub(super) async fn write(
    transaction: &Transaction<'_>,
    statements: &Statements,
    settled: &Settled,
) -> Result<(), tokio_postgres::Error> {
    let state = settled.view.state();
    let put = Columns::of(settled.touched.iter().filter_map(|key| state.entry(key)));
    let gone = settled
        .touched
        .iter()
        .filter(|key| state.entry(key).is_none());
    let gone: Vec<String> = gone.map(ToString::to_string).collect();
    let changes = settled.changes.iter();
    let (sequences, changes): (Vec<i64>, Vec<String>) = changes
        .map(|change| (number(change.sequence), text(change.as_ref())))
        .unzip();
    let first = settled.view.window().first().map_or(0, number);
    let last = number(state.sequence());
    let values: [&(dyn ToSql + Sync); 9] = [
        &put.keys,
        &put.versions,
        &put.records,
        &gone,
        &sequences,
        &changes,
        &first,
        &last,
        &CHANNEL,
    ];
    transaction.query(&statements.write, &values).await?;
    Ok(())
}

/// Records, column by column.
#[derive(Default)]
struct Columns {
    keys: Vec<String>,
    versions: Vec<i64>,
    records: Vec<String>,
}

impl Columns {
    fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut columns = Self::default();
        for entry in entries {
            let version = i64::try_from(entry.version.get()).expect("a sequence fits 63 bits");
            columns.keys.push(entry.record.key().to_string());
            columns.versions.push(version);
            columns.records.push(text(&entry.record));
        }
        columns
    }
}

fn position(head: &Row) -> Result<Position, StoreError> {
    let catalog: &str = head.get(0);
    let id = spelling::hex(catalog).ok_or_else(|| damaged(format!("catalog is {catalog:?}")))?;
    let sequence: i64 = head.get(1);
    let number = u64::try_from(sequence).map_err(|_| damaged(format!("sequence is {sequence}")))?;
    Ok(Position {
        catalog: CatalogId(id),
        sequence: Sequence::new(number),
    })
}

fn entry(row: &Row) -> Result<Entry, StoreError> {
    let version: i64 = row.get(0);
    let number = u64::try_from(version).map_err(|_| damaged(format!("a version is {version}")))?;
    Ok(Entry {
        version: Version::new(number),
        record: json(row.get(1))?,
    })
}

fn number(sequence: Sequence) -> i64 {
    i64::try_from(sequence.get()).expect("a sequence fits 63 bits")
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what the catalog has can be written as JSON")
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| damaged(format!("{text} is not understood: {error}")))
}

fn damaged(what: impl ToString) -> StoreError {
    StoreError::Damaged(what.to_string())
}
