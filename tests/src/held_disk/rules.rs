//! What is to happen to flushes and writes that ask for it, and the flushes held meanwhile.
#![expect(
    clippy::disallowed_types,
    reason = "the threads of the file system and of the test meet here; no core of a broker does"
)]

use super::backing::Open;
use fuser::{Errno, ReplyEmpty};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a request asks for, as far as rules care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    FileFlush,
    /// Of a file that was opened to be appended to.
    SpaceFlush,
    DirFlush,
    Write,
}

/// Which requests a rule is about, beside their paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wishes {
    Only(Wish),
    /// Of files, however they were opened.
    FileFlushes,
}

impl Wishes {
    fn have(self, wish: Wish) -> bool {
        match self {
            Self::Only(only) => wish == only,
            Self::FileFlushes => matches!(wish, Wish::FileFlush | Wish::SpaceFlush),
        }
    }
}

/// What a rule says of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Hold,
    Fail(Errno),
}

/// Which paths a rule is about.
pub(super) type Which = Box<dyn Fn(&Path) -> bool + Send>;

/// A flush that somebody waits for.
#[derive(Debug)]
pub(super) struct Flush {
    pub(super) path: PathBuf,
    pub(super) open: Arc<Open>,
    pub(super) data_only: bool,
    pub(super) reply: ReplyEmpty,
}

impl Flush {
    fn perform(self) {
        let file = self.open.file();
        let done = if self.data_only {
            file.sync_data()
        } else {
            file.sync_all()
        };
        match done {
            Ok(()) => self.reply.ok(),
            Err(error) => self.reply.error(error.into()),
        }
    }
}

/// The rules in force. The newest one that matches a request decides.
#[derive(Default)]
pub(super) struct Rules {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    rules: Vec<Rule>,
    rules_made: u64,
    /// Each with the number of the rule that holds it, oldest first.
    held: Vec<(u64, Flush)>,
}

struct Rule {
    number: u64,
    wishes: Wishes,
    which: Which,
    verdict: Verdict,
    /// Requests it has decided.
    hits: u64,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("Rules")
            .field("rules", &inner.rules.len())
            .field("held", &inner.paths(None))
            .finish()
    }
}

impl Inner {
    fn judge(&mut self, wish: Wish, path: &Path) -> Option<(u64, Verdict)> {
        let mut newest_first = self.rules.iter_mut().rev();
        let rule = newest_first.find(|rule| rule.wishes.have(wish) && (rule.which)(path))?;
        rule.hits += 1;
        Some((rule.number, rule.verdict))
    }

    /// Of one rule, or of all.
    fn paths(&self, number: Option<u64>) -> Vec<PathBuf> {
        let held = self.held.iter();
        let held = held.filter(|(holder, _)| number.is_none_or(|number| number == *holder));
        held.map(|(_, flush)| flush.path.clone()).collect()
    }

    fn hits(&self, number: u64) -> u64 {
        let rule = self.rules.iter().find(|rule| rule.number == number);
        rule.map_or(0, |rule| rule.hits)
    }

    fn take(&mut self, number: u64) -> Vec<Flush> {
        let (taken, left) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(holder, _)| *holder == number);
        self.held = left;
        taken.into_iter().map(|(_, flush)| flush).collect()
    }
}

impl Rules {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A predicate that panicked changed nothing, and whoever drops must get through.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a rule in force; its number.
    pub(super) fn add(&self, wishes: Wishes, which: Which, verdict: Verdict) -> u64 {
        let mut inner = self.lock();
        let number = inner.rules_made;
        inner.rules_made += 1;
        inner.rules.push(Rule {
            number,
            wishes,
            which,
            verdict,
            hits: 0,
        });
        number
    }

    fn remove(&self, number: u64) {
        self.lock().rules.retain(|rule| rule.number != number);
    }

    /// Performs the flush, or does with it what the rules say. Waits for nothing but the disk.
    pub(super) fn flush(&self, wish: Wish, flush: Flush) {
        let mut inner = self.lock();
        match inner.judge(wish, &flush.path) {
            None => {
                drop(inner);
                flush.perform();
            }
            Some((_, Verdict::Fail(error))) => {
                drop(inner);
                flush.reply.error(error);
            }
            Some((number, Verdict::Hold)) => inner.held.push((number, flush)),
        }
        self.changed.notify_all();
    }

