//! Writing large batches on blocking threads, a few shards of a device at a time: the copy into the page
//! cache takes milliseconds, and longer where the kernel makes writers wait for the device. Everybody on
//! the core would wait for that; so only those who write to the same shard do.

use crate::owner::Owner;
use crate::shard::{Aside, Shard};
use std::rc::Rc;
use std::sync::Arc;

impl Owner {
    /// Has the shard's large batch written.
    pub(crate) fn write_aside(self: &Rc<Self>, shard: &Rc<Shard>) {
        let Some(Aside { writing, rest }) = shard.take_aside() else {
            return;
        };
        let earlier = shard.duties.writing.replace(true);
        assert!(
            !earlier,
            "a shard takes nothing while a batch of it is written"
        );
        self.metrics().writes_aside.increment();
        let (owner, shard) = (Rc::clone(self), Rc::clone(shard));
        let suspect = Arc::clone(shard.suspect());
        let work = suspect.doing(async move {
            let device = shard.unflushed.device().expect("an open log lies on one");
            let written = device.large_writes.hold(writing.aside()).await;
            shard.duties.writing.set(false);
            let is_closing = owner.is_closing();
            let effects = shard.written_aside(written, rest, is_closing, &owner.writer());
            owner.apply(&shard, effects);
        });
        self.tasks().spawn("large batches", work);
    }
}
