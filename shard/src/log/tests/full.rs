//! Letting go of what is not kept on a disk that has not a byte left, which is when it is wanted.

use super::*;
use crate::disk::memory::{Faults, MemoryDisk};
use crate::runtime;
use crate::runtime::simulated::Simulation;
use felix_core::Retention;
use futures_util::future::{Either, select};
use std::num::NonZeroU64;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

const DIR: &str = "/log";

const KEPT: Retention = Retention {
    bytes: NonZeroU64::new(1500),
    age: None,
};

async fn opened() -> Log {
    let opened = Log::open(Path::new(DIR), SMALL, restart()).await;
    opened.unwrap().0
}

/// Nothing more fits on the disk than is there.
fn fill(disk: &MemoryDisk) {
    disk.set_faults(Faults {
        capacity: Some(disk.bytes()),
        ..Faults::default()
    });
}

/// So many batches, some to a segment, with index files and a checkpoint; and more, of which only the
/// batches are durable. Then the disk is full.
async fn full(disk: &MemoryDisk, kept_up: usize, more: usize) -> (Log, Vec<PlacedBatch>) {
    let mut log = opened().await;
    let mut batches: Vec<_> = (0..kept_up).map(|_| append(&mut log, 2, 120)).collect();
    flush(&mut log).await;
    if log.upkeep().is_some() {
        keep_up(&mut log).await;
    }
    batches.extend((0..more).map(|_| append(&mut log, 2, 120)));
    if let Some(flush) = log.flush() {
        let flushed = flush.run().await;
        log.flushed(flushed).unwrap();
    }
    fill(disk);
    (log, batches)
}

async fn assert_kept(log: &Log, batches: &[PlacedBatch]) {
    let kept = batches.iter();
    let kept: Vec<_> = kept
        .filter(|batch| batch.base_offset() >= log.start())
        .cloned()
        .collect();
    assert_holds(log, &kept).await;
}

/// The bytes that are free again.
async fn remove(log: &mut Log) -> u64 {
    let mut removal = log.removal().expect("there is something to remove");
    let mut freed = 0;
    while let Some(remains) = removal.next().await {
        freed += remains.remove(|| true).await.unwrap();
    }
    freed
}

#[test]
fn the_log_start_moves_on_a_full_disk_and_appends_have_the_space() {
    let simulation = Simulation::new(1);
    let disk = Rc::clone(simulation.disk());
    simulation.run(async move {
        let (mut log, mut batches) = full(&disk, 20, 0).await;
        let before = disk.bytes();
        log.retain(KEPT, NOW);
        keep_up(&mut log).await;
        assert!(log.start() > Offset::ZERO && !log.owes_start());
        assert!(disk.bytes() <= before);
        assert_kept(&log, &batches).await;
        assert!(remove(&mut log).await > 1000);
        batches.push(append(&mut log, 2, 120));
        flush(&mut log).await;
        let start = log.start();
        kill(log);
        let log = opened().await;
        assert_eq!(log.start(), start);
        assert_kept(&log, &batches).await;
    });
}

#[test]
fn what_no_checkpoint_covers_is_let_go_of_once_there_is_space_for_one() {
    let simulation = Simulation::new(2);
    let disk = Rc::clone(simulation.disk());
    simulation.run(async move {
        let (mut log, batches) = full(&disk, 14, 20).await;
        log.retain(KEPT, NOW);
        let covered = log.recovery_point();
        keep_up(&mut log).await;
        let start = log.start();
        assert!(start > Offset::ZERO && start <= covered);
        assert!(log.owes_start() && log.is_unindexed());
        assert_eq!(log.recovery_point(), covered, "nothing new is claimed");
        let nothing_left = log.upkeep().unwrap().run().await;
        assert!(log.kept_up(nothing_left).unwrap_err().is_full());

        assert!(remove(&mut log).await > 0);
        keep_up(&mut log).await;
        assert!(log.start() > covered && !log.owes_start() && !log.is_unindexed());
        assert_kept(&log, &batches).await;
    });
}

#[test]
fn a_log_that_is_closed_on_a_full_disk_says_so_and_is_whole_at_the_next_opening() {
    let simulation = Simulation::new(3);
    let disk = Rc::clone(simulation.disk());
    simulation.run(async move {
        let (mut log, batches) = full(&disk, 14, 20).await;
        log.retain(KEPT, NOW);
        assert!(log.close().await.unwrap_err().is_full());
        disk.set_faults(Faults::default());
        let log = opened().await;
        assert!(
            log.start() > Offset::ZERO,
            "as much as could be was let go of"
        );
        assert_kept(&log, &batches).await;
    });
}

#[test]
fn a_crash_while_the_start_moves_on_a_full_disk_leaves_the_old_start_or_the_new() {
    let mut moved = 0;
    const SEEDS: u64 = 200;
    for seed in 0..SEEDS {
        let simulation = Simulation::new(seed);
        let disk = Rc::clone(simulation.disk());
        let until = simulation.draw(|random| Duration::from_micros(random.u64(..3000)));
        let batches = simulation.run(async move {
            let (mut log, batches) = full(&disk, 12, 8).await;
            log.retain(KEPT, NOW);
            let upkeep = pin!(log.upkeep().unwrap().run());
            let end = pin!(runtime::sleep(until));
            if let Either::Left(_) = select(upkeep, end).await {}
            batches
        });
        let disk = Rc::clone(simulation.disk());
        simulation.draw(|random| disk.lose_power_by_chance(random));
        disk.set_faults(Faults::default());
        moved += simulation.run(async move {
            let mut log = opened().await;
            assert_kept(&log, &batches).await;
            let moved = u64::from(log.start() > Offset::ZERO);
            log.retain(KEPT, NOW);
            if log.upkeep().is_some() {
                keep_up(&mut log).await;
            }
            assert!(log.start() > Offset::ZERO && remove(&mut log).await > 0);
            assert_kept(&log, &batches).await;
            moved
        });
    }
    assert!(moved > 0 && moved < SEEDS, "{moved}");
}
