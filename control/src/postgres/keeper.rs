//! Who makes the edits of an instance: one task and one connection. What waits meanwhile is made by
//! one transaction.

use super::connector::{Connector, Session};
use super::rows::Statements;
use super::{PostgresOptions, rows, unavailable};
use crate::limits::BATCH_EDITS_MAX;
use crate::store::{CommitError, Committed, StoreError};
use crate::view::View;
use crate::{Proposal, Refusal};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_postgres::IsolationLevel;

/// Waits between attempts to reach the database.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What an instance wants of the database.
#[derive(Debug)]
pub(super) enum Job {
    /// An edit made, and whoever brought it told.
    Commit {
        proposal: Proposal,
        answer: oneshot::Sender<Result<Committed, CommitError>>,
    },
    /// What others have changed, and whoever asked told once the view has it.
    Look(Option<oneshot::Sender<Result<(), StoreError>>>),
}

/// The task's own.
#[derive(Debug)]
pub(super) struct Keeper {
    connector: Connector,
    /// `None`: it failed, and what was under way on it may have been done.
    link: Option<Link>,
    options: PostgresOptions,
    waiting: mpsc::Receiver<Job>,
    view: watch::Sender<View>,
}

/// A connection that is ready for edits.
#[derive(Debug)]
struct Link {
    session: Session,
    statements: Statements,
}

/// What came of the edits, in order.
type Answers = Vec<Result<Committed, Refusal>>;

impl Keeper {
    pub(super) fn new(
        connector: Connector,
        options: PostgresOptions,
        waiting: mpsc::Receiver<Job>,
        view: watch::Sender<View>,
    ) -> Self {
        Self {
            connector,
            link: None,
            options,
            waiting,
            view,
        }
    }

    /// Until nobody can bring anything any more.
    pub(super) async fn run(mut self) {
        let mut jobs = Vec::with_capacity(BATCH_EDITS_MAX);
        while self.waiting.recv_many(&mut jobs, BATCH_EDITS_MAX).await > 0 {
            self.serve(&mut jobs).await;
        }
    }

    async fn serve(&mut self, jobs: &mut Vec<Job>) {
        let mut proposals = Vec::new();
        for job in jobs.iter() {
            if let Job::Commit { proposal, .. } = job {
                proposals.push(proposal.clone());
            }
        }
        let is_awaited = jobs.iter().any(|job| !matches!(job, Job::Look(None)));
        let patience = if is_awaited {
            self.options.patience
        } else {
            Duration::ZERO
        };
        let served = self.persist(&proposals, patience).await;
        let mut answers = match &served {
            Ok(answers) => answers.iter().cloned().map(Ok).collect(),
            Err(error) => vec![Err(error.clone()); proposals.len()],
        }
        .into_iter();
        for job in jobs.drain(..) {
            // Whoever asked may have gone.
            match job {
                Job::Commit { answer, .. } => {
                    let made = answers.next().expect("an answer for each proposal");
                    let told = match made {
                        Ok(made) => made.map_err(CommitError::Refused),
                        Err(error) => Err(CommitError::Store(error)),
                    };
                    drop(answer.send(told));
                }
                Job::Look(Some(answer)) => {
                    drop(answer.send(served.as_ref().map(|_| ()).map_err(Clone::clone)));
                }
                Job::Look(None) => {}
            }
        }
    }

    /// Tries once, and again until it is done or `patience` is over. An edit that was made by an
    /// attempt whose end was not seen is found in the window by the next.
    async fn persist(
        &mut self,
        proposals: &[Proposal],
        patience: Duration,
    ) -> Result<Answers, StoreError> {
        let mut last = StoreError::Unavailable("the database does not answer".into());
        let again = !patience.is_zero();
        let limit = if again {
            patience
        } else {
            self.options.connect_timeout
        };
        let attempts = self.attempts(proposals, again, &mut last);
        match timeout(limit, attempts).await {
            Ok(done) => done,
            Err(_) => {
                // Whatever was under way is not to be waited for by the next.
                self.link = None;
                tracing::warn!(error = %last, "the catalog's database cannot be reached");
                Err(last)
            }
        }
    }

    async fn attempts(
        &mut self,
        proposals: &[Proposal],
        again: bool,
        last: &mut StoreError,
    ) -> Result<Answers, StoreError> {
        let mut pause = PAUSE_MIN;
        loop {
            match self.attempt(proposals).await {
                Err(StoreError::Unavailable(why)) if again => *last = StoreError::Unavailable(why),
                other => return other,
            }
            sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    async fn attempt(&mut self, proposals: &[Proposal]) -> Result<Answers, StoreError> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => self.connect().await?,
        };
        let answers = if proposals.is_empty() {
            self.look(&mut link).await.map(|()| Answers::new())
        } else {
            self.commit(&mut link, proposals).await
        }?;
        // Only one that has done all it was asked is used again.
        self.link = Some(link);
        Ok(answers)
    }

    async fn connect(&self) -> Result<Link, StoreError> {
        let session = self.connector.connect().await?;
        let statements = Statements::prepare(&session.client).await?;
        Ok(Link {
            session,
            statements,
        })
    }

    async fn look(&self, link: &mut Link) -> Result<(), StoreError> {
        let view = self.view.borrow().clone();
        let client = &mut link.session.client;
        let followed = match rows::follow(client, &link.statements, &view).await? {
            Some(followed) => followed,
            None => rows::load(client, self.options.window).await?,
        };
        self.publish(followed);
        Ok(())
    }

    async fn commit(&self, link: &mut Link, proposals: &[Proposal]) -> Result<Answers, StoreError> {
        let lost = |error| unavailable(&error);
        let (client, statements) = (&mut link.session.client, &link.statements);
        loop {
            // Each statement is to see what was committed before it, whatever the database's default
            // is: what comes after the lock sees all that was done under it.
            let transaction = client.build_transaction();
            let transaction = transaction.isolation_level(IsolationLevel::ReadCommitted);
            let transaction = transaction.start().await.map_err(lost)?;
            rows::lock(&transaction, statements).await?;
            let view = self.view.borrow().clone();
            let Some(followed) = rows::follow(&transaction, statements, &view).await? else {
                transaction.rollback().await.map_err(lost)?;
                let loaded = rows::load(client, self.options.window).await?;
                self.publish(loaded);
                continue;
            };
            let settled = followed.settle(proposals);
            if settled.changes.is_empty() {
                transaction.rollback().await.map_err(lost)?;
            } else {
                let written = rows::write(&transaction, statements, &settled).await;
                written.map_err(lost)?;
                transaction.commit().await.map_err(lost)?;
            }
            self.publish(settled.view);
            return Ok(settled.answers);
        }
    }

    /// Before anybody is told: what they were told of is what they find.
    fn publish(&self, view: View) {
        self.view.send_if_modified(|known| {
            let is_news = known.position() != view.position();
            *known = view;
            is_news
        });
    }
}
