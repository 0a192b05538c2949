//! Who writes the file: one thread, that takes all edits that wait and keeps them by one flush.

use crate::Proposal;
use crate::embedded::file::CatalogFile;
use crate::limits::BATCH_EDITS_MAX;
use crate::store::{CommitError, Committed, StoreError};
use crate::view::View;
use tokio::sync::{mpsc, oneshot, watch};

/// An edit, and whom to tell.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) proposal: Proposal,
    pub(super) answer: oneshot::Sender<Result<Committed, CommitError>>,
}

/// The thread's own.
#[derive(Debug)]
pub(super) struct Keeper {
    file: CatalogFile,
    waiting: mpsc::Receiver<Job>,
    view: watch::Sender<View>,
}

impl Keeper {
    pub(super) fn new(
        file: CatalogFile,
        waiting: mpsc::Receiver<Job>,
        view: watch::Sender<View>,
    ) -> Self {
        Self {
            file,
            waiting,
            view,
        }
    }

    /// Until nobody can bring an edit any more.
    pub(super) fn run(mut self) {
        let mut jobs = Vec::with_capacity(BATCH_EDITS_MAX);
        while self.waiting.blocking_recv_many(&mut jobs, BATCH_EDITS_MAX) > 0 {
            self.serve(&mut jobs);
        }
    }

    fn serve(&mut self, jobs: &mut Vec<Job>) {
        if let Err(error) = self.recover() {
            refuse(jobs, &error);
            return;
        }
        let view = self.view.borrow().clone();
        let settled = view.settle(jobs.iter().map(|job| &job.proposal));
        if !settled.changes.is_empty() {
            if let Err(error) = self.file.keep(&settled) {
                tracing::error!(%error, "the catalog could not be written");
                refuse(jobs, &error);
                return;
            }
            // Before anybody is told: what they were told of is what they find.
            self.view.send_replace(settled.view);
        }
        for (job, answer) in jobs.drain(..).zip(settled.answers) {
            // Whoever asked may have gone.
            drop(job.answer.send(answer.map_err(CommitError::Refused)));
        }
    }

    /// What a failed write has left is read again, before anything is built on it.
    fn recover(&mut self) -> Result<(), StoreError> {
        if self.file.is_open() {
            return Ok(());
        }
        let view = self.file.reopen()?;
        tracing::info!("the catalog can be written again");
        self.view.send_replace(view);
        Ok(())
    }
}

fn refuse(jobs: &mut Vec<Job>, error: &StoreError) {
    for job in jobs.drain(..) {
        drop(job.answer.send(Err(error.clone().into())));
    }
}
