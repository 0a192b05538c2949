//! Why a shard serves nothing, and what became of attempts to open its log again.

use super::{Phase, Shard};
use crate::log::{FailureNote, Log, LogError};
use felix_core::Offset;

/// Why a shard serves nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// A sentence that names directory, file and position.
    pub(crate) reason: String,
    /// Opening the log again may help. If not, the broker has to be started again once somebody
    /// has done something about it.
    pub(crate) may_pass: bool,
    /// The page cache may say more than the device has, and may not be believed.
    pub(crate) leaves_doubt: bool,
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self::from(&error)
    }
}

impl From<&LogError> for Failure {
    fn from(error: &LogError) -> Self {
        Self {
            reason: error.to_string(),
            may_pass: error.may_pass(),
            leaves_doubt: error.leaves_doubt(),
        }
    }
}

/// A shard that serves nothing, for now or until the broker starts again.
#[derive(Debug)]
pub(super) struct Failed {
    failure: Failure,
    /// Attempts to open the log again, and why the last of them failed.
    attempts: u32,
    latest: Option<String>,
    /// Kept until a last flush has made durable what was acknowledged before a write failed.
    pub(super) log: Option<Log>,
    /// Bytes of a log that is not kept which no flush made durable.
    lost_bytes: u64,
    /// The high watermark, if the shard was open before: so its log is there.
    mark: Option<Offset>,
    /// Bytes written in all openings so far.
    pub(super) written: u64,
}

impl Failed {
    /// A log is only kept for a flush that would be believed. `written`: since the first opening.
    pub(super) fn new(failure: Failure, open: Option<(Log, Offset)>, written: u64) -> Self {
        let (log, mark) = open.unzip();
        let mut failed = Self {
            failure,
            attempts: 0,
            latest: None,
            mark,
            log,
            lost_bytes: 0,
            written,
        };
        failed.settle();
        failed
    }

    /// Why it failed: the first reason is the one that explains.
    pub(super) fn reason(&self) -> &str {
        &self.failure.reason
    }

    /// Whether a last flush is ahead.
    pub(super) fn is_dirty(&self) -> bool {
        self.log.is_some()
    }

    /// Bytes that the last flush is to make durable. What is lost waits for no flush.
    pub(super) fn last_flush_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::dirty_bytes)
    }

    /// Bytes written and not known to be durable.
    pub(super) fn dirty_bytes(&self) -> u64 {
        self.lost_bytes + self.last_flush_bytes()
    }

    /// Lets go of a log that has nothing to flush, or of which no flush proves anything.
    pub(super) fn settle(&mut self) {
        if !self.log.as_ref().is_some_and(Log::is_dirty) {
            self.let_go();
        }
    }

    /// Lets go of its log.
    pub(super) fn let_go(&mut self) {
        if let Some(log) = self.log.take() {
            self.lost_bytes = log.dirty_bytes();
        }
    }

    fn told(&self) -> String {
        let reason = &self.failure.reason;
        match &self.latest {
            None => reason.clone(),
            Some(latest) if latest == reason => {
                format!("{reason} (opened again in vain, {} times)", self.attempts)
            }
            Some(latest) => format!(
                "{reason} (opened again in vain, {} times; the last time: {latest})",
                self.attempts
            ),
        }
    }
}

impl Shard {
    /// Why it serves nothing, if it failed, for people.
    pub(crate) fn failure(&self) -> Option<String> {
        match &*self.phase.borrow() {
            Phase::Failed(failed) => Some(failed.told()),
            Phase::Opening | Phase::Open(_) | Phase::Closed => None,
        }
    }

    /// What it failed of first, if it failed.
    pub(crate) fn first_failure(&self) -> Option<String> {
        match &*self.phase.borrow() {
            Phase::Failed(failed) => Some(failed.reason().to_owned()),
            Phase::Opening | Phase::Open(_) | Phase::Closed => None,
        }
    }

    /// Whether it failed at something that opening its log again may mend.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Failed(failed) if failed.failure.may_pass)
    }

    /// Whether what its disk failed at is still to be made up for. Kept here, too, because the disk
    /// may not even have taken the file that says so.
    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Failed(failed) if failed.failure.leaves_doubt)
    }

    /// Whether its log was open since the broker started.
    pub(crate) fn was_open(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Failed(failed) if failed.mark.is_some())
    }

    /// The high watermark when it failed.
    pub(crate) fn failed_mark(&self) -> Option<Offset> {
        match &*self.phase.borrow() {
            Phase::Failed(failed) => failed.mark,
            Phase::Opening | Phase::Open(_) | Phase::Closed => None,
        }
    }

    /// Word of a failure of its log, to be left beside it; `None`: there is none, or it was taken.
    pub(crate) fn take_failure_note(&self) -> Option<FailureNote> {
        self.failure_note.take()
    }

    /// Whether it failed, and nothing is at work on its old log any more.
    pub(crate) fn is_let_go(&self) -> bool {
        let is_idle = !self.duties.is_at_the_log();
        is_idle && matches!(&*self.phase.borrow(), Phase::Failed(failed) if failed.log.is_none())
    }

    /// Its log could not be opened again. How many such attempts there were.
    pub(crate) fn failed_again(&self, failure: Failure) -> u32 {
        let mut phase = self.phase.borrow_mut();
        let Phase::Failed(failed) = &mut *phase else {
            unreachable!("only a shard that failed is opened again");
        };
        failed.attempts += 1;
        failed.latest = Some(failure.reason);
        failed.failure.may_pass = failure.may_pass;
        failed.failure.leaves_doubt |= failure.leaves_doubt;
        failed.attempts
    }
}
