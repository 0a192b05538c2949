//! Having the kernel write what shards have not flushed, before their flush: off the core, a few
//! shards at a time. Nobody waits for it.

use crate::owner::Owner;
use crate::shard::Shard;
use std::rc::Rc;
use std::sync::Arc;

impl Owner {
    /// Has the kernel begin to write what the shard has not flushed, if nobody is at it.
    pub(crate) fn send_ahead(self: &Rc<Self>, shard: &Rc<Shard>) {
        if self.is_closing() || shard.duties.sending.replace(true) {
            return;
        }
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        let suspect = Arc::clone(shard.suspect());
        let sending = suspect.doing(async move {
            let permit = owner.write_backs().permit().await;
            // More may have come meanwhile: it goes with the rest.
            while let Some(write_back) = shard.begin_write_back() {
                owner.metrics().write_backs.increment();
                write_back.run().await;
            }
            drop(permit);
            shard.duties.sending.set(false);
        });
        self.tasks().spawn("write-back", sending);
    }
}
