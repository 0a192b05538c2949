//! A catalog as one process knows it: what it has and what was changed last.

use crate::catalog::{Entry, Key, State};
use crate::limits::PAGE_CHANGES_MAX;
use crate::window::Window;
use crate::{
    CatalogId, Change, Committed, Page, Position, Proposal, Refusal, Sequence, Snapshot, rules,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A catalog as one process knows it. Copies cost nothing, so that whoever tries what an edit does
/// takes one, and forgets it if the store could not keep it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    catalog: CatalogId,
    state: State,
    window: Window,
}

/// What became of some proposals.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The catalog with all of them.
    pub(crate) view: View,
    /// What is to be kept, in order.
    pub(crate) changes: Vec<Arc<Change>>,
    /// The records that are otherwise, or gone, since.
    pub(crate) touched: BTreeSet<Key>,
    /// What to tell each, once that is kept.
    pub(crate) answers: Vec<Result<Committed, Refusal>>,
}

impl View {
    /// A view of this state and the changes that led to it, of which there may be fewer than there
    /// were.
    pub(crate) fn new(catalog: CatalogId, state: State, window: Window) -> Self {
        if let Some(first) = window.first() {
            let last = first.get() + window.len() as u64 - 1;
            assert_eq!(
                last,
                state.sequence().get(),
                "the last change led to the state"
            );
        }
        Self {
            catalog,
            state,
            window,
        }
    }

    /// The view of what a store has kept, if that can be.
    ///
    /// # Errors
    /// It cannot; what is wrong with it.
    pub(crate) fn load(
        position: Position,
        entries: Vec<Entry>,
        changes: Vec<Change>,
        window: usize,
    ) -> Result<Self, String> {
        let Position { catalog, sequence } = position;
        if let Some(entry) = entries
            .iter()
            .find(|entry| entry.version.get() > sequence.get())
        {
            let (key, version) = (entry.record.key(), entry.version);
            return Err(format!(
                "{key} is at version {version}, after the last change {sequence}"
            ));
        }
        let mut known = Window::new(window);
        let mut expected = changes
            .first()
            .map_or(sequence.next(), |first| first.sequence);
        for change in changes {
            if change.sequence != expected {
                return Err(format!(
                    "change {expected} is missing before {}",
                    change.sequence
                ));
            }
            expected = expected.next();
            known.push(Arc::new(change));
        }
        if expected != sequence.next() {
            return Err(format!(
                "change {expected} is missing before the last, {sequence}"
            ));
        }
        Ok(Self::new(catalog, State::of(sequence, entries), known))
    }

    /// Which catalog, and its last change.
    pub(crate) fn position(&self) -> Position {
        Position {
            catalog: self.catalog,
            sequence: self.state.sequence(),
        }
    }

    /// What it has.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The changes that are still known.
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// For a reader.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            position: self.position(),
            state: self.state.clone(),
        }
    }

    /// What follows a position.
    pub(crate) fn page(&self, after: Position, max: usize) -> Page {
        let here = self.position();
        if after == here {
            return Page::Changes(Vec::new());
        }
        let next = after.sequence.next();
        let is_known = self.window.first().is_some_and(|first| first <= next);
        if after.catalog != here.catalog || after.sequence > here.sequence || !is_known {
            return Page::StartOver;
        }
        let changes = self.window.from(next);
        Page::Changes(
            changes
                .take(max.clamp(1, PAGE_CHANGES_MAX))
                .cloned()
                .collect(),
        )
    }

    /// What proposals make of it, one after the other.
    pub(crate) fn settle<'a>(&self, proposals: impl IntoIterator<Item = &'a Proposal>) -> Settled {
        let mut settled = Settled {
            view: self.clone(),
            changes: Vec::new(),
            touched: BTreeSet::new(),
            answers: Vec::new(),
        };
        for proposal in proposals {
            let answer = settled.settle(proposal);
            settled.answers.push(answer);
        }
        settled
    }

    /// Takes in a change that was kept by somebody else; the keys of the records that it touched.
    pub(crate) fn push(&mut self, change: Arc<Change>) -> Vec<Key> {
        let touched = self.state.apply(&change);
        self.window.push(change);
        touched
    }
}

