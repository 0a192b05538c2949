//! The embedded store, killed at random moments of a stream of changes: what was acknowledged is
//! there, nothing is there twice, and no sequence is left out.
//!
//! The test is its own child: with `FELIX_KILL9_FILE` set it makes edits until it is killed, and
//! prints each number once the store has acknowledged it. Number n is always the same proposal, so
//! that the next child brings those again of which nobody knows what became.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use felix_control::catalog::{NamespacePath, StreamPath, StreamSettings, TenantName};
use felix_control::embedded::{EmbeddedOptions, EmbeddedStore};
use felix_control::limits::GRACE;
use felix_control::{
    Change, Edit, EditId, Op, Page, Position, Proposal, Sequence, Snapshot, Store,
};
use felix_core::{StreamId, Timestamp};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

const FILE: &str = "FELIX_KILL9_FILE";
const FIRST: &str = "FELIX_KILL9_FIRST";

/// Edits that a child has on the way at once.
const AT_ONCE: u64 = 16;

const ROUNDS: usize = 20;

fn open(file: &Path) -> EmbeddedStore {
    EmbeddedStore::open(file, EmbeddedOptions::new(Timestamp(0))).unwrap()
}

fn path(number: u64) -> StreamPath {
    StreamPath::parse("t1", "default", &format!("s{number}")).unwrap()
}

fn stream_id(number: u64) -> StreamId {
    StreamId(u128::from(number) + 1_000)
}

/// The edit of a number: every third deletes the stream that was made [`AT_ONCE`] numbers before.
fn edit(snapshot: &Snapshot, number: u64) -> Edit {
    let earlier = number.saturating_sub(AT_ONCE);
    let doomed = number
        .is_multiple_of(3)
        .then(|| snapshot.state.stream_named(&path(earlier)))
        .flatten();
    match doomed {
        Some((based_on, stream)) => Edit::DeleteStream {
            path: stream.path.clone(),
            based_on,
            grace: GRACE,
        },
        None => Edit::CreateStream {
            path: path(number),
            id: stream_id(number),
            settings: StreamSettings::default(),
        },
    }
}

async fn make(store: &EmbeddedStore, number: u64) {
    let snapshot = store.snapshot().await.unwrap();
    let edit = edit(&snapshot, number);
    let id = EditId(u128::from(number) + 1);
    store
        .commit(Proposal {
            id,
            at: Timestamp(1),
            edit,
        })
        .await
        .unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "made {number}").unwrap();
    out.flush().unwrap();
}

/// What the child does: numbers from the first on, as many at once as there may be.
async fn work(store: &Arc<EmbeddedStore>, first: u64) {
    let mut under_way = tokio::task::JoinSet::new();
    for number in first.. {
        while under_way.len() as u64 >= AT_ONCE {
            under_way.join_next().await.unwrap().unwrap();
        }
        let store = Arc::clone(store);
        under_way.spawn(async move { make(&store, number).await });
    }
}

/// The child's part; nothing, unless this process is one.
#[tokio::test]
async fn child() {
    let (Some(file), Ok(first)) = (std::env::var_os(FILE), std::env::var(FIRST)) else {
        return;
    };
    let store = Arc::new(open(Path::new(&file)));
    work(&store, first.parse().unwrap()).await;
}

fn start(file: &Path, first: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(FILE, file)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Lets a child make so many edits and kills it; all numbers that it printed.
fn killed_after(file: &Path, first: u64, edits: usize) -> Vec<u64> {
    let mut child = start(file, first);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut made = Vec::new();
    for line in lines {
        let line = line.unwrap();
        // A line that was cut short is one of an edit that was made all the same, or none of ours.
        let number: Option<u64> = line
            .strip_prefix("made ")
            .and_then(|number| number.parse().ok());
        made.extend(number);
        if made.len() == edits {
            child.kill().unwrap();
        }
    }
    assert!(
        !child.wait().unwrap().success(),
        "it ends by being killed only"
    );
    made
}

async fn founded(file: &Path) {
    let store = open(file);
    let name = TenantName::new("t1").unwrap();
    let edit = Edit::CreateTenant {
        name,
        display_name: String::new(),
    };
    let id = EditId(u128::MAX);
    store
        .commit(Proposal {
            id,
            at: Timestamp(0),
            edit,
        })
        .await
        .unwrap();
}

async fn all_changes(store: &EmbeddedStore, snapshot: &Snapshot) -> Vec<Arc<Change>> {
    let mut at = Position {
        sequence: Sequence::ZERO,
        ..snapshot.position
    };
    let mut seen = Vec::new();
    loop {
        match store.changes(at, 1000).await.unwrap() {
            Page::Changes(changes) if changes.is_empty() => return seen,
            Page::Changes(changes) => {
                for change in changes {
                    assert_eq!(
                        change.sequence,
                        at.sequence.next(),
                        "a sequence is left out"
                    );
                    at.sequence = change.sequence;
                    seen.push(change);
                }
            }
            Page::StartOver => panic!("fewer changes than the window has"),
        }
    }
}

/// Looks at everything; how often each number was made.
async fn check(file: &Path, acknowledged: &[u64]) {
    let store = open(file);
    let snapshot = store.snapshot().await.unwrap();
    let changes = all_changes(&store, &snapshot).await;
    assert_eq!(changes.len() as u64, snapshot.position.sequence.get());
    let mut made: HashMap<EditId, u32> = HashMap::new();
    for change in &changes[2..] {
        *made.entry(change.edit).or_default() += 1;
    }
    assert!(
        made.values().all(|times| *times == 1),
        "an edit was made twice"
    );
    for number in acknowledged {
        let id = EditId(u128::from(*number) + 1);
        assert!(
            made.contains_key(&id),
            "edit {number} was acknowledged and is lost"
        );
    }
    // The records say what the changes say.
    let mut live = HashMap::new();
    for change in &changes[2..] {
        if let felix_control::catalog::Record::Stream(stream) = &change.record {
            live.insert(stream.path.clone(), change.op == Op::Created);
        }
    }
    let namespace = NamespacePath::new("t1", "default").unwrap();
    let streams = snapshot.state.streams(&namespace);
    let seen: Vec<_> = streams.map(|(_, stream)| stream.path.clone()).collect();
    let mut expected: Vec<_> = live
        .into_iter()
        .filter(|(_, live)| *live)
        .map(|(path, _)| path)
        .collect();
    expected.sort();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9_once_and_in_order() {
    let seed = std::env::var("FELIX_TESTS_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("FELIX_TESTS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("catalog.redb");
    founded(&file).await;
    let mut acknowledged = Vec::new();
    for _ in 0..ROUNDS {
        // Those that may have been made are brought again.
        let first = (0..).find(|number| !acknowledged.contains(number)).unwrap();
        acknowledged.extend(killed_after(&file, first, random.usize(1..120)));
        check(&file, &acknowledged).await;
    }
}
