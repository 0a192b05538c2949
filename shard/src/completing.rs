//! Completing a batch whose first records are in the log: what is left is cut out of it beside the
//! core, since that is decompressing and compressing.

use crate::owner::Owner;
use crate::shard::{Cut, Shard};
use crate::suspect::carry;
use felix_core::{ShardError, blocking};
use std::rc::Rc;

pub(crate) async fn complete(owner: Rc<Owner>, shard: Rc<Shard>, cut: Cut) {
    let Cut {
        batch,
        present,
        rest,
    } = cut;
    let cutting = carry(move || batch.without_first(present));
    let left = blocking::run(owner.heavy(), cutting).await;
    if owner.is_closing() {
        // The flusher may have ended: nobody would commit it.
        rest.refuse(ShardError::ShuttingDown);
        return;
    }
    let effects = shard.complete(rest, left, &owner.writer());
    owner.apply(&shard, effects);
}
