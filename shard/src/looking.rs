//! A core's looks at what is free on the file system of its logs: off the core, after some bytes
//! were appended, and once in a while as long as it is full. Nobody looks while nothing is appended.

use crate::disk::Free;
use crate::owner::Owner;
use crate::runtime::{blocking, sleep};
use crate::space::Change;
use felix_core::Monotonic;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

/// How often somebody looks whether a full disk has space again.
const PAUSE: Duration = Duration::from_millis(500);

impl Owner {
    /// Has somebody look, where that is due.
    pub(crate) fn watch_space(self: &Rc<Self>, now: Monotonic) {
        if self.space().is_due(now) {
            self.look(Duration::ZERO);
        }
    }

    /// The disk took no more of one log. Whether others are refused a look at what is free says: a
    /// quota may be used up, or a file system that only this log lies on.
    pub(crate) fn disk_refused(self: &Rc<Self>) {
        let now = self.clock().monotonic();
        if !self.space().is_full()
            && let Some(left_out) = self.metrics().space_lines.admit(now)
        {
            let reason = self.space().refusal();
            let left_out = (left_out > 0).then_some(left_out);
            tracing::error!(%reason, left_out, "the disk has no space for a log");
        }
        self.look(Duration::ZERO);
    }

    /// The reserve is given up, or what was acknowledged lacks space to become durable. Appends are
    /// refused until a look says that there is space.
    pub(crate) fn space_is_gone(self: &Rc<Self>) {
        if self.space().refused() {
            self.tell_full();
        }
        self.look(PAUSE);
    }

    /// Has somebody look, after a pause, if nobody does.
    pub(crate) fn look(self: &Rc<Self>, first_pause: Duration) {
        if self.is_closing() || !self.space().begin_watch() {
            return;
        }
        let owner = Rc::clone(self);
        self.tasks().spawn("space", async move {
            owner.look_until_free(first_pause).await;
            owner.space().end_watch();
        });
    }

    async fn look_until_free(&self, first_pause: Duration) {
        let mut rest = first_pause;
        loop {
            let stop = self.closed().until(|| self.is_closing());
            if !rest.is_zero()
                && let Either::Left(_) = select(pin!(stop), pin!(sleep(rest))).await
            {
                return;
            }
            self.space().begin_look();
            let free = self.free().await;
            match self.space().looked(self.clock().monotonic(), free) {
                Some(Change::Full) => self.tell_full(),
                Some(Change::Free) => self.has_space_again().await,
                None => {}
            }
            if !self.space().is_full() {
                return;
            }
            rest = PAUSE;
        }
    }

    /// What the system says; `None` where it does not, or nobody cares.
    pub(crate) async fn free(&self) -> Option<Free> {
        let directory = self.config.space.as_ref()?.directory.clone();
        match blocking(move || Free::of(&directory)).await {
            Ok(free) => Some(free),
            Err(error) => {
                if self
                    .metrics()
                    .space_lines
                    .admit(self.clock().monotonic())
                    .is_some()
                {
                    tracing::warn!(%error, "what is free on the disk cannot be told");
                }
                None
            }
        }
    }

    fn tell_full(&self) {
        let now = self.clock().monotonic();
        if let Some(left_out) = self.metrics().space_lines.admit(now) {
            let reason = self.space().refusal();
            let left_out = (left_out > 0).then_some(left_out);
            tracing::error!(%reason, left_out, "appends are refused");
        }
    }

    async fn has_space_again(&self) {
        let now = self.clock().monotonic();
        if let Some(left_out) = self.metrics().space_lines.admit(now) {
            let free_bytes = self.space().free_bytes();
            let left_out = (left_out > 0).then_some(left_out);
            tracing::info!(
                free_bytes,
                left_out,
                "the disk has space again, appends go on"
            );
        }
        self.make_reserve().await;
    }

    /// Puts the reserve back, where it was given up.
    async fn make_reserve(&self) {
        let Some(space) = &self.config.space else {
            return;
        };
        let (reserve, least) = (space.reserve(), space.free_bytes_min);
        match blocking(move || reserve.make(least)).await {
            Ok(true) => tracing::info!("the reserve is there again"),
            Ok(false) => {}
            // The next time that there is space again it is tried again.
            Err(error) => tracing::warn!(%error, "there is no reserve for a full disk"),
        }
    }

    /// Gives the reserve up, for what has to be written though the disk is full. Whether it was
    /// there.
    pub(crate) async fn give_up_reserve(&self) -> bool {
        let Some(space) = &self.config.space else {
            return false;
        };
        let reserve = space.reserve();
        match blocking(move || reserve.give_up()).await {
            Ok(given_up) => {
                if given_up {
                    tracing::warn!(
                        "the disk is full: the reserve is given up for the tables of the logs"
                    );
                }
                given_up
            }
            Err(error) => {
                tracing::error!(%error, "the reserve cannot be given up");
                false
            }
        }
    }
}
