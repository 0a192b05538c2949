//! Processes that are killed at random moments of a stream of changes: what was acknowledged is
//! there, nothing is there twice, and no sequence is left out. One process with a file, and two
//! instances over one database.
//!
//! The test is its own child: with `FELIX_KILL9_PLACE` set it makes edits until it is killed, and
//! prints each number once the store has acknowledged it. Number n is always the same proposal, so
//! that the next child brings those again of which nobody knows what became.

use crate::support::Server;
use felix_control::catalog::{NamespacePath, Record, StreamPath, StreamSettings, TenantName};
use felix_control::embedded::{EmbeddedOptions, EmbeddedStore};
use felix_control::limits::GRACE;
use felix_control::postgres::{PostgresOptions, PostgresStore};
use felix_control::{
    Change, Edit, EditId, Op, Page, Position, Proposal, Sequence, Snapshot, Store,
};
use felix_core::{StreamId, Timestamp};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::task::{JoinSet, spawn_blocking};

const PLACE: &str = "FELIX_KILL9_PLACE";
const FIRST: &str = "FELIX_KILL9_FIRST";

/// Edits that a child has on the way at once.
const AT_ONCE: u64 = 16;

/// Where the numbers of a second child begin.
const SECOND: u64 = 1_000_000;

/// Opens the catalog in a file, or in a database, as its place is written.
async fn open(place: &str) -> Arc<dyn Store> {
    if place.starts_with("postgres://") {
        let options = PostgresOptions::new(place, Timestamp(0));
        return Arc::new(PostgresStore::open(options).await.unwrap());
    }
    let options = EmbeddedOptions::new(Timestamp(0));
    Arc::new(EmbeddedStore::open(Path::new(place), options).unwrap())
}

fn path(number: u64) -> StreamPath {
    StreamPath::parse("t1", "default", &format!("s{number}")).unwrap()
}

fn edit_id(number: u64) -> EditId {
    EditId(u128::from(number) + 1)
}

/// The edit of a number: every third deletes the stream that was made [`AT_ONCE`] numbers before.
fn edit(snapshot: &Snapshot, number: u64) -> Edit {
    let earlier = path(number.saturating_sub(AT_ONCE));
    let doomed = number.is_multiple_of(3).then_some(earlier);
    match doomed.and_then(|path| snapshot.state.stream_named(&path)) {
        Some((based_on, stream)) => Edit::DeleteStream {
            path: stream.path.clone(),
            based_on,
            grace: GRACE,
        },
        None => Edit::CreateStream {
            path: path(number),
            id: StreamId(u128::from(number) + 1_000),
            settings: StreamSettings::default(),
        },
    }
}

async fn make(store: &dyn Store, number: u64) {
    let snapshot = store.snapshot().await.unwrap();
    let (id, at) = (edit_id(number), Timestamp(1));
    let edit = edit(&snapshot, number);
    store.commit(Proposal { id, at, edit }).await.unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "made {number}").unwrap();
    out.flush().unwrap();
}

/// The child's part; nothing, unless this process is one.
#[tokio::test]
async fn child() {
    let (Ok(place), Ok(first)) = (std::env::var(PLACE), std::env::var(FIRST)) else {
        return;
    };
    let store = open(&place).await;
    let first: u64 = first.parse().unwrap();
    let mut under_way = JoinSet::new();
    for number in first.. {
        while under_way.len() as u64 >= AT_ONCE {
            under_way.join_next().await.unwrap().unwrap();
        }
        let store = Arc::clone(&store);
        under_way.spawn(async move { make(store.as_ref(), number).await });
    }
}

fn start(place: &str, first: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill9::child", "--nocapture"])
        .env(PLACE, place)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Lets a child make so many edits and kills it; all numbers that it printed.
fn killed_after(place: &str, first: u64, edits: usize) -> Vec<u64> {
    let mut child = start(place, first);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut made = Vec::new();
    for line in lines {
        let line = line.unwrap();
        let number = line.strip_prefix("made ");
        made.extend(number.and_then(|number| number.parse::<u64>().ok()));
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

async fn found(place: &str) {
    let store = open(place).await;
    let name = TenantName::new("t1").unwrap();
    let edit = Edit::CreateTenant {
        name,
        display_name: String::new(),
    };
    let (id, at) = (EditId(u128::MAX), Timestamp(0));
    store.commit(Proposal { id, at, edit }).await.unwrap();
}

async fn all_changes(store: &dyn Store, snapshot: &Snapshot) -> Vec<Arc<Change>> {
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

/// Looks at everything.
async fn check(place: &str, acknowledged: &HashSet<u64>) {
    let store = open(place).await;
    let snapshot = store.snapshot().await.unwrap();
    let changes = all_changes(store.as_ref(), &snapshot).await;
    assert_eq!(changes.len() as u64, snapshot.position.sequence.get());
    let (mut made, mut live) = (HashSet::new(), HashMap::new());
    for change in &changes[2..] {
        assert!(made.insert(change.edit), "{} was made twice", change.edit);
        if let Record::Stream(stream) = &change.record {
            live.insert(stream.path.clone(), change.op == Op::Created);
        }
    }
    for number in acknowledged {
        let is_there = made.contains(&edit_id(*number));
        assert!(is_there, "edit {number} was acknowledged and is lost");
    }
    // The records say what the changes say.
    let namespace = NamespacePath::new("t1", "default").unwrap();
    let streams = snapshot.state.streams(&namespace);
    let seen: Vec<_> = streams.map(|(_, stream)| stream.path.clone()).collect();
    let live = live.into_iter().filter(|(_, live)| *live);
    let mut expected: Vec<_> = live.map(|(path, _)| path).collect();
    expected.sort();
    assert_eq!(seen, expected);
}

fn random() -> fastrand::Rng {
    let seed = std::env::var("FELIX_TESTS_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("FELIX_TESTS_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Starts children where the last ones of which nobody knows what became begin, over and over.
async fn rounds(count: usize, place: &str, firsts: &[u64]) {
    let mut random = random();
    found(place).await;
    let mut acknowledged = HashSet::new();
    for _ in 0..count {
        let children: Vec<_> = firsts
            .iter()
            .map(|first| {
                let next = (*first..)
                    .find(|number| !acknowledged.contains(number))
                    .unwrap();
                let (place, edits) = (place.to_owned(), random.usize(1..120));
                spawn_blocking(move || killed_after(&place, next, edits))
            })
            .collect();
        for child in children {
            acknowledged.extend(child.await.unwrap());
        }
        check(place, &acknowledged).await;
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9_once_and_in_order() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("catalog.redb");
    rounds(20, file.to_str().unwrap(), &[0]).await;
}

#[tokio::test]
async fn instances_that_are_killed_lose_and_double_nothing_and_hold_up_nobody() {
    let Some(server) = Server::start() else {
        return;
    };
    let database = server.database("felix").await;
    rounds(8, &database.url(), &[0, SECOND]).await;
}
