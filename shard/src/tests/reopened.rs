//! What is not kept of a shard goes, though the shard fails meanwhile and is opened again.

use super::simulated::{life, life_of_core};
use super::{Never, Rig, batches, metric};
use crate::disk::Dir;
use crate::disk::memory::{Faults, MemoryDisk};
use crate::runtime::simulated::{self, SimulatedClock, Simulation};
use crate::{Core, Router, runtime};
use felix_core::batch::BatchBuilder;
use felix_core::shards::{Acks, Append, Fetch, FetchPart, ShardState};
use felix_core::{
    Batch, Clock, Durability, Monotonic, Offset, Retention, ShardError, ShardId, Shards,
};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// A batch has a segment of its own.
const BATCH_BYTES: usize = 40 << 10;
const SEGMENT_BYTES: u64 = 64 << 10;

const STEP: Duration = Duration::from_millis(100);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn rig(retention: Retention) -> Rig {
    Rig {
        segment_bytes_max: SEGMENT_BYTES,
        retention,
        retention_interval: MINUTE,
        ..Rig::new(1, Durability::OnCommit)
    }
}

async fn append(router: &Router, shard: ShardId) -> Result<Offset, ShardError> {
    let value = vec![b'x'; BATCH_BYTES];
    let simulation = simulated::current().expect("these are simulated");
    let now = SimulatedClock(simulation).wall();
    let builder = BatchBuilder::new().record(now, None, Some(&value));
    let batch = Batch::parse(builder.build()).unwrap();
    let append = Append { shard, batch };
    let committed = router.append(vec![append], Acks::All).await;
    Ok(committed.await.remove(0)?.base_offset)
}

/// Waits until the shard is served, which it is at most two attempts after its disk is well.
async fn opened(router: &Router, shard: ShardId) {
    for _ in 0..180 {
        if matches!(router.state(shard), Some(ShardState::Open(_))) {
            return;
        }
        runtime::sleep(Duration::from_secs(1)).await;
    }
    panic!("it was not opened again: {:?}", router.failures());
}

/// Where the log begins and ends, as a reader finds it, who reads all of it.
async fn bounds(router: &Router, shard: ShardId) -> [Offset; 2] {
    let mut offset = Offset::ZERO;
    let mut bounds = None;
    loop {
        let fetch = Fetch {
            first_bytes_max: 1 << 20,
            parts: vec![FetchPart {
                shard,
                offset,
                bytes_max: 1 << 20,
                generation: None,
            }],
            bytes_min: 0,
            bytes_max: 1 << 20,
            deadline: Monotonic(Duration::ZERO),
        };
        let fetched = match router.fetch(fetch, Never).await.remove(0) {
            Err(ShardError::OffsetOutOfRange { log_start, .. }) => {
                offset = log_start;
                continue;
            }
            fetched => fetched.unwrap(),
        };
        let found = batches(&fetched);
        for batch in &found {
            assert_eq!(batch.base_offset(), offset, "nothing is missing");
            offset = batch.next_offset();
        }
        bounds = bounds.or(Some(fetched.log_start));
        if found.is_empty() {
            assert_eq!(offset, fetched.visible_end);
            return [bounds.expect("it was just set"), offset];
        }
    }
}

/// Base offsets of the segments on the disk.
async fn segments(rig: Rig) -> Vec<u64> {
    let spec = rig.specs(Path::new("/data")).remove(0);
    let dir = Dir::open(&spec.directory).await.unwrap();
    let names = dir.aside(|calls| calls.list()).await.unwrap();
    let names = names.iter().map(|name| name.to_str().unwrap());
    names
        .filter_map(|name| name.strip_suffix(".log"))
        .map(|base| base.parse().unwrap())
        .collect()
}

