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
            if let Some(device) = shard.unflushed.device() {
                // Each part in its own turn: one that is written to all the time leaves others theirs.
                while device.write_backs.hold(owner.send_part(&shard)).await {}
            }
            shard.duties.sending.set(false);
        });
        self.tasks().spawn("write-back", sending);
    }

    /// Has the kernel write what there is by now. Whether there was anything.
    async fn send_part(&self, shard: &Shard) -> bool {
        let Some(write_back) = shard.begin_write_back() else {
            return false;
        };
        self.metrics().write_backs.increment();
        write_back.run().await;
        true
    }
}
