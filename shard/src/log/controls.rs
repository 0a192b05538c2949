//! Where control batches lie, so that the end that readers see is known without reading.

use felix_core::Offset;

/// Runs of offsets taken by control batches, in order and apart from each other. One is added by
/// each promotion, so the list stays short.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Controls(Vec<(Offset, Offset)>);

impl Controls {
    /// Adds the run from `first` up to `next`. Runs come in order; one that is known is ignored.
    pub(super) fn note(&mut self, first: Offset, next: Offset) {
        match self.0.last_mut() {
            Some((_, end)) if next <= *end => {}
            Some((_, end)) if first <= *end => *end = next,
            Some(_) | None => self.0.push((first, next)),
        }
    }

    /// Adds those of `other` that begin at `from` or later.
    pub(super) fn extend(&mut self, other: Self, from: Option<Offset>) {
        for (first, next) in other.0 {
            let first = first.max(from.unwrap_or(first));
            if first < next {
                self.note(first, next);
            }
        }
    }

    /// Forgets runs below the start of the log.
    pub(super) fn forget_below(&mut self, start: Offset) {
        self.0.retain(|(_, next)| *next > start);
    }

    /// The offset after the last data record below `mark`.
    pub(super) fn visible_end(&self, mark: Offset) -> Offset {
        let begun = self.0.partition_point(|(first, _)| *first < mark);
        match begun.checked_sub(1).and_then(|at| self.0.get(at)) {
            Some((first, next)) if mark <= *next => *first,
            Some(_) | None => mark,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_visible_end_lies_before_the_control_batches_at_the_mark() {
        let mut controls = Controls::default();
        for (first, next) in [(3, 4), (4, 5), (4, 5), (9, 10)] {
            controls.note(Offset::new(first), Offset::new(next));
        }
        let visible = |mark| controls.visible_end(Offset::new(mark)).get();
        let seen: Vec<u64> = (0..12).map(visible).collect();
        assert_eq!(seen, [0, 1, 2, 3, 3, 3, 6, 7, 8, 9, 9, 11]);
    }
}