#[test]
fn retention_by_bytes_goes_on_whenever_the_shard_failed_in_it_and_leaves_no_file_behind() {
    let rig = rig(Retention {
        bytes: NonZeroU64::new(2 * SEGMENT_BYTES),
        age: None,
    });
    let failures = Rc::new(Cell::new(0));
    for seed in 0..40 {
        let simulation = Simulation::new(seed);
        let disk = Rc::clone(simulation.disk());
        let counted = Rc::clone(&failures);
        life(&simulation, rig, move |router, shard| async move {
            let mut last = Offset::ZERO;
            for _ in 0..4 {
                disk.set_faults(Faults {
                    flush: 500,
                    stall: 3000,
                    slow: Duration::from_millis(20),
                    ..Faults::default()
                });
                for _ in 0..12 {
                    if let Ok(offset) = append(&router, shard).await {
                        last = offset;
                    }
                }
                if router.state(shard) == Some(ShardState::Failed) {
                    counted.set(counted.get() + 1);
                }
                disk.set_faults(Faults::default());
                opened(&router, shard).await;
            }
            for _ in 0..6 {
                last = append(&router, shard).await.unwrap();
            }
            runtime::sleep(2 * MINUTE).await;
            let [start, end] = bounds(&router, shard).await;
            assert_eq!(end, last.after(1));
            // Three of them are 120 KiB, which is less than what is kept.
            let kept: Vec<u64> = (end.get() - 4..end.get()).collect();
            assert_eq!(start.get(), kept[0]);
            assert_eq!(segments(rig).await, kept);
        });
    }
    assert!(failures.get() > 20, "{} failures", failures.get());
}

#[test]
fn what_became_too_old_while_the_shard_served_nothing_goes_when_it_is_opened_again() {
    let rig = rig(Retention {
        bytes: None,
        age: Some(HOUR),
    });
    let simulation = Simulation::new(1);
    let disk = Rc::clone(simulation.disk());
    life(&simulation, rig, move |router, shard| async move {
        for _ in 0..4 {
            append(&router, shard).await.unwrap();
        }
        disk.set_faults(Faults {
            flush: 10_000,
            ..Faults::default()
        });
        assert!(append(&router, shard).await.is_err());
        runtime::sleep(2 * HOUR).await;
        assert_eq!(router.state(shard), Some(ShardState::Failed));
        assert_eq!(segments(rig).await[0], 0, "nothing goes meanwhile");
        disk.set_faults(Faults::default());
        opened(&router, shard).await;
        runtime::sleep(MINUTE).await;
        let [start, end] = bounds(&router, shard).await;
        assert!(end >= Offset::new(4), "what was acknowledged was there");
        assert_eq!(segments(rig).await, [start.get()]);
        assert_eq!(start.after(1), end, "the one that grows stays");
    });
}

#[test]
fn a_failed_flush_is_made_up_for_though_the_disk_did_not_even_take_word_of_it() {
    let rig = Rig {
        durability: Durability::Periodic,
        segment_bytes_max: 1 << 20,
        ..rig(Retention::default())
    };
    let simulation = Simulation::new(3);
    let disk = Rc::clone(simulation.disk());
    life(&simulation, rig, move |router, shard| async move {
        append(&router, shard).await.unwrap();
        disk.set_faults(Faults {
            flush: 10_000,
            create: 10_000,
            ..Faults::default()
        });
        append(&router, shard).await.unwrap();
        while !matches!(router.state(shard), Some(ShardState::Failed)) {
            runtime::sleep(Duration::from_millis(1)).await;
        }
        disk.set_faults(Faults::default());
        opened(&router, shard).await;
    });
    simulation.disk().lose_power();
    life(&simulation, rig, |router, shard| async move {
        opened(&router, shard).await;
        assert_eq!(bounds(&router, shard).await, [0, 2].map(Offset::new));
    });
}

/// Appends three batches that the disk fails to flush, and waits until the shard is open again, which
/// the disk lets happen at the second attempt. Where the log ended before, and where it ends now.
async fn fails(core: &Core, disk: &MemoryDisk, shard: ShardId) -> [Offset; 2] {
    let router = core.router();
    while metric(core, "felix_storage_unsynced_bytes") > 0 {
        runtime::sleep(Duration::from_millis(1)).await;
    }
    let [_, before] = bounds(&router, shard).await;
    disk.set_faults(Faults {
        flush: 10_000,
        ..Faults::default()
    });
    let mut taken = 0;
    for _ in 0..3 {
        taken += u64::from(append(&router, shard).await.is_ok());
    }
    while !matches!(router.state(shard), Some(ShardState::Failed)) {
        runtime::sleep(Duration::from_millis(1)).await;
    }
    let attempts = || metric(core, "felix_shard_reopen_failures_total");
    let first = attempts();
    while attempts() == first {
        runtime::sleep(STEP).await;
    }
    // The kernel needs the pages, which it takes for clean.
    disk.lose_power();
    disk.set_faults(Faults::default());
    opened(&router, shard).await;
    let [_, end] = bounds(&router, shard).await;
    [before.after(taken), end]
}

