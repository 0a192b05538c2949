//! A disk of a story that has no space, and what goes on all the same.

use super::story::{ROOT, Story};
use crate::disk::Reserve;
use crate::disk::memory::Faults;
use crate::{Router, runtime};
use felix_core::ShardError;
use std::path::Path;
use std::time::Duration;

/// Whoever looks for space does so more often, and a shard that did not open for the want of it has
/// been tried again by then.
const SPACE_IS_FOUND: Duration = Duration::from_secs(20);

impl Story {
    /// Makes the reserve, as a broker does at its start, for a disk of this life's size.
    pub(super) fn make_reserve(&self, faults: Option<Faults>) {
        let reserve = Reserve::of(Path::new(ROOT));
        reserve.give_up().expect("it is in memory");
        let capacity = faults.and_then(|faults| faults.capacity);
        if let (Some(_), Some(free_bytes_min)) = (capacity, self.rig.free_bytes_min) {
            // Where there is no space for it there is none.
            drop(reserve.make(free_bytes_min));
        }
    }

    /// What a client is told: on a disk that has no space and is well a shard that is open stays so.
    pub(super) fn failed(&self, index: usize, error: &ShardError) {
        let is_full = matches!(error, ShardError::DiskFull { .. });
        self.told.borrow_mut().full += u64::from(is_full);
        let has_failed = matches!(error, ShardError::Storage(_));
        let was_open = self.models[index].borrow().is_open();
        assert!(
            !(self.is_full_only.get() && was_open && has_failed),
            "shard {index}: {error}, though nothing but space was missing"
        );
    }

    /// There is space again: all shards are served, and appended to.
    pub(super) async fn has_space_again(&self, router: &Router) {
        self.simulation.disk().set_faults(Faults::default());
        self.say(|| "there is space".to_owned());
        runtime::sleep(SPACE_IS_FOUND).await;
        for index in 0..self.shards.len() {
            let acknowledged = || self.models[index].borrow().told().acknowledged;
            let before = acknowledged();
            // Some batches are larger than a small segment may be.
            for _ in 0..20 {
                if acknowledged() == before {
                    self.append_until(router, index, None).await.await;
                }
            }
            assert!(acknowledged() > before, "shard {index} takes nothing");
        }
    }
}