impl Settled {
    fn settle(&mut self, proposal: &Proposal) -> Result<Committed, Refusal> {
        if let Some(changes) = self.view.window.of(proposal.id) {
            let last = changes.last().expect("an edit is known by its changes");
            let sequence = last.sequence;
            return Ok(Committed { sequence, changes });
        }
        let steps = rules::decide(&self.view.state, proposal)?;
        let mut changes = Vec::with_capacity(steps.len());
        for (op, record) in steps {
            let sequence = self.view.state.sequence().next();
            let (at, edit) = (proposal.at, proposal.id);
            let change = Arc::new(Change {
                sequence,
                at,
                edit,
                op,
                record,
            });
            self.touched.extend(self.view.push(Arc::clone(&change)));
            changes.push(change);
        }
        self.changes.extend(changes.iter().cloned());
        let sequence: Sequence = self.view.state.sequence();
        Ok(Committed { sequence, changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::TenantName;
    use crate::{Edit, EditId};
    use felix_core::Timestamp;

    fn view(window: usize) -> View {
        let state = State::founded(Timestamp(0));
        View::new(CatalogId(1), state, Window::new(window))
    }

    fn tenant(id: u128) -> Proposal {
        let name = TenantName::new(&format!("t{id}")).unwrap();
        let edit = Edit::CreateTenant {
            name,
            display_name: String::new(),
        };
        Proposal {
            id: EditId(id),
            at: Timestamp(0),
            edit,
        }
    }

    fn at(sequence: u64) -> Position {
        let sequence = Sequence::new(sequence);
        Position {
            catalog: CatalogId(1),
            sequence,
        }
    }

    fn numbers(page: &Page) -> Option<Vec<u64>> {
        match page {
            Page::Changes(changes) => Some(changes.iter().map(|of| of.sequence.get()).collect()),
            Page::StartOver => None,
        }
    }

    #[test]
    fn changes_follow_each_other_over_refusals_and_repetitions() {
        let view = view(100);
        let twice = Proposal {
            id: EditId(9),
            ..tenant(1)
        };
        let settled = view.settle(&[tenant(1), twice, tenant(1), tenant(2)]);
        let ends: Vec<_> = settled
            .answers
            .iter()
            .map(|answer| answer.as_ref().ok().map(|of| of.sequence.get()))
            .collect();
        assert_eq!(ends, [Some(2), None, Some(2), Some(4)]);
        assert_eq!(
            settled.answers[0], settled.answers[2],
            "made once, answered twice"
        );
        let kept: Vec<_> = settled
            .changes
            .iter()
            .map(|change| change.sequence.get())
            .collect();
        assert_eq!(kept, [1, 2, 3, 4]);
        assert_eq!(settled.touched.len(), 4);
        assert_eq!(
            view.position(),
            at(0),
            "until it is kept, nothing has happened"
        );
    }

    #[test]
    fn a_page_has_what_follows_and_no_more_than_asked() {
        let view = view(100).settle(&[tenant(1), tenant(2)]).view;
        assert_eq!(numbers(&view.page(at(0), 100)), Some(vec![1, 2, 3, 4]));
        assert_eq!(numbers(&view.page(at(1), 2)), Some(vec![2, 3]));
        assert_eq!(
            numbers(&view.page(at(1), 0)),
            Some(vec![2]),
            "a page moves on"
        );
        assert_eq!(numbers(&view.page(at(4), 100)), Some(vec![]));
    }

    #[test]
    fn who_is_behind_the_window_or_elsewhere_starts_over() {
        let view = view(3).settle(&[tenant(1), tenant(2), tenant(3)]).view;
        assert_eq!(numbers(&view.page(at(3), 100)), Some(vec![4, 5, 6]));
        assert_eq!(view.page(at(2), 100), Page::StartOver);
        assert_eq!(view.page(at(0), 100), Page::StartOver);
        assert_eq!(
            view.page(at(7), 100),
            Page::StartOver,
            "a position of a catalog that was lost"
        );
        let elsewhere = Position {
            catalog: CatalogId(2),
            ..at(6)
        };
        assert_eq!(view.page(elsewhere, 100), Page::StartOver);
    }

    #[test]
    fn what_was_kept_is_looked_at_before_it_is_believed() {
        let view = view(100).settle(&[tenant(1), tenant(2)]).view;
        let entries: Vec<Entry> = view.state().entries().cloned().collect();
        let all = view.window().from(Sequence::ZERO);
        let changes: Vec<Change> = all.map(|change| change.as_ref().clone()).collect();
        let load = |sequence, changes: &[Change]| {
            View::load(at(sequence), entries.clone(), changes.to_vec(), 100)
                .map(|view| view.position())
        };
        assert_eq!(load(4, &changes), Ok(at(4)));
        assert_eq!(
            load(4, &changes[2..]),
            Ok(at(4)),
            "the first may have left the window"
        );
        for (sequence, changes) in [
            (3, &changes[..]),
            (5, &changes[..]),
            (4, &changes[..3]),
            (
                4,
                &[changes[0].clone(), changes[2].clone(), changes[3].clone()],
            ),
        ] {
            assert!(load(sequence, changes).is_err());
        }
    }

    #[test]
    fn an_edit_is_known_as_long_as_all_its_changes_are() {
        let view = view(3).settle(&[tenant(1), tenant(2)]).view;
        let again = view.settle(&[tenant(2), tenant(1)]);
        assert!(again.answers[0].is_ok());
        assert!(
            again.answers[1].is_err(),
            "its first change has left the window"
        );
        assert!(again.changes.is_empty());
    }
}
