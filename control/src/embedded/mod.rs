//! The catalog in a file of this process: one binary is a whole system.

mod file;
mod keeper;

use crate::Proposal;
use crate::limits::{WAITING_EDITS_MAX, WINDOW_CHANGES};
use crate::store::{Answer, CommitError, Committed, Page, Position, Snapshot, Store, StoreError};
use crate::view::View;
use felix_core::Timestamp;
use file::{CatalogFile, Place, builder};
use keeper::{Job, Keeper};
use redb::StorageBackend;
use std::path::Path;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot, watch};

/// How an [`EmbeddedStore`] is opened.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedOptions {
    /// The time, where the catalog is founded now.
    pub now: Timestamp,
    /// Changes that are kept for followers.
    pub window: usize,
}

impl EmbeddedOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let window = WINDOW_CHANGES;
        Self { now, window }
    }
}

/// A catalog in a file. A thread of its own writes it; dropping the store waits for that to end.
#[derive(Debug)]
pub struct EmbeddedStore {
    /// `None`: the store is ending.
    jobs: Option<mpsc::Sender<Job>>,
    view: watch::Receiver<View>,
    keeper: Option<JoinHandle<()>>,
}

impl EmbeddedStore {
    /// Opens the catalog in a file, which is founded if it is not there. Blocks until it is read.
    ///
    /// # Errors
    /// It cannot be read or written, is damaged, or another process has it.
    pub fn open(path: &Path, options: EmbeddedOptions) -> Result<Self, StoreError> {
        let place = Place::File(path.to_owned());
        let opened = CatalogFile::open(place, options)?;
        file::flush_name(path)?;
        Self::start(opened)
    }

    /// The same on a disk that somebody else makes up. It is asked for again after each write that
    /// failed.
    ///
    /// # Errors
    /// As above.
    pub fn open_on<D: StorageBackend>(
        disk: impl Fn() -> D + Send + 'static,
        options: EmbeddedOptions,
    ) -> Result<Self, StoreError> {
        let place = Place::Disk(Box::new(move || builder().create_with_backend(disk())));
        Self::start(CatalogFile::open(place, options)?)
    }

    fn start((file, view): (CatalogFile, View)) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel(WAITING_EDITS_MAX);
        let (published, view) = watch::channel(view);
        let keeper = Keeper::new(file, waiting, published);
        let thread = std::thread::Builder::new().name("felix-catalog".into());
        let keeper = thread
            .spawn(move || keeper.run())
            .map_err(|error| StoreError::Unavailable(format!("no thread to write it: {error}")))?;
        Ok(Self {
            jobs: Some(jobs),
            view,
            keeper: Some(keeper),
        })
    }

    async fn propose(&self, proposal: Proposal) -> Result<Committed, CommitError> {
        let (answer, answered) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        let job = Job { proposal, answer };
        jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

impl Store for EmbeddedStore {
    fn commit(&self, proposal: Proposal) -> Answer<'_, Committed, CommitError> {
        Box::pin(self.propose(proposal))
    }

    fn snapshot(&self) -> Answer<'_, Snapshot> {
        // What anybody was told of was published before.
        let snapshot = self.view.borrow().snapshot();
        Box::pin(async move { Ok(snapshot) })
    }

    fn changes(&self, after: Position, max: usize) -> Answer<'_, Page> {
        let page = self.view.borrow().page(after, max);
        Box::pin(async move { Ok(page) })
    }

    fn changed(&self, after: Position) -> Answer<'_, ()> {
        let mut view = self.view.clone();
        Box::pin(async move {
            let changed = view.wait_for(|view| view.position() != after).await;
            changed.map(|_| ()).map_err(|_| StoreError::Closed)
        })
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(keeper) = self.keeper.take() {
            // Whoever opens the file next finds it free. A panic was reported where it happened.
            drop(keeper.join());
        }
    }
}
