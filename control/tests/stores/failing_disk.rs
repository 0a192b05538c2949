//! The embedded store on a disk that loses power, or is full. Of what was written since the last
//! flush any part may be there after a power loss: a killed process proves nothing about that.
#![expect(
    clippy::disallowed_types,
    reason = "redb uses its disk from whatever thread it likes, and shares it with the test"
)]

use felix_control::catalog::{StreamPath, StreamSettings, TenantName};
use felix_control::embedded::{EmbeddedOptions, EmbeddedStore};
use felix_control::{
    CommitError, Edit, EditId, Page, Position, Proposal, Sequence, Store, StoreError,
};
use felix_core::{StreamId, Timestamp};
use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex};

/// What was done to the disk.
#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>),
    Length(usize),
    Flush,
}

/// A disk in memory that remembers all that was done to it.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Platter>>);

#[derive(Debug, Default)]
struct Platter {
    bytes: Vec<u8>,
    steps: Vec<Step>,
    is_full: bool,
}

impl Platter {
    fn apply(&mut self, step: Step) {
        apply(&mut self.bytes, &step);
        self.steps.push(step);
    }
}

fn apply(bytes: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write(at, data) => bytes[*at..*at + data.len()].copy_from_slice(data),
        Step::Length(length) => bytes.resize(*length, 0),
        Step::Flush => {}
    }
}

impl Disk {
    fn of(bytes: Vec<u8>) -> Self {
        let platter = Platter {
            bytes,
            ..Platter::default()
        };
        Self(Arc::new(Mutex::new(platter)))
    }

    fn steps(&self) -> Vec<Step> {
        self.0.lock().unwrap().steps.clone()
    }

    fn apply(&self, step: Step) -> Result<(), io::Error> {
        let mut platter = self.0.lock().unwrap();
        if platter.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        platter.apply(step);
        Ok(())
    }

    fn fill(&self, is_full: bool) {
        self.0.lock().unwrap().is_full = is_full;
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let at = usize::try_from(offset).unwrap();
        let platter = self.0.lock().unwrap();
        let there = platter.bytes.get(at..at + out.len());
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        self.apply(Step::Length(usize::try_from(length).unwrap()))
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.apply(Step::Flush)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.apply(Step::Write(usize::try_from(offset).unwrap(), data.to_vec()))
    }
}

/// What a sector holds is there whole or not at all.
const SECTOR: usize = 512;

/// The disk after a power loss behind these steps: all up to the last flush, and of what came after
/// it any sectors.
fn after_power_loss(steps: &[Step], random: &mut fastrand::Rng) -> Vec<u8> {
    let flushed = steps
        .iter()
        .rposition(|step| matches!(step, Step::Flush))
        .unwrap_or(0);
    let mut bytes = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Write(at, data) if number > flushed => {
                for (index, sector) in data.chunks(SECTOR).enumerate() {
                    if random.bool() {
                        apply(
                            &mut bytes,
                            &Step::Write(at + index * SECTOR, sector.to_vec()),
                        );
                    }
                }
            }
            _ => apply(&mut bytes, step),
        }
    }
    bytes
}

fn open(disk: Disk) -> EmbeddedStore {
    EmbeddedStore::open_on(move || disk.clone(), EmbeddedOptions::new(Timestamp(0))).unwrap()
}

fn edit(number: u64) -> Edit {
    if number == 0 {
        let name = TenantName::new("t1").unwrap();
        return Edit::CreateTenant {
            name,
            display_name: String::new(),
        };
    }
    Edit::CreateStream {
        path: StreamPath::parse("t1", "default", &format!("s{number}")).unwrap(),
        id: StreamId(u128::from(number) + 1),
        settings: StreamSettings::default(),
    }
}

/// Makes edits; after how many steps of the disk each was acknowledged.
async fn acknowledged(disk: &Disk, edits: u64) -> Vec<(usize, Sequence)> {
    let store = open(disk.clone());
    let mut acknowledged = Vec::new();
    for number in 0..edits {
        let committed = store.commit(proposal(number)).await.unwrap();
        acknowledged.push((disk.steps().len(), committed.sequence));
    }
    acknowledged
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_power_loss_wherever_it_comes() {
    let seed = std::env::var("FELIX_TESTS_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("FELIX_TESTS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let disk = Disk::default();
    let acknowledged = acknowledged(&disk, 40).await;
    let steps = disk.steps();
    // Before the first acknowledgement there is nothing to lose.
    for _ in 0..200 {
        let loss = random.usize(acknowledged[0].0..=steps.len());
        let expected = acknowledged.iter().rev().find(|(at, _)| *at <= loss);
        let (_, expected) = *expected.expect("the first was acknowledged before");
        let image = after_power_loss(&steps[..loss], &mut random);
        let store = open(Disk::of(image));
        let snapshot = store.snapshot().await.unwrap();
        let sequence = snapshot.position.sequence;
        assert!(
            sequence >= expected,
            "{expected} was acknowledged, {sequence} is there"
        );
        let start = Position {
            sequence: Sequence::ZERO,
            ..snapshot.position
        };
        let Page::Changes(changes) = store.changes(start, 1000).await.unwrap() else {
            panic!("fewer changes than the window has")
        };
        assert_eq!(changes.len() as u64, sequence.get());
        let streams = snapshot.state.live_streams().count() as u64;
        assert_eq!(
            streams,
            sequence.get() - 2,
            "the records say what the changes say"
        );
    }
}

fn proposal(number: u64) -> Proposal {
    let id = EditId(u128::from(number) + 1);
    Proposal {
        id,
        at: Timestamp(0),
        edit: edit(number),
    }
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_made_and_all_is_read_until_there_is_room() {
    let disk = Disk::default();
    let store = open(disk.clone());
    store.commit(proposal(0)).await.unwrap();
    let before = store.snapshot().await.unwrap().position;
    disk.fill(true);
    for number in 1..4 {
        let refused = store.commit(proposal(number)).await;
        assert!(matches!(
            refused,
            Err(CommitError::Store(StoreError::Unavailable(_)))
        ));
    }
    let during = store.snapshot().await.unwrap();
    assert_eq!(during.position, before);
    assert_eq!(
        store.changes(before, 10).await,
        Ok(Page::Changes(Vec::new()))
    );
    disk.fill(false);
    for number in 1..4 {
        let committed = store.commit(proposal(number)).await.unwrap();
        assert_eq!(committed.sequence.get(), before.sequence.get() + number);
    }
    drop(store);
    let again = open(disk).snapshot().await.unwrap();
    assert_eq!(again.state.live_streams().count(), 3);
}
