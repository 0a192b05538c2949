//! What a story is about, drawn from its seed: the mesh, its stream, and how the disk fails.

use crate::DirtyBounds;
use crate::disk::memory::Faults;
use crate::tests::Rig;
use felix_core::limits::SEGMENT_AGE;
use felix_core::{Durability, Generation, Retention, Timestamps};
use std::num::NonZeroU64;
use std::time::Duration;

/// The mesh and its stream.
pub(super) fn rig(random: &mut fastrand::Rng) -> Rig {
    let cores = random.u16(1..=3);
    let policies = [
        Durability::OnCommit,
        Durability::OnCommit,
        Durability::Periodic,
        Durability::None,
    ];
    let durability = policies[random.usize(..policies.len())];
    // Large enough, a segment has space prepared.
    let segment_bytes_max = match random.u8(..4) {
        0 => random.u64(6_000..200_000),
        _ => random.u64(500..6000),
    };
    Rig {
        shards: u32::from(cores) + random.u32(..2),
        tail_bytes_max: [0, 2000, 8 << 20][random.usize(..3)],
        segment_bytes_max,
        flush_interval: Duration::from_millis(random.u64(1..20)),
        verify_on_open: random.u8(..8) == 0,
        retention: retention(random),
        retention_interval: Duration::from_millis(random.u64(1..20)),
        files_max: [2, usize::MAX][random.usize(..2)],
        index_interval_bytes: [1, 100, 500, 4096][random.usize(..4)],
        free_bytes_min: [None, Some(0), Some(1 << 20)][random.usize(..3)],
        timestamps: [Timestamps::Append, Timestamps::Create][random.usize(..2)],
        segment_age: segment_age(random),
        dirty: dirty(random),
        // Every batch, some, or none.
        write_on_core_bytes_max: [0, 250, usize::MAX][random.usize(..3)],
        ..Rig::new(cores, durability)
    }
}

/// The generation that is noted beside the logs at the beginning; `None`: openings are noted in the
/// logs alone.
pub(super) fn noted(random: &mut fastrand::Rng) -> Option<Generation> {
    (random.u8(..4) > 0).then(|| Generation::new(random.u32(..100)))
}

/// How far ahead of the broker's the clocks of some producers may be.
pub(super) fn ahead(random: &mut fastrand::Rng) -> Option<Duration> {
    (random.u8(..3) == 0).then(|| Duration::from_millis(random.u64(1..10_000)))
}

/// Of a shard: most are as the others of the story.
pub(super) fn policy(random: &mut fastrand::Rng, durability: Durability) -> Durability {
    match random.u8(..8) {
        0 => Durability::OnCommit,
        1 => Durability::Periodic,
        2 => Durability::None,
        _ => durability,
    }
}

fn retention(random: &mut fastrand::Rng) -> Retention {
    let mut seldom = |of: u64| (random.u8(..6) == 0).then(|| random.u64(1..of));
    Retention {
        bytes: seldom(20_000).and_then(NonZeroU64::new),
        age: seldom(400).map(Duration::from_millis),
    }
}

/// Most segments are sealed because they are full.
fn segment_age(random: &mut fastrand::Rng) -> Duration {
    match random.u8(..3) {
        0 => Duration::from_millis(random.u64(1..40)),
        _ => SEGMENT_AGE,
    }
}

/// As if there were no bounds, or so that rounds begin early and appends wait.
fn dirty(random: &mut fastrand::Rng) -> DirtyBounds {
    let (soft_bytes, more) = match random.u8(..3) {
        0 => (1 << 30, 0),
        _ => (random.u64(500..3000), random.u64(..3000)),
    };
    DirtyBounds {
        soft_bytes,
        hard_bytes: soft_bytes + more,
    }
}

/// How the disk fails in a life; `None`: not at all.
pub(super) fn faults(random: &mut fastrand::Rng) -> Option<Faults> {
    match random.u8(..12) {
        0..6 => None,
        6 => Some(Faults {
            capacity: capacity(random),
            ..Faults::default()
        }),
        _ => Some(all_faults(random)),
    }
}

fn capacity(random: &mut fastrand::Rng) -> Option<usize> {
    Some(random.usize(2_000..60_000))
}

fn all_faults(random: &mut fastrand::Rng) -> Faults {
    let slow_write_us = [0, 100, 10_000][random.usize(..3)];
    let mut chance = |of: u32| if random.u8(..4) == 0 { of } else { 0 };
    let faults = Faults {
        write: chance(50),
        create: chance(50),
        remove: chance(100),
        list: chance(100),
        read: chance(50),
        flush: chance(200),
        sync: chance(300),
        stall: chance(300),
        slow: Duration::from_millis(20),
        slow_write: Duration::from_micros(slow_write_us),
        descriptors: chance(50),
        names: chance(300),
        ..Faults::default()
    };
    let capacity = match random.u8(..6) {
        0 => capacity(random),
        _ => None,
    };
    let faults = Faults { capacity, ..faults };
    // Word of a failed flush is a file, which an opening has to find: a disk on which it cannot be
    // made asks for a restart of the machine, and is none that a story goes on with.
    let loses_words = faults.flush > 0 || faults.sync > 0;
    let create = if loses_words { 0 } else { faults.create };
    Faults { create, ..faults }
}
