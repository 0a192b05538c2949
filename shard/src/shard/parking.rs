//! Appends that wait for room, and what is written that others may have to wait for.

use super::{Effects, Entry, Open, Phase, Repeats, Shard, Writer, byte_count};
use crate::device::Room;
use crate::log::WriteBack;
use crate::metrics::CoreMetrics;
#[cfg(test)]
use crate::runtime::broken::{self, Broken};
use crate::settling::Owed;
use felix_core::{Durability, Monotonic, ShardError};
use std::collections::VecDeque;

impl Shard {
    /// Whether so many bytes may be written now.
    pub(super) fn room(&self, open: &Open, bytes: usize) -> Room {
        if !open.has_room(bytes) {
            return Room::OfShard;
        }
        match self.spec.durability {
            Durability::OnCommit => Room::Free,
            Durability::Periodic | Durability::None => self.unflushed.room(),
        }
    }

    /// The same for an append that has just come.
    pub(super) fn room_in_line(&self, open: &Open, bytes: usize) -> Room {
        match self.room(open, bytes) {
            Room::Free if self.spec.durability != Durability::OnCommit => {
                self.unflushed.room_in_line()
            }
            room => room,
        }
    }

    /// Whether there are parked appends, and room for the first. Where only the device has none for
    /// it, it stands in line from here on: nothing else would remember it.
    pub(super) fn has_room_for_parked(&self, open: &Open) -> bool {
        let Some(first) = open.parked.front() else {
            return false;
        };
        let room = self.room(open, first.batch.size());
        if room == Room::OfDevice {
            self.unflushed.wait(self.spec.id, false);
        }
        room == Room::Free
    }

    /// There is no room. Where that is for what is not flushed, of the device or of the shard alone,
    /// it is to be flushed at once. `first`: the shard has had its turn, and it was not enough.
    pub(super) fn wait(&self, room: Room, first: bool, effects: Effects) -> Effects {
        if room == Room::OfDevice {
            self.unflushed.wait(self.spec.id, first);
        }
        let awaits_commits = self.spec.durability == Durability::OnCommit;
        Effects {
            presses: !awaits_commits && self.unflushed.room() != Room::Free,
            ..effects
        }
    }

    /// So much of what it has written waits for a flush. That of an `on_commit` shard is bounded by
    /// what may await its commit.
    pub(super) fn note_unflushed(&self, bytes: u64) {
        if self.spec.durability != Durability::OnCommit {
            self.unflushed.update(bytes);
        }
    }

    /// A batch was written whose commit waits for no flush.
    pub(super) fn wrote(&self, open: &Open, bytes: usize, rolled: bool, now: Monotonic) -> Effects {
        let is_periodic = self.spec.durability == Durability::Periodic;
        #[cfg(test)]
        let is_periodic = is_periodic && !broken::is(Broken::PeriodicUnflushed);
        if is_periodic {
            self.duties.age.appended(now);
        }
        Effects {
            // Without a flush after each roll the indexes of full segments would stay in memory,
            // and the recovery point where it was at the opening.
            dirty: is_periodic || rolled,
            written: !is_periodic,
            presses: self.unflushed.wrote(byte_count(bytes)),
            sends: open.log.wants_write_back(),
            ..self.ahead(&open.log)
        }
    }

    /// What is to be written to the device before its flush.
    pub(crate) fn begin_write_back(&self) -> Option<WriteBack> {
        match &mut *self.phase.borrow_mut() {
            Phase::Open(open) => open.log.write_back(),
            Phase::Opening | Phase::Failed(_) | Phase::Closed => None,
        }
    }

    /// When the next parked append is to be refused.
    pub(crate) fn first_deadline(&self) -> Option<Monotonic> {
        self.phase.borrow().open().ok()?.first_deadline()
    }

    /// Refuses the parked appends whose deadline has come.
    pub(crate) fn refuse_expired(&self, now: Monotonic, metrics: &CoreMetrics) -> Effects {
        let Phase::Open(open) = &mut *self.phase.borrow_mut() else {
            return Effects::default();
        };
        if !open.log.is_saved() {
            return Effects::default();
        }
        let is_expired = |entry: &Entry| entry.deadline.is_some_and(|deadline| deadline <= now);
        let all = std::mem::take(&mut open.parked).into_iter();
        let (expired, left): (VecDeque<_>, VecDeque<_>) = all.partition(is_expired);
        open.parked = left;
        let settled = !expired.is_empty();
        metrics.expired_appends.add(byte_count(expired.len()));
        if settled {
            self.owed.borrow_mut().push_back(Owed {
                waiting: VecDeque::new(),
                mark: open.mark,
                repeats: Repeats::default(),
                parked: expired,
                error: ShardError::NoRoomInTime,
            });
        }
        Effects {
            settled,
            room: self.has_room_for_parked(open),
            ..Effects::default()
        }
    }
}

impl Open {
    /// When the next parked append is to be refused; `None` also while they wait for the generation
    /// to be noted, which is over soon and says nothing of room.
    pub(super) fn first_deadline(&self) -> Option<Monotonic> {
        let parked = self.parked.iter().filter(|_| self.log.is_saved());
        parked.filter_map(|entry| entry.deadline).min()
    }

    /// Keeps an append until there is room.
    pub(super) fn park(&mut self, entry: Entry, writer: &Writer<'_>) -> Effects {
        writer.metrics.parked_appends.increment();
        let deadline = entry.deadline;
        self.parked.push_back(entry);
        Effects {
            deadline,
            unsaved: !self.log.is_saved(),
            ..Effects::default()
        }
    }
}
