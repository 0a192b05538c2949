//! Partitions that one request names more than once: each costs as much as the first, and none has
//! a use.

use std::collections::HashSet;

/// Those of `named` that come more than once. All mentions of such a one are refused.
pub(super) fn repeated<'a>(
    named: impl IntoIterator<Item = (&'a str, i32)>,
) -> HashSet<(&'a str, i32)> {
    let mut seen = HashSet::new();
    let mut repeated = HashSet::new();
    for partition in named {
        if !seen.insert(partition) {
            repeated.insert(partition);
        }
    }
    repeated
}
