//! The tables in the database, and how they came about.

use super::unavailable;
use crate::store::StoreError;
use tokio_postgres::Client;

/// What has been done to the tables, in order. What was released is never changed: an instance
/// does to a database what it lacks, and an older one leaves it alone.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE felix_catalog (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        catalog text NOT NULL,
        sequence bigint NOT NULL
    );
    CREATE TABLE felix_records (
        key text PRIMARY KEY,
        version bigint NOT NULL,
        record jsonb NOT NULL
    );
    CREATE TABLE felix_changes (
        sequence bigint PRIMARY KEY,
        change jsonb NOT NULL
    );
"];

/// Where the migrations that a database has had are noted.
const NOTES: &str = "CREATE TABLE IF NOT EXISTS felix_migrations (
    number integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)";

/// Taken while migrating, so that instances that start at once do it one after the other. Any
/// number that others do not use: the first bytes of the SHA-256 of "felix".
const LOCK: i64 = 0x1c36_2cd0_4f9d_39c6;

/// Brings the tables up to date.
///
/// # Errors
/// The database is away, does not let us, or is that of a newer program.
pub(super) async fn migrate(client: &mut Client) -> Result<(), StoreError> {
    let had = run(client).await.map_err(|error| unavailable(&error))?;
    if had > MIGRATIONS.len() {
        return Err(StoreError::Unusable(format!(
            "the database is that of a newer program: it has {had} migrations, and this one knows {}; \
             upgrade this program",
            MIGRATIONS.len()
        )));
    }
    Ok(())
}

/// How many migrations the database had.
async fn run(client: &mut Client) -> Result<usize, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    transaction.batch_execute(NOTES).await?;
    let row = transaction
        .query_one("SELECT count(*) FROM felix_migrations", &[])
        .await?;
    let had = usize::try_from(row.get::<_, i64>(0)).expect("a count is not negative");
    for (number, migration) in (1_i32..).zip(MIGRATIONS).skip(had) {
        transaction.batch_execute(migration).await?;
        let note = "INSERT INTO felix_migrations (number) VALUES ($1)";
        transaction.execute(note, &[&number]).await?;
    }
    transaction.commit().await?;
    Ok(had)
}