#[test]
fn acknowledged_records_that_the_disk_lost_are_counted_when_a_shard_is_opened_again() {
    for durability in [Durability::Periodic, Durability::OnCommit] {
        let rig = Rig {
            durability,
            segment_bytes_max: 1 << 20,
            ..rig(Retention::default())
        };
        let all = Rc::new(Cell::new(0));
        for seed in 0..8 {
            let simulation = Simulation::new(seed);
            let disk = Rc::clone(simulation.disk());
            let all = Rc::clone(&all);
            life_of_core(&simulation, rig, &[rig], move |core| async move {
                let shard = rig.stream().shard_ids().next().expect("it has one");
                append(&core.router(), shard).await.unwrap();
                let mut lost = 0;
                for _ in 0..2 {
                    let [acknowledged, end] = fails(&core, &disk, shard).await;
                    lost += (acknowledged.to_wire() - end.to_wire()).max(0);
                    let told = metric(&core, "felix_shard_lost_records_total");
                    assert_eq!(told, lost, "{acknowledged:?} {end:?}");
                }
                all.set(all.get() + lost);
            });
        }
        // What an `on_commit` shard did not flush it has not acknowledged.
        assert_eq!(all.get() > 0, durability == Durability::Periodic);
    }
}

#[test]
fn shards_that_failed_together_write_their_segments_once_more_one_after_the_other() {
    let rig = Rig {
        shards: 4,
        segment_bytes_max: 1 << 20,
        ..rig(Retention::default())
    };
    let simulation = Simulation::new(4);
    let disk = Rc::clone(simulation.disk());
    life_of_core(&simulation, rig, &[rig], move |core| async move {
        let router = core.router();
        let shards: Vec<_> = rig.stream().shard_ids().collect();
        for shard in &shards {
            for _ in 0..4 {
                append(&router, *shard).await.unwrap();
            }
        }
        disk.set_faults(Faults {
            write: 10_000,
            ..Faults::default()
        });
        for shard in &shards {
            append(&router, *shard).await.unwrap_err();
        }
        let mut largest = 0;
        for spec in rig.specs(Path::new("/data")) {
            let dir = Dir::open(&spec.directory).await.unwrap();
            let segment = dir.size_of(&format!("{:020}.log", 0)).unwrap().unwrap();
            largest = largest.max(usize::try_from(segment).unwrap());
        }
        // There is space for one, and for the small files.
        disk.set_faults(Faults {
            capacity: Some(disk.bytes() + largest + (8 << 10)),
            ..Faults::default()
        });
        for shard in &shards {
            opened(&router, *shard).await;
            assert_eq!(bounds(&router, *shard).await, [0, 4].map(Offset::new));
        }
        assert_eq!(metric(&core, "felix_shard_reopened_total"), 4);
        assert_eq!(metric(&core, "felix_shard_reopen_failures_total"), 0);
    });
}

#[test]
fn a_shard_that_fails_again_soon_is_left_alone_for_longer_each_time() {
    let rig = rig(Retention::default());
    let simulation = Simulation::new(9);
    let disk = Rc::clone(simulation.disk());
    life(&simulation, rig, move |router, shard| async move {
        // How long it takes to be open again after it failed.
        let fail = async || {
            disk.set_faults(Faults {
                write: 10_000,
                ..Faults::default()
            });
            append(&router, shard).await.unwrap_err();
            disk.set_faults(Faults::default());
            let mut pause = Duration::ZERO;
            while router.state(shard) != Some(ShardState::Failed) || pause.is_zero() {
                runtime::sleep(STEP).await;
                pause += STEP;
            }
            while router.state(shard) == Some(ShardState::Failed) {
                runtime::sleep(STEP).await;
                pause += STEP;
            }
            append(&router, shard).await.unwrap();
            pause.as_secs()
        };
        for seconds in [1, 2, 4, 8] {
            assert_eq!(fail().await, seconds);
        }
        runtime::sleep(MINUTE).await;
        assert_eq!(fail().await, 1);
    });
}
