//! One core's copy of the states of all shards of the broker. A hint for its connections: the
//! owner's word counts.

use crate::event::Event;
use felix_core::ShardId;
use felix_core::shards::ShardState;
use std::cell::RefCell;
use std::collections::HashMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Table {
    states: RefCell<HashMap<ShardId, ShardState>>,
    changed: Event,
}

impl Table {
    /// A shard there will be. Keeps what the owner has said already.
    pub(crate) fn expect(&self, shard: ShardId) {
        self.states
            .borrow_mut()
            .entry(shard)
            .or_insert(ShardState::Opening);
    }

    /// The owner's word.
    pub(crate) fn put(&self, shard: ShardId, state: ShardState) {
        self.states.borrow_mut().insert(shard, state);
        self.changed.notify();
    }

    /// Resolves when no shard is known to be opening.
    pub(crate) async fn settled(&self) {
        self.changed
            .until(|| {
                !self
                    .states
                    .borrow()
                    .values()
                    .any(|state| *state == ShardState::Opening)
            })
            .await;
    }

    /// The state known here.
    pub(crate) fn state(&self, shard: ShardId) -> Option<ShardState> {
        self.states.borrow().get(&shard).copied()
    }
}
