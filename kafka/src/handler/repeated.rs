//! Shards that one request names more than once, under whatever name: each mention costs as much as
//! the first, and none has a use. Clients look their answers up by partition, so that one answer
//! would stand for all.

use felix_core::ShardId;
use std::collections::HashSet;

/// Those of `named` that come more than once. All mentions of such a one are refused.
pub(super) fn repeated(named: impl IntoIterator<Item = ShardId>) -> HashSet<ShardId> {
    let mut seen = HashSet::new();
    let mut repeated = HashSet::new();
    for shard in named {
        if !seen.insert(shard) {
            repeated.insert(shard);
        }
    }
    repeated
}
