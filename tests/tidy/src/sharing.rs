//! State belongs to one CPU core: no locks of any library and no atomics on the data path, save
//! those that are listed with their reason.

use crate::Fault;
use crate::allowed::{Allowed, unused};
use crate::source::Source;

/// The folders of the data path.
const DATA_PATH: [&str; 5] = ["core/", "shard/", "net/", "kafka/", "native/"];

/// Words that mean a lock, whatever library it comes from.
const LOCKS: [&str; 11] = [
    "Mutex",
    "RwLock",
    "Condvar",
    "Barrier",
    "ReentrantLock",
    "parking_lot",
    "dashmap",
    "DashMap",
    "async_lock",
    "tokio",
    "spin",
];

fn is_shared(word: &str) -> bool {
    let atomic = word
        .strip_prefix("Atomic")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()) || rest == "Cell");
    atomic || LOCKS.contains(&word)
}

/// Every lock and atomic on the data path that is not allowed, and every entry nothing needs.
#[must_use]
pub fn check(sources: &[Source], allowed: &[Allowed]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut used = vec![false; allowed.len()];
    let on_path = |source: &&Source| {
        !source.is_test()
            && DATA_PATH
                .iter()
                .any(|folder| source.path.starts_with(folder))
    };
    for source in sources.iter().filter(on_path) {
        for (line, word) in source.words().filter(|(_, word)| is_shared(word)) {
            match allowed
                .iter()
                .position(|entry| entry.covers(&source.path, word))
            {
                Some(entry) => used[entry] = true,
                None => faults.push(Fault::new(
                    &source.path,
                    line,
                    format!("{word} on the data path; send the owning core a message"),
                )),
            }
        }
    }
    faults.extend(unused(allowed, &used));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_every_library_are_caught_on_the_data_path_only() {
        for text in [
            "use std::sync::{Arc, Mutex};",
            "x: std::sync::RwLock<u8>",
            "use parking_lot as p;",
            "dashmap::DashMap::new()",
            "tokio::sync::watch::channel(())",
            "glommio::sync::RwLock::new(())",
            "static N: AtomicU64 = AtomicU64::new(0);",
        ] {
            for folder in ["core", "shard", "net", "kafka"] {
                let source = Source::new(&format!("{folder}/src/a.rs"), text);
                assert!(!check(&[source], &[]).is_empty(), "{folder}: {text}");
            }
            assert!(check(&[Source::new("broker/src/a.rs", text)], &[]).is_empty());
        }
        let innocent = "use std::sync::atomic::Ordering; struct Atomicity; let spinning = 1;";
        assert!(check(&[Source::new("core/src/a.rs", innocent)], &[]).is_empty());
    }

    #[test]
    fn an_entry_allows_its_word_in_its_file_and_no_other() {
        let allowed = [Allowed::new(
            "shard/src/lane.rs",
            &["AtomicBool"],
            "wakes the other core",
        )];
        let flag = Source::new("shard/src/lane.rs", "closed: AtomicBool");
        assert!(check(std::slice::from_ref(&flag), &allowed).is_empty());
        let lock = Source::new("shard/src/lane.rs", "closed: AtomicBool, held: Mutex<()>");
        assert_eq!(check(&[lock], &allowed).len(), 1);
        let elsewhere = Source::new("shard/src/core.rs", "closed: AtomicBool");
        assert_eq!(check(&[flag, elsewhere], &allowed).len(), 1);
    }
}
