//! Which delivery belongs to which request.
//!
//! A batch is known by its partition and first offset. The producer learns that offset from its
//! acknowledgement, which may come after a consumer has the batch; so whoever is first leaves a
//! note for the other. Nothing is written into the records, and any codec will do.

use std::collections::HashMap;
use std::time::Duration;

/// One partition's batches between acknowledgement and the last delivery.
#[derive(Debug)]
pub(crate) struct Join {
    readers: usize,
    /// By first offset: when it was due, and how many readers still lack it.
    acknowledged: HashMap<i64, (Duration, usize)>,
    /// By first offset: when which readers got it.
    early: HashMap<i64, Vec<Delivery>>,
}

/// A batch that reached a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delivery {
    pub(crate) at: Duration,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Join {
    /// For so many readers of the partition.
    pub(crate) fn new(readers: usize) -> Self {
        assert!(readers > 0);
        Self {
            readers,
            acknowledged: HashMap::new(),
            early: HashMap::new(),
        }
    }

    /// How many readers the partition has.
    pub(crate) fn readers(&self) -> usize {
        self.readers
    }

    /// The batch at that offset was due then: the deliveries that came before this. None: no batch
    /// can be there, because another is.
    pub(crate) fn acknowledged(&mut self, offset: i64, due: Duration) -> Option<Vec<Delivery>> {
        if offset < 0 || self.acknowledged.contains_key(&offset) {
            return None;
        }
        let early = self.early.remove(&offset).unwrap_or_default();
        if early.len() < self.readers {
            self.acknowledged
                .insert(offset, (due, self.readers - early.len()));
        }
        Some(early)
    }

    /// The batch at that offset reached a reader: when it was due, if that is known.
    pub(crate) fn delivered(&mut self, offset: i64, delivery: Delivery) -> Option<Duration> {
        let Some((due, lacking)) = self.acknowledged.get_mut(&offset) else {
            self.early.entry(offset).or_default().push(delivery);
            return None;
        };
        let due = *due;
        *lacking -= 1;
        if *lacking == 0 {
            self.acknowledged.remove(&offset);
        }
        Some(due)
    }

    /// Whether every acknowledged batch reached every reader.
    pub(crate) fn is_complete(&self) -> bool {
        self.acknowledged.is_empty()
    }

    /// When the batches were due that did not reach some reader, once for each that lacks it.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = Duration> {
        let batches = self.acknowledged.values();
        batches.flat_map(|(due, lacking)| std::iter::repeat_n(*due, *lacking))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Delivery {
        Delivery {
            at: Duration::from_millis(ms),
            records: 1,
            bytes: 100,
        }
    }

    #[test]
    fn a_delivery_finds_its_request_whichever_comes_first() {
        let mut join = Join::new(2);
        assert_eq!(join.delivered(7, at(2)), None);
        assert_eq!(join.acknowledged(7, DUE), Some(vec![at(2)]));
        assert_eq!(join.acknowledged(7, DUE), None, "it is there already");
        assert_eq!(join.acknowledged(-1, DUE), None);
        assert!(!join.is_complete());
        assert_eq!(join.delivered(7, at(3)), Some(DUE));
        assert!(join.is_complete());
        assert_eq!(join.acknowledged(8, DUE), Some(vec![]));
        assert_eq!(join.lacking().collect::<Vec<_>>(), [DUE, DUE]);
        assert_eq!(join.delivered(8, at(4)), Some(DUE));
        assert_eq!(join.lacking().count(), 1);
    }
}
