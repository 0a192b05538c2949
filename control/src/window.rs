//! The last changes of a catalog, for those who follow it and those who ask again.
//!
//! Copies share what they have in common, like those of the state beside it.

use crate::{Change, EditId, Sequence};
use rpds::RedBlackTreeMapSync;
use std::ops::Bound;
use std::sync::Arc;

/// The last changes of a catalog, without a gap.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    changes: RedBlackTreeMapSync<Sequence, Arc<Change>>,
    /// The first change of each edit whose changes are all here.
    edits: RedBlackTreeMapSync<EditId, Sequence>,
    changes_max: usize,
}

impl Window {
    /// An empty one, that will have so many at most.
    pub(crate) fn new(changes_max: usize) -> Self {
        assert!(changes_max > 0);
        Self {
            changes: RedBlackTreeMapSync::new_sync(),
            edits: RedBlackTreeMapSync::new_sync(),
            changes_max,
        }
    }

    /// Takes the change that follows in, and the first one out if there are too many.
    pub(crate) fn push(&mut self, change: Arc<Change>) {
        if let Some((last, _)) = self.changes.last() {
            assert_eq!(change.sequence, last.next(), "changes follow each other");
        }
        if self.edits.get(&change.edit).is_none() {
            self.edits.insert_mut(change.edit, change.sequence);
        }
        self.changes.insert_mut(change.sequence, change);
        while self.changes.size() > self.changes_max {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some((sequence, change)) = self.changes.first() else {
            return;
        };
        let (sequence, edit) = (*sequence, change.edit);
        self.changes.remove_mut(&sequence);
        self.edits.remove_mut(&edit);
    }

    /// How many changes it has.
    pub(crate) fn len(&self) -> usize {
        self.changes.size()
    }

    /// The first change that it has.
    pub(crate) fn first(&self) -> Option<Sequence> {
        self.changes.first().map(|(sequence, _)| *sequence)
    }

    /// All changes from a place on.
    pub(crate) fn from(&self, first: Sequence) -> impl Iterator<Item = &Arc<Change>> {
        let range = (Bound::Included(first), Bound::Unbounded);
        self.changes.range(range).map(|(_, change)| change)
    }

    /// What an edit changed, if all of it is here.
    pub(crate) fn of(&self, edit: EditId) -> Option<Vec<Arc<Change>>> {
        let first = *self.edits.get(&edit)?;
        let changes = self.from(first).take_while(|change| change.edit == edit);
        Some(changes.cloned().collect())
    }
}
