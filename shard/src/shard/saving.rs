//! Noting the generation of an opening before the first batch.

use super::{Effects, Phase, Shard, byte_count};
use crate::log::{LogError, Saving};
use crate::metrics::CoreMetrics;
use crate::settling::Owed;
use crate::shard::Repeats;
use felix_core::{Generation, ShardError};
use std::collections::VecDeque;

impl Shard {
    /// The generation of its last opening since the broker started; 0: there was none.
    pub(crate) fn last_generation(&self) -> Generation {
        self.generation.get()
    }

    /// The table to be written; see [`crate::log::Log::saving`].
    pub(crate) fn saving(&self) -> Option<Saving> {
        self.phase.borrow().open().ok()?.log.saving()
    }

    /// Takes it back. What waits for it has room now; where the disk refuses, it is refused, with
    /// `full` where there is no space.
    pub(crate) fn saved(
        &self,
        result: Result<(), LogError>,
        full: ShardError,
        metrics: &CoreMetrics,
    ) -> Effects {
        let mut phase = self.phase.borrow_mut();
        let Phase::Open(open) = &mut *phase else {
            return Effects::default();
        };
        match open.log.saved(result) {
            Ok(()) => {
                // Deadlines are for room: those that are placed now have kept theirs.
                let room = self.has_room_for_parked(open);
                let deadline = open.first_deadline().filter(|_| !room);
                Effects {
                    room,
                    deadline,
                    ..Effects::default()
                }
            }
            Err(error) if error.is_refusal() => {
                let is_full = error.is_full();
                let error = if is_full {
                    full
                } else {
                    ShardError::Storage(error.to_string())
                };
                let parked = std::mem::take(&mut open.parked);
                metrics.refused_appends.add(byte_count(parked.len()));
                self.owed.borrow_mut().push_back(Owed {
                    waiting: VecDeque::new(),
                    mark: open.mark,
                    repeats: Repeats::default(),
                    parked,
                    error,
                });
                Effects {
                    settled: true,
                    full: is_full,
                    ..Effects::default()
                }
            }
            Err(error) => {
                drop(phase);
                self.fail(error.into())
            }
        }
    }
}
