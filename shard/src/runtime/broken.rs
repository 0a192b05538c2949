//! Engines that are broken on purpose, so that the simulation can show that it notices.

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    /// Flushes say that they have flushed, and do not.
    FlushSkipped,
    /// A flush commits what was written since it began, too.
    CommittedBeforeFlush,
    /// A flush that made names does not make them durable.
    NamesUnsynced,
    /// Recovery goes on behind a batch that is not whole.
    PastHole,
    /// Recovery believes the index files, whatever follows what they know.
    IndexTrusted,
    /// Recovery forgets who wrote what it finds.
    ProducersForgotten,
    /// Periodic shards are flushed only where segments roll or too much is dirty.
    PeriodicUnflushed,
}

impl Broken {
    pub(crate) const ALL: [Self; 7] = [
        Self::FlushSkipped,
        Self::CommittedBeforeFlush,
        Self::NamesUnsynced,
        Self::PastHole,
        Self::IndexTrusted,
        Self::ProducersForgotten,
        Self::PeriodicUnflushed,
    ];
}

/// Whether this thread simulates an engine that is broken like that.
pub(crate) fn is(broken: Broken) -> bool {
    super::simulated::current().is_some_and(|simulation| simulation.is_broken(broken))
}