    /// The error that a write must end with.
    pub(super) fn write_error(&self, path: &Path) -> Option<Errno> {
        let (_, verdict) = self.lock().judge(Wish::Write, path)?;
        self.changed.notify_all();
        match verdict {
            Verdict::Fail(error) => Some(error),
            Verdict::Hold => None,
        }
    }

    /// The paths of all flushes held, oldest first.
    pub(super) fn held(&self) -> Vec<PathBuf> {
        self.lock().paths(None)
    }

    /// Ends all rules, and the flushes held with an error.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.rules.clear();
        let held = std::mem::take(&mut inner.held);
        drop(inner);
        for (_, flush) in held {
            flush.reply.error(Errno::EIO);
        }
    }

    /// Waits until `enough`; what was then read, or else what there was at the end.
    fn wait<T>(
        &self,
        timeout: Duration,
        read: impl Fn(&Inner) -> T,
        enough: impl Fn(&T) -> bool,
    ) -> Result<T, T> {
        let waiting = |inner: &mut Inner| !enough(&read(inner));
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), timeout, waiting);
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let now = read(&inner);
        if enough(&now) { Ok(now) } else { Err(now) }
    }
}

/// Holds flushes back as long as it lives. When it is dropped, those it holds go on to the disk.
#[derive(Debug)]
pub struct Hold {
    rules: Arc<Rules>,
    number: u64,
}

impl Hold {
    pub(super) fn new(rules: &Arc<Rules>, wishes: Wishes, which: Which) -> Self {
        let number = rules.add(wishes, which, Verdict::Hold);
        let rules = Arc::clone(rules);
        Self { rules, number }
    }

    /// The paths of the flushes it holds now, oldest first.
    #[must_use]
    pub fn held(&self) -> Vec<PathBuf> {
        self.rules.lock().paths(Some(self.number))
    }

    /// Waits until it holds what `enough` looks for; the paths of all it holds then, oldest first.
    ///
    /// Panics after `timeout`.
    pub fn await_held(
        &self,
        timeout: Duration,
        enough: impl Fn(&[PathBuf]) -> bool,
    ) -> Vec<PathBuf> {
        let read = |inner: &Inner| inner.paths(Some(self.number));
        let waited = self.rules.wait(timeout, read, |paths| enough(paths));
        waited.unwrap_or_else(|held| panic!("not the flushes in {timeout:?}: held are {held:?}"))
    }

    /// Waits until it holds any flush; the path of the oldest.
    ///
    /// Panics after `timeout`.
    pub fn await_one(&self, timeout: Duration) -> PathBuf {
        let mut held = self.await_held(timeout, |held| !held.is_empty());
        held.swap_remove(0)
    }

    /// Lets the flushes it holds go on to the disk, and returns when they are done. It goes on
    /// holding those that come later.
    pub fn release(&self) {
        let held = self.rules.lock().take(self.number);
        held.into_iter().for_each(Flush::perform);
    }

    /// Ends the flushes it holds with EIO; nothing of them reached the disk. It goes on holding
    /// those that come later.
    pub fn fail(&self) {
        let held = self.rules.lock().take(self.number);
        for flush in held {
            flush.reply.error(Errno::EIO);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // In this order, so that none is held that nobody would release.
        self.rules.remove(self.number);
        self.release();
    }
}

/// Makes flushes or writes fail as long as it lives.
#[derive(Debug)]
pub struct Failing {
    rules: Arc<Rules>,
    number: u64,
}

impl Failing {
    pub(super) fn new(rules: &Arc<Rules>, wishes: Wishes, which: Which, error: Errno) -> Self {
        let number = rules.add(wishes, which, Verdict::Fail(error));
        let rules = Arc::clone(rules);
        Self { rules, number }
    }

    /// How many have failed by it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.rules.lock().hits(self.number)
    }

    /// Waits until `count` have failed by it.
    ///
    /// Panics after `timeout`.
    pub fn await_count(&self, count: u64, timeout: Duration) {
        let read = |inner: &Inner| inner.hits(self.number);
        let waited = self.rules.wait(timeout, read, |hits| *hits >= count);
        if let Err(hits) = waited {
            panic!("{hits} of {count} failed in {timeout:?}");
        }
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        self.rules.remove(self.number);
    }
}
