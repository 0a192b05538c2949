//! Writing large batches on blocking threads, a few shards of a device at a time: the copy into the page
//! cache takes milliseconds, and longer where the kernel makes writers wait for the device. Everybody on
//! the core would wait for that; so only those who write to the same shard do.

use crate::log::{Writing, Written};
use crate::owner::Owner;
use crate::runtime;
use crate::shard::{Aside, Shard, Unwritten};
use felix_core::{Monotonic, ShardError};
use futures_util::future::{Either, pending, select};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

impl Owner {
    /// Has the shard's large batch written.
    pub(crate) fn write_aside(self: &Rc<Self>, shard: &Rc<Shard>) {
        let Some(Aside { writing, rest }) = shard.take_aside() else {
            return;
        };
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        let suspect = Arc::clone(shard.suspect());
        let work = suspect.doing(async move {
            let written = owner.write_in_line(&shard, writing, &rest).await;
            let has_begun = written.is_ok();
            let effects = match written {
                Ok(written) if written.is_whole() && owner.is_closing() => {
                    // The flusher may have ended: nobody would commit it.
                    let error = match written.take_back().await {
                        Ok(()) => ShardError::ShuttingDown,
                        Err(error) => ShardError::Storage(error.to_string()),
                    };
                    shard.unwritten(rest, error)
                }
                Ok(written) => shard.written_aside(written, rest, &owner.writer()),
                Err(error) => shard.unwritten(rest, error),
            };
            if has_begun {
                shard.duties.writing.set(false);
            }
            owner.apply(&shard, effects);
        });
        self.tasks().spawn("large batches", work);
    }

    /// Waits for a place on the device, and writes; why it did not, if its writing has not begun when the
    /// core closes, at its deadline, or when its log is not open any more.
    async fn write_in_line(
        &self,
        shard: &Shard,
        writing: Writing,
        rest: &Unwritten,
    ) -> Result<Written, ShardError> {
        let device = shard.unflushed.device().expect("an open log lies on one");
        let has_begun = Cell::new(false);
        let work = async {
            if self.is_closing() || !shard.awaits(rest) {
                return Err(ShardError::ShuttingDown);
            }
            has_begun.set(true);
            let earlier = shard.duties.writing.replace(true);
            assert!(
                !earlier,
                "a shard takes nothing while a batch of it is written"
            );
            self.metrics().writes_aside.increment();
            Ok(writing.aside().await)
        };
        let in_line = pin!(device.large_writes.hold(work));
        let gives_up = pin!(self.given_up(rest.deadline()));
        match select(in_line, gives_up).await {
            Either::Left((written, _)) => written,
            Either::Right((_, in_line)) if has_begun.get() => in_line.await,
            Either::Right((error, _)) => {
                if matches!(error, ShardError::NoRoomInTime) {
                    self.metrics().expired_appends.increment();
                }
                Err(error)
            }
        }
    }

    /// Resolves when the core closes, or at the deadline.
    async fn given_up(&self, deadline: Option<Monotonic>) -> ShardError {
        let closed = pin!(self.closed().until(|| self.is_closing()));
        let late = pin!(async {
            match deadline {
                Some(deadline) => {
                    runtime::sleep(deadline.until(self.clock().monotonic())).await;
                }
                None => pending().await,
            }
        });
        match select(closed, late).await {
            Either::Left(_) => ShardError::ShuttingDown,
            Either::Right(_) => ShardError::NoRoomInTime,
        }
    }
}
