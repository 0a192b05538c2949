//! What a file holds: in the page cache, and on the device.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// What reaches the device whole or not at all. Smaller than that of any real device, so that small
/// batches tear, too.
const SECTOR_BYTES: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Content(RefCell<State>);

#[derive(Debug, Default)]
struct State {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors that the kernel still has to write, and which change was the last to each.
    dirty: BTreeMap<usize, u64>,
    changes: u64,
    /// What the last flush covered that has ended.
    flushed: u64,
}

/// What a flush is to write: what was there when it began.
#[derive(Debug)]
pub(super) struct WriteBack {
    sectors: Vec<(usize, Vec<u8>)>,
    size: usize,
    changes: u64,
}

/// How much of what was not flushed survives a power loss.
#[derive(Clone, Copy, Debug)]
enum Survival {
    Nothing,
    Everything,
    EachByChance,
    UpTo(usize),
}

impl State {
    fn sector(&self, sector: usize) -> &[u8] {
        slice(&self.cached, sector)
    }

    fn touch(&mut self, from: usize, to: usize) {
        self.changes += 1;
        for sector in from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES) {
            self.dirty.insert(sector, self.changes);
        }
    }

    fn settle(&mut self, now: Vec<u8>) {
        self.cached.clone_from(&now);
        self.durable = now;
        self.dirty.clear();
    }
}

impl Content {
    pub(super) fn size(&self) -> usize {
        self.0.borrow().cached.len()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.borrow().cached.clone()
    }

    pub(super) fn write(&self, bytes: &[u8], start: usize) {
        let mut state = self.0.borrow_mut();
        let end = start + bytes.len();
        let from = start.min(state.cached.len());
        if state.cached.len() < end {
            state.cached.resize(end, 0);
        }
        state.cached[start..end].copy_from_slice(bytes);
        state.touch(from, end);
    }

    pub(super) fn resize(&self, size: usize) {
        let mut state = self.0.borrow_mut();
        let (from, to) = (state.cached.len().min(size), state.cached.len().max(size));
        state.cached.resize(size, 0);
        state.touch(from, to);
    }

    /// Zeros up to `size`, on the device too. What lies before them may still be lost, and is zeros
    /// then.
    pub(super) fn extend(&self, size: usize) {
        let mut state = self.0.borrow_mut();
        let end = state.cached.len().max(size);
        state.cached.resize(end, 0);
        let end = state.durable.len().max(size);
        state.durable.resize(end, 0);
    }

    pub(super) fn begin_flush(&self) -> WriteBack {
        let state = self.0.borrow();
        let sectors = state.dirty.keys();
        WriteBack {
            sectors: sectors
                .map(|sector| (*sector, state.sector(*sector).to_vec()))
                .collect(),
            size: state.cached.len(),
            changes: state.changes,
        }
    }

    /// The device has taken it.
    pub(super) fn end_flush(&self, done: &WriteBack) {
        let mut state = self.0.borrow_mut();
        if done.changes < state.flushed {
            return;
        }
        let State { durable, .. } = &mut *state;
        durable.resize(done.size, 0);
        for (sector, bytes) in &done.sectors {
            put(durable, *sector, bytes);
        }
        state.flushed = done.changes;
        state.dirty.retain(|_, change| *change > done.changes);
    }

    /// The device has failed: the kernel takes for clean what did not get there.
    pub(super) fn fail_flush(&self, lost: &WriteBack, random: &mut fastrand::Rng) {
        let mut state = self.0.borrow_mut();
        for (sector, bytes) in &lost.sectors {
            if random.bool() {
                put(&mut state.durable, *sector, bytes);
            }
        }
        state.dirty.retain(|_, change| *change > lost.changes);
    }

    /// All that was not flushed is gone.
    pub(super) fn lose_all(&self) {
        let mut state = self.0.borrow_mut();
        let durable = state.durable.clone();
        state.settle(durable);
    }

    /// Of what was not flushed each sector is there or not, and so is the size.
    pub(super) fn lose_some(&self, random: &mut fastrand::Rng) {
        let mut state = self.0.borrow_mut();
        let survival = match random.u8(..5) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 => Survival::UpTo(random.usize(..=state.cached.len() / SECTOR_BYTES)),
            _ => Survival::EachByChance,
        };
        let (old, new) = (state.durable.len(), state.cached.len());
        let size = match survival {
            Survival::Nothing => old,
            Survival::Everything => new,
            Survival::UpTo(_) | Survival::EachByChance => match random.u8(..3) {
                0 => old,
                1 => new,
                _ => random.usize(old.min(new)..=old.max(new)),
            },
        };
        let mut left = state.durable.clone();
        left.resize(size, 0);
        for sector in state.dirty.keys() {
            let survives = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::UpTo(end) => *sector < end,
                Survival::EachByChance => random.bool(),
            };
            if survives {
                put(&mut left, *sector, state.sector(*sector));
            }
        }
        state.settle(left);
    }
}

fn slice(bytes: &[u8], sector: usize) -> &[u8] {
    let start = (sector * SECTOR_BYTES).min(bytes.len());
    let end = (start + SECTOR_BYTES).min(bytes.len());
    &bytes[start..end]
}

/// Puts a sector in its place, as far as the file reaches.
fn put(bytes: &mut [u8], sector: usize, from: &[u8]) {
    let start = (sector * SECTOR_BYTES).min(bytes.len());
    let end = (start + from.len()).min(bytes.len());
    bytes[start..end].copy_from_slice(&from[..end - start]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_was_there_when_it_began() {
        let content = Content::default();
        content.write(&[1; 100], 0);
        let first = content.begin_flush();
        content.write(&[2; 100], 50);
        content.end_flush(&first);
        content.lose_all();
        assert_eq!(content.bytes(), [1; 100]);
    }

    #[test]
    fn a_flush_that_ends_late_does_not_bring_back_what_a_later_one_replaced() {
        let content = Content::default();
        content.write(&[1; 100], 0);
        let first = content.begin_flush();
        content.write(&[2; 100], 0);
        let second = content.begin_flush();
        content.end_flush(&second);
        content.end_flush(&first);
        content.lose_all();
        assert_eq!(content.bytes(), [2; 100]);
    }

    #[test]
    fn after_a_failed_flush_the_next_one_does_not_write_what_was_lost() {
        let content = Content::default();
        content.write(&[1; 6400], 0);
        let lost = content.begin_flush();
        content.fail_flush(&lost, &mut fastrand::Rng::with_seed(1));
        content.end_flush(&content.begin_flush());
        assert_eq!(content.bytes(), [1; 6400], "the page cache still has it");
        content.lose_all();
        assert_eq!(
            content.bytes(),
            [0; 6400],
            "the size got there, the bytes did not"
        );
    }

    #[test]
    fn a_power_loss_tears_writes_leaves_holes_and_spares_what_was_flushed() {
        let (mut holes, mut short) = (0, 0);
        for seed in 0..200 {
            let content = Content::default();
            content.write(&[1; 640], 0);
            content.end_flush(&content.begin_flush());
            content.write(&[2; 640], 640);
            content.lose_some(&mut fastrand::Rng::with_seed(seed));
            let left = content.bytes();
            assert_eq!(left[..640], [1; 640]);
            assert!(left[640..].iter().all(|byte| [0, 2].contains(byte)));
            let found = left[640..].windows(2).filter(|pair| *pair == [0, 2]);
            holes += found.count();
            short += usize::from((641..1280).contains(&left.len()));
        }
        assert!(holes > 0 && short > 0);
    }
}
