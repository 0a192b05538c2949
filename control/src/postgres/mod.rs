//! The catalog in a Postgres database, for any number of instances over it, none of which has
//! anything of its own.
//!
//! The database puts the edits in order: whoever makes one holds the one row of `felix_catalog`
//! until it is kept. Each instance has a view of the catalog in memory, brought up to date before
//! each edit and each snapshot, and when it is notified.

mod connector;
mod keeper;
mod listener;
mod rows;
mod schema;
mod tls;

use crate::Proposal;
use crate::limits::{WAITING_EDITS_MAX, WINDOW_CHANGES};
use crate::store::{Answer, CommitError, Committed, Page, Position, Snapshot, Store, StoreError};
use crate::view::View;
use connector::Connector;
use felix_core::Timestamp;
use keeper::{Job, Keeper};
use listener::Listener;
use std::fmt;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// How long the database may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an edit is tried before whoever brought it is told that the database is away: most
/// restarts and failovers are shorter.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a [`PostgresStore`] is opened.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Where the database is: a URL or a key-value string, as libpq has them.
    pub url: String,
    /// Certificates of authorities, as PEM, that the database's has to come from; `None`: those of
    /// the system.
    pub ca_pem: Option<Vec<u8>>,
    /// The time, where the catalog is founded now.
    pub now: Timestamp,
    /// Changes that are kept for followers.
    pub window: usize,
    /// How long the database may take to accept a connection.
    pub connect_timeout: Duration,
    /// How long an edit is tried before whoever brought it is told that the database is away.
    pub patience: Duration,
}

impl PostgresOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(url: &str, now: Timestamp) -> Self {
        Self {
            url: url.to_owned(),
            ca_pem: None,
            now,
            window: WINDOW_CHANGES,
            connect_timeout: CONNECT_TIMEOUT,
            patience: PATIENCE,
        }
    }
}

/// Without the URL, which may have a password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("window", &self.window)
            .field("connect_timeout", &self.connect_timeout)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// A catalog in a Postgres database. Two tasks of the runtime that it was opened on serve it, with a
/// connection each.
#[derive(Debug)]
pub struct PostgresStore {
    jobs: mpsc::Sender<Job>,
    view: watch::Receiver<View>,
    listener: JoinHandle<()>,
}

impl PostgresStore {
    /// Opens the catalog in a database, which is founded if it is not there.
    ///
    /// # Errors
    /// The options are wrong, the database cannot be reached, or it has something else.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        let connector = Connector::new(&options)?;
        let mut session = connector.connect().await?;
        schema::migrate(&mut session.client).await?;
        rows::found(&mut session.client, options.now).await?;
        let view = rows::load(&mut session.client, options.window).await?;
        let (jobs, waiting) = mpsc::channel(WAITING_EDITS_MAX);
        let (published, view) = watch::channel(view);
        let listener = Listener::new(connector.clone(), jobs.clone());
        let keeper = Keeper::new(connector, options, waiting, published);
        tokio::spawn(keeper.run());
        Ok(Self {
            jobs,
            view,
            listener: tokio::spawn(listener.run()),
        })
    }

    async fn propose(&self, proposal: Proposal) -> Result<Committed, CommitError> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Commit { proposal, answer };
        self.jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn look(&self) -> Result<Snapshot, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Look(Some(answer));
        self.jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)??;
        Ok(self.view.borrow().snapshot())
    }

    /// Whoever followed another instance may be ahead of this one, and is not to start over for it.
    async fn catch_up(&self, with: Position) -> Result<(), StoreError> {
        let here = self.view.borrow().position();
        if with.catalog == here.catalog && with.sequence <= here.sequence {
            return Ok(());
        }
        self.look().await.map(|_| ())
    }
}

impl Store for PostgresStore {
    fn commit(&self, proposal: Proposal) -> Answer<'_, Committed, CommitError> {
        Box::pin(self.propose(proposal))
    }

    fn snapshot(&self) -> Answer<'_, Snapshot> {
        Box::pin(self.look())
    }

    fn changes(&self, after: Position, max: usize) -> Answer<'_, Page> {
        Box::pin(async move {
            self.catch_up(after).await?;
            Ok(self.view.borrow().page(after, max))
        })
    }

    fn changed(&self, after: Position) -> Answer<'_, ()> {
        let mut view = self.view.clone();
        Box::pin(async move {
            self.catch_up(after).await?;
            let changed = view.wait_for(|view| view.position() != after).await;
            changed.map(|_| ()).map_err(|_| StoreError::Closed)
        })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // The keeper ends by itself, once it has made what it was brought.
        self.listener.abort();
    }
}

/// What is wrong, with whatever the database or the network said. Never the connection string.
fn unavailable(error: &tokio_postgres::Error) -> StoreError {
    let Some(said) = error.as_db_error() else {
        let mut chain = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            chain = format!("{chain}: {cause}");
            source = cause.source();
        }
        return StoreError::Unavailable(chain);
    };
    let (code, message) = (said.code().code(), said.message());
    let said = format!("the database says: {message} ({code})");
    // Who we are, which database, and what we may do in it: somebody has to put that right.
    match code.get(..2) {
        Some("28" | "3D" | "42") => StoreError::Unusable(said),
        _ => StoreError::Unavailable(said),
    }
}
