//! The end of a core: what is not placed is refused, what is written is flushed.

use super::Owner;
use crate::log::LogError;
use felix_core::ShardId;
use futures_util::{StreamExt, stream};
use std::rc::Rc;
use std::sync::Arc;

impl Owner {
    /// Takes nothing more: what is not placed is refused, whoever watches is told.
    pub(crate) fn begin_close(self: &Rc<Self>) {
        self.closing.set(true);
        self.closed.notify();
        for shard in self.all() {
            let effects = shard.refuse_parked();
            self.apply(&shard, effects);
        }
        self.sleepers.wake_all();
        let watched = self.watches.borrow().shards();
        for shard in watched {
            self.tell_watches(shard);
        }
        self.flusher.stop();
        self.keeper.stop();
    }

    /// Closes the logs, once the flusher has ended.
    pub(crate) async fn close_logs(&self) -> Vec<(ShardId, LogError)> {
        self.opened().await;
        self.tasks.ended().await;
        if self.space.is_full() {
            self.give_up_reserve().await;
        }
        let logs = self
            .all()
            .into_iter()
            .filter_map(|shard| Some((shard.close()?, shard)));
        stream::iter(logs)
            .map(|(log, shard)| async move {
                let closing = Arc::clone(shard.suspect()).doing(Box::pin(log.close()));
                closing.await.err().map(|error| (shard.id(), error))
            })
            .buffer_unordered(self.devices().flushes())
            .filter_map(|failed| async { failed })
            .collect()
            .await
    }
}
