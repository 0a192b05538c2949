//! Which shard a panic is to be blamed on: the one that this thread is at work for.

use crate::log;
use felix_core::Timestamp;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

thread_local! {
    static AT_WORK_FOR: Cell<Option<Arc<Suspect>>> = const { Cell::new(None) };
}

/// A shard, as somebody needs to know it who looks into a panic.
#[derive(PartialEq, Eq, Debug)]
pub struct Suspect {
    name: String,
    directory: PathBuf,
    /// Where its crashes are noted: by then nothing more is to be put together.
    note: PathBuf,
}

impl Suspect {
    /// The shard of that name, with its log in `directory`.
    pub(crate) fn new(name: &str, directory: &Path) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            directory: directory.to_owned(),
            note: log::crash_notes(directory),
        })
    }

    /// The shard that this thread is at work for, if it is.
    #[must_use]
    pub fn of_this_thread() -> Option<Arc<Self>> {
        // A thread that is on its way out works for nobody.
        let found = AT_WORK_FOR.try_with(|at_work| {
            let suspect = at_work.take();
            at_work.set(suspect.clone());
            suspect
        });
        found.ok().flatten()
    }

    /// `<tenant>/<namespace>.<stream>-<shard>`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its log is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Notes beside its log that it brings the process down at `now`; after some such notes within
    /// a while its log is not opened any more. For a process that is about to end: it may wait for
    /// the disk.
    ///
    /// # Errors
    /// The disk's own fault: this crash will not count.
    pub fn note_crash(&self, now: Timestamp) -> io::Result<()> {
        log::note_crash(&self.note, now)
    }

    /// Until the guard is dropped this thread is at work for it. Not to be kept over an await.
    pub(crate) fn enter(self: &Arc<Self>) -> AtWork {
        let before = AT_WORK_FOR.replace(Some(Arc::clone(self)));
        AtWork { before }
    }

    /// Does `work` for it.
    pub(crate) fn during<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let _at_work = self.enter();
        work()
    }

    /// Does `work` for it, turn by turn: others' turns lie in between.
    pub(crate) async fn doing<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| self.during(|| work.as_mut().poll(cx))).await
    }
}

/// Work that another thread is to do, for the shard that this one is at work for, if it is.
pub(crate) fn carry<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let suspect = Suspect::of_this_thread();
    move || match suspect {
        Some(suspect) => suspect.during(work),
        None => work(),
    }
}

/// A thread is at work for a shard. Within it the thread may be at work for another for a while.
#[derive(Debug)]
#[must_use]
pub(crate) struct AtWork {
    before: Option<Arc<Suspect>>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK_FOR.set(self.before.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::task::{Context, Poll, Waker};

    fn suspect(name: &str) -> Arc<Suspect> {
        Suspect::new(name, &Path::new("/data").join(name))
    }

    fn at_work_for() -> Option<String> {
        Some(Suspect::of_this_thread()?.name().to_owned())
    }

    #[test]
    fn the_innermost_shard_is_the_suspect_and_afterwards_the_one_before_it() {
        let (outer, inner) = (suspect("outer"), suspect("inner"));
        assert_eq!(at_work_for(), None);
        let at_work = outer.enter();
        assert_eq!(at_work_for().as_deref(), Some("outer"));
        assert_eq!(inner.during(at_work_for).as_deref(), Some("inner"));
        assert_eq!(
            at_work_for().as_deref(),
            Some("outer"),
            "asking changes nothing"
        );
        assert_eq!(at_work_for().as_deref(), Some("outer"));
        drop(at_work);
        assert_eq!(at_work_for(), None);
    }

    #[test]
    fn what_another_thread_does_for_a_shard_it_does_for_that_shard() {
        let carried = suspect("one").during(|| carry(at_work_for));
        let done = std::thread::spawn(move || (carried(), at_work_for()));
        assert_eq!(done.join().unwrap(), (Some("one".to_owned()), None));
        assert_eq!(carry(at_work_for)(), None);
    }

    #[test]
    fn a_task_is_at_work_for_its_shard_in_its_own_turns_only() {
        let turns = Cell::new(0);
        let task = suspect("one").doing(poll_fn(|_| {
            assert_eq!(at_work_for().as_deref(), Some("one"));
            turns.set(turns.get() + 1);
            if turns.get() == 3 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }));
        let mut task = pin!(task);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            assert!(task.as_mut().poll(&mut cx).is_pending());
            assert_eq!(at_work_for(), None);
        }
        assert_eq!(task.now_or_never(), Some(()));
        assert_eq!(turns.get(), 3);
    }
}
