//! Opening the logs of the shards that a core owns.

use crate::disk;
use crate::event::{Event, step_aside};
use crate::log::{self, Log, LogError, OpenReason, Opening, Recovery};
use crate::owner::Owner;
use crate::runtime;
use crate::shard::{Failure, Shard};
use crate::spec::ShardSpec;
use felix_core::Generation;
use futures_util::future::{Either, select};
use std::cell::Cell;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long an opening may go on once the core closes.
const CLOSING_PATIENCE: Duration = Duration::from_secs(1);

/// Shards that are being opened for the first time.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    under_way: Cell<usize>,
    ended: Event,
}

impl Openings {
    fn begun(&self, count: usize) {
        self.under_way.set(self.under_way.get() + count);
    }

    fn ended(&self) {
        self.under_way.set(self.under_way.get() - 1);
        self.ended.notify();
    }

    async fn all(&self) {
        self.ended.until(|| self.under_way.get() == 0).await;
    }
}

impl Owner {
    /// Opens those of `specs` that this core owns, a few at a time; the others are expected to be
    /// opened by their owners. Returns at once.
    pub(crate) fn open(self: &Rc<Self>, specs: Vec<ShardSpec>, cores: u16) {
        let mut own = Vec::new();
        for spec in specs {
            self.table().expect(spec.id);
            if felix_core::placement::owner(spec.id, cores) == self.core() {
                let shard = Rc::new(Shard::opening(spec, self.config.log.segment_bytes_max));
                let earlier = self
                    .shards
                    .borrow_mut()
                    .insert(shard.id(), Rc::clone(&shard));
                assert!(earlier.is_none(), "a shard is opened once");
                own.push(shard);
            }
        }
        self.opening.begun(own.len());
        self.look(Duration::ZERO);
        let owner = Rc::clone(self);
        self.tasks().spawn("openings", async move {
            // A task for each: those that wait for something hold up no others.
            for shard in own {
                let suspect = Arc::clone(shard.suspect());
                let opening = suspect.doing(Rc::clone(&owner).open_shard(shard));
                owner.tasks().spawn("opening", opening);
                runtime::breathe().await;
            }
        });
    }

    async fn open_shard(self: Rc<Self>, shard: Rc<Shard>) {
        let opening = Box::pin(self.open_log(&shard));
        match self.unless_closing(opening).await {
            Some(Ok(log)) => {
                self.take_log(&shard, log);
                self.look_after_opened(&shard);
                while self.forget_producers() {
                    step_aside().await;
                }
                self.announce(&shard);
            }
            Some(Err(failure)) => {
                let effects = shard.fail(failure);
                self.apply(&shard, effects);
            }
            None => {}
        }
        self.opening.ended();
    }

    /// What an opening comes to; `None`: the core closes. One that is under way then may go on for a
    /// little while, and is given up at any point, as by a crash: its device may hang.
    pub(crate) async fn unless_closing<T>(&self, opening: impl Future<Output = T>) -> Option<T> {
        if self.is_closing() {
            return None;
        }
        let closed = pin!(async {
            self.closed().until(|| self.is_closing()).await;
            runtime::sleep(CLOSING_PATIENCE).await;
        });
        match select(pin!(opening), closed).await {
            Either::Left((opened, _)) => Some(opened),
            Either::Right(((), _)) => None,
        }
    }

    /// The shard has its log, for the first time or again.
    pub(crate) fn take_log(&self, shard: &Shard, log: Log) {
        let device = self.devices().get(log.device());
        shard.opened(log, self.producers().share(shard.id()), device);
    }

    /// Opens the shard's log, for the first time or again.
    pub(crate) async fn open_log(&self, shard: &Shard) -> Result<Log, Failure> {
        let spec = shard.spec();
        let places = &self.reopenings.places;
        let was_failed = places.hold(self.look_for_log(shard)).await?;
        let failed = shard.is_in_doubt();
        let opened = async {
            let begun = self.clock().monotonic();
            let opening = Opening {
                reason: OpenReason::Restart,
                generation_floor: spec.generation_floor.max(shard.last_generation()),
                is_floor_noted: spec.is_floor_noted
                    && shard.last_generation() == Generation::default(),
                now: self.clock().wall(),
                verify: self.config.verify_on_open,
                failed,
                kept_free_bytes: self.space().kept_free_bytes(),
            };
            let opened = self.open_with_reserve(spec, opening).await;
            let now = self.clock().monotonic();
            self.metrics().recovery_us.record(begun, now);
            opened
        };
        // What it has to write again takes space that others shall not count on meanwhile.
        let places = if failed || was_failed {
            &self.reopenings.rewrites
        } else {
            places
        };
        let metrics = self.metrics();
        let (log, recovery) = places.hold(opened).await?;
        metrics.recovery_cut_bytes.add(recovery.cut_bytes);
        let rebuilt = u64::from(recovery.rebuilt_indexes);
        metrics.recovery_rebuilt_indexes.add(rebuilt);
        metrics.abandoned_rolls.add(recovery.abandoned_rolls.into());
        if recovery.cut_bytes > 0 {
            // Expected after a kill, a power loss or a failed write; whoever sees it without one
            // should know.
            let bytes = recovery.cut_bytes;
            tracing::warn!(shard = spec.name, bytes, end = %log.end(), "cut off what was not whole");
        }
        tracing::debug!(shard = spec.name, ?recovery, "recovered");
        Ok(log)
    }

    /// Whether the disk failed the shard's log before, unless the log counts as lost.
    async fn look_for_log(&self, shard: &Shard) -> Result<bool, Failure> {
        let was_open = shard.was_open();
        let spec = shard.spec().clone();
        let look = move |directory: &Path| {
            let lost = if was_open {
                // Nothing may be made in its place, whoever made it.
                spec.lost_since_open()
            } else {
                spec.lost()
            };
            match lost {
                Some(reason) => Err(Failure {
                    reason,
                    // A disk that went away while it was in use may come back in the same way.
                    may_pass: was_open,
                    leaves_doubt: false,
                }),
                None => Ok(log::is_failed(directory)),
            }
        };
        disk::ask(&shard.spec().directory, look).await
    }

    /// Opens a log; where there is no space for its tables, once more without the reserve.
    async fn open_with_reserve(
        &self,
        spec: &ShardSpec,
        opening: Opening,
    ) -> Result<(Log, Recovery), LogError> {
        let open = || Box::pin(Log::open(&spec.directory, self.config.log, opening));
        match open().await {
            Err(error) if error.is_full() => {
                // Another shard may have given it up while this one was opened.
                self.give_up_reserve().await;
                open().await
            }
            opened => opened,
        }
    }

    /// Resolves when every shard of this core is open or has failed to open.
    pub(crate) async fn opened(&self) {
        self.opening.all().await;
    }
}
