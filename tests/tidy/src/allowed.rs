//! What the rules let pass, each with its reason.

use crate::Fault;

/// Words that one file, or one folder, may use.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    path: &'static str,
    words: &'static [&'static str],
    reason: &'static str,
}

impl Allowed {
    /// `path` is a file, or a folder if it ends with a slash.
    #[must_use]
    pub const fn new(
        path: &'static str,
        words: &'static [&'static str],
        reason: &'static str,
    ) -> Self {
        assert!(!reason.is_empty());
        Self {
            path,
            words,
            reason,
        }
    }

    /// Whether this entry lets `word` pass in the file `path`.
    #[must_use]
    pub fn covers(&self, path: &str, word: &str) -> bool {
        let here = path == self.path || (self.path.ends_with('/') && path.starts_with(self.path));
        here && self.words.contains(&word)
    }
}

/// A fault for each entry that was not used.
pub(crate) fn unused(allowed: &[Allowed], used: &[bool]) -> Vec<Fault> {
    assert_eq!(allowed.len(), used.len());
    let stale = allowed.iter().zip(used).filter(|(_, used)| !**used);
    stale
        .map(|(entry, _)| {
            let what = format!(
                "tests/tidy allows {:?} here ({}), and nothing uses it any more; remove the entry",
                entry.words, entry.reason
            );
            Fault::new(entry.path, 0, what)
        })
        .collect()
}

/// Files that may name glommio.
pub const GLOMMIO: &[Allowed] = &[
    Allowed::new(
        "net/src/readiness.rs",
        &["glommio"],
        "parks a core until a socket is ready",
    ),
    Allowed::new(
        "shard/src/disk/",
        &["glommio"],
        "the disk: flushes by io_uring, files opened aside",
    ),
    Allowed::new(
        "shard/src/runtime/mod.rs",
        &["glommio"],
        "tasks, pauses and work aside: the executor's, or a simulation's",
    ),
    Allowed::new(
        "broker/src/executor.rs",
        &["glommio"],
        "makes the executors and pins them",
    ),
    Allowed::new(
        "broker/src/serve.rs",
        &["glommio"],
        "starts the task of a connection",
    ),
];

/// Locks and atomics on the data path.
pub const SHARED: &[Allowed] = &[Allowed::new(
    "shard/src/lane.rs",
    &["AtomicWaker", "AtomicBool"],
    "between two cores: the doorbell that wakes the receiver, and the mark of a sender in want",
)];

/// Reads of the environment and of clocks outside the broker.
pub const AMBIENT: &[Allowed] = &[];

/// Files longer than the cap, and how long they may be. Only ever lower a number here.
pub const LONG: &[(&str, usize)] = &[];

/// Functions longer than the cap, and how long they may be. Only ever lower a number here.
pub const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[
    // A list of sentences, with nothing to branch on.
    ("core/src/batch/error.rs", "fmt", 75),
    (
        "tests/tests/damage.rs",
        "a_damaged_shard_is_named_and_refused_and_the_others_serve",
        75,
    ),
];
