//! Opening the logs of the shards that a core owns.

use crate::event::{Event, step_aside};
use crate::log::{self, Log, LogError, OpenReason, Opening, Recovery};
use crate::owner::Owner;
use crate::shard::{Failure, Shard};
use crate::spec::ShardSpec;
use felix_core::Generation;
use felix_core::limits::SHARDS_OPENING_MAX;
use futures_util::{StreamExt, stream};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

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
        self.tasks().spawn("opening", async move {
            stream::iter(own)
                .map(|shard| {
                    let suspect = Arc::clone(shard.suspect());
                    let opening = Box::pin(suspect.doing(owner.open_shard(shard)));
                    owner.reopenings.places.hold(opening)
                })
                // With those that have given up their places.
                .buffer_unordered(2 * SHARDS_OPENING_MAX)
                .for_each(|()| async {})
                .await;
        });
    }

    async fn open_shard(self: &Rc<Self>, shard: Rc<Shard>) {
        if !self.is_closing() {
            match self.open_log(&shard).await {
                Ok(log) => {
                    self.take_log(&shard, log);
                    self.look_after_opened(&shard);
                    while self.forget_producers() {
                        step_aside().await;
                    }
                    self.announce(&shard);
                }
                Err(failure) => {
                    let effects = shard.fail(failure);
                    self.apply(&shard, effects);
                }
            }
        }
        self.opening.ended();
    }

    /// The shard has its log, for the first time or again.
    pub(crate) fn take_log(&self, shard: &Shard, log: Log) {
        let device = self.devices().get(log.device());
        shard.opened(log, self.producers().share(shard.id()), device);
    }

    /// Opens the shard's log, for the first time or again.
    pub(crate) async fn open_log(&self, shard: &Shard) -> Result<Log, Failure> {
        let spec = shard.spec();
        if let Some(failure) = lost(shard) {
            return Err(failure);
        }
        let opening = Opening {
            reason: OpenReason::Restart,
            generation_floor: spec.generation_floor.max(shard.last_generation()),
            is_floor_noted: spec.is_floor_noted && shard.last_generation() == Generation::default(),
            now: self.clock().wall(),
            verify: self.config.verify_on_open,
            failed: shard.is_in_doubt(),
            kept_free_bytes: self.space().kept_free_bytes(),
        };
        let begun = self.clock().monotonic();
        let opened = self.open_with_reserve(spec, opening);
        let opened = if opening.failed || log::is_failed(&spec.directory) {
            // What it has to write again takes space that others shall not count on meanwhile.
            self.reopenings.rewrites.hold(opened).await
        } else {
            opened.await
        };
        let metrics = self.metrics();
        metrics.recovery_us.record(begun, self.clock().monotonic());
        let (log, recovery) = opened?;
        metrics.recovery_cut_bytes.add(recovery.cut_bytes);
        let rebuilt = u64::from(recovery.rebuilt_indexes);
        metrics.recovery_rebuilt_indexes.add(rebuilt);
        metrics.abandoned_rolls.add(recovery.abandoned_rolls.into());
        if recovery.cut_bytes > 0 {
            // Expected after a kill or a power loss; whoever sees it without one should know.
            let bytes = recovery.cut_bytes;
            tracing::warn!(shard = spec.name, bytes, end = %log.end(), "cut off what was not whole");
        }
        tracing::debug!(shard = spec.name, ?recovery, "recovered");
        Ok(log)
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

/// Why the shard's log counts as lost, if it does.
fn lost(shard: &Shard) -> Option<Failure> {
    let was_open = shard.was_open();
    let reason = if was_open {
        // Nothing may be made in its place, whoever made it.
        shard.spec().lost_since_open()
    } else {
        shard.spec().lost()
    };
    reason.map(|reason| Failure {
        reason,
        // A disk that went away while it was in use may come back in the same way.
        may_pass: was_open,
        leaves_doubt: false,
    })
}
