//! Next segments that are made ahead: a roll only changes over, and no crash takes what was flushed,
//! nor a kill what was written, whatever is left of the names.

use super::*;
use crate::runtime;
use crate::runtime::simulated::{self, Simulation};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

/// Appends until the next segment is wanted, and makes it.
async fn make_next(log: &mut Log, batches: &mut Vec<PlacedBatch>) {
    while !log.wants_next() {
        batches.push(append(log, 1, 100));
    }
    let next = log.making_next().unwrap().run().await.unwrap();
    log.made_next(next);
    assert!(log.making_next().is_none(), "one is enough");
}

fn roll(log: &mut Log, batches: &mut Vec<PlacedBatch>) {
    let before = log.segment_count();
    while log.segment_count() == before {
        batches.push(append(log, 1, 100));
    }
}

/// How many files of segments there are, and of those without names of their own.
fn count(dir: &TempDir) -> (usize, usize) {
    (files(dir, "log").len(), files(dir, "next").len())
}

#[test]
fn a_roll_takes_the_file_that_was_made_and_the_next_flush_gives_it_its_name() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let ((mut log, _), mut batches) = (open(&dir, SMALL).await, Vec::new());
        for rolls in 1..5 {
            make_next(&mut log, &mut batches).await;
            assert_eq!(count(&dir), (rolls, 1));
            roll(&mut log, &mut batches);
            assert!(log.is_rolled_ahead());
            assert_eq!(
                count(&dir),
                (rolls, 1),
                "nothing was asked of the directory"
            );
            assert!(!log.wants_next());
            assert_eq!(all_bytes(&read_all(&log).await), all_bytes(&batches));
            flush(&mut log).await;
            assert_eq!(count(&dir), (rolls + 1, 0));
            assert!(!log.is_rolled_ahead());
            assert_holds(&log, &batches).await;
        }
        make_next(&mut log, &mut batches).await;
        log.close().await.unwrap();
        assert_eq!(count(&dir), (5, 0), "a closing leaves none");
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!(recovery.abandoned_rolls, 0);
        assert_holds(&log, &batches).await;
    });
}

#[test]
fn a_kill_before_the_roll_leaves_a_file_that_is_removed_and_one_after_it_a_segment() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let ((mut log, _), mut batches) = (open(&dir, SMALL).await, Vec::new());
        make_next(&mut log, &mut batches).await;
        kill(log);
        let (mut log, recovery) = open(&dir, SMALL).await;
        assert_eq!(recovery.abandoned_rolls, 1);
        assert_eq!(count(&dir), (1, 0));
        make_next(&mut log, &mut batches).await;
        roll(&mut log, &mut batches);
        kill(log);
        assert_eq!(count(&dir), (1, 1));
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!((recovery.abandoned_rolls, recovery.cut_bytes), (0, 0));
        assert_eq!(count(&dir), (2, 0));
        assert_holds(&log, &batches).await;
    });
}

#[test]
fn prepared_space_in_a_file_that_no_segment_began_in_is_no_segment() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let config = LogConfig {
            segment_bytes_max: 40_000,
            ..SMALL
        };
        let ((mut log, _), mut batches) = (open(&dir, config).await, Vec::new());
        make_next(&mut log, &mut batches).await;
        let size = files(&dir, "next")[0].metadata().unwrap().len();
        assert_eq!(size, config.segment_bytes_max);
        kill(log);
        let (mut log, recovery) = open(&dir, config).await;
        assert_eq!((recovery.abandoned_rolls, recovery.cut_bytes), (1, 0));
        assert_holds(&log, &batches).await;
        // Where one began, it is written into.
        roll(&mut log, &mut batches);
        make_next(&mut log, &mut batches).await;
        roll(&mut log, &mut batches);
        assert!(log.prepared_bytes() > 0);
        kill(log);
        let (log, _) = open(&dir, config).await;
        assert_holds(&log, &batches).await;
    });
}

#[test]
fn a_roll_that_comes_before_the_name_gives_it_and_makes_its_own_file() {
    run(async {
        for is_flushing in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let ((mut log, _), mut batches) = (open(&dir, SMALL).await, Vec::new());
            make_next(&mut log, &mut batches).await;
            roll(&mut log, &mut batches);
            let flush = is_flushing.then(|| log.flush().unwrap());
            roll(&mut log, &mut batches);
            assert_eq!(count(&dir), (3, 0));
            assert!(!log.is_rolled_ahead());
            if let Some(flush) = flush {
                // The name is there already.
                let flushed = flush.run().await;
                log.flushed(flushed).unwrap();
            }
            super::flush(&mut log).await;
            assert_holds(&log, &batches).await;
            kill(log);
            let (log, _) = open(&dir, SMALL).await;
            assert_holds(&log, &batches).await;
        }
    });
}

#[test]
fn a_file_that_cannot_be_made_ahead_is_made_by_the_roll() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let ((mut log, _), mut batches) = (open(&dir, SMALL).await, Vec::new());
        while !log.wants_next() {
            batches.push(append(&mut log, 1, 100));
        }
        let making = log.making_next().unwrap();
        let name = dir.path().join(format!("{:020}.next", log.end().get()));
        std::fs::write(&name, "in the way").unwrap();
        making.run().await.unwrap_err();
        roll(&mut log, &mut batches);
        flush(&mut log).await;
        assert_holds(&log, &batches).await;
        kill(log);
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!(recovery.abandoned_rolls, 1);
        assert_holds(&log, &batches).await;
    });
}

/// What a life of a log has written, and how many batches of it are flushed.
#[derive(Default)]
struct Written {
    batches: RefCell<Vec<PlacedBatch>>,
    flushed: Cell<usize>,
}

fn draw(most: usize) -> usize {
    let simulation = simulated::current().unwrap();
    simulation.draw(|random| random.usize(..most))
}

async fn open_simulated() -> Log {
    let opened = Log::open(Path::new("/data/log"), SMALL, restart()).await;
    opened.unwrap().0
}

/// Appends, makes next segments and flushes, until the process ends amid some of it.
async fn live(written: Rc<Written>) {
    let log = Rc::new(RefCell::new(open_simulated().await));
    for _ in 0..draw(60) {
        let placed = append(&mut log.borrow_mut(), 1, 100);
        written.batches.borrow_mut().push(placed);
        if draw(2) == 0 {
            let making = log.borrow().making_next();
            if let Some(making) = making {
                let next = making.run().await.unwrap();
                log.borrow_mut().made_next(next);
            }
        }
        if draw(6) == 0 {
            let covered = written.batches.borrow().len();
            let (flushing, covers) = (Rc::clone(&log), Rc::clone(&written));
            let flush = log.borrow().flush().unwrap();
            let task = runtime::spawn_local(async move {
                let flushed = flush.run().await;
                flushing.borrow_mut().flushed(flushed).unwrap();
                covers.flushed.set(covered);
            });
            if draw(4) == 0 {
                runtime::sleep(Duration::from_micros(draw(1500) as u64)).await;
                return;
            }
            // Batches are written, and segments rolled, while a flush is under way.
            for _ in 0..draw(12) {
                let placed = append(&mut log.borrow_mut(), 1, 100);
                written.batches.borrow_mut().push(placed);
                runtime::breathe().await;
            }
            task.join().await;
        }
    }
}

#[test]
fn whatever_names_a_power_loss_leaves_what_was_flushed_is_there_and_nothing_out_of_order() {
    let mut rolls_ahead = 0;
    for seed in 0..400 {
        let simulation = Simulation::new(seed);
        let written: Rc<Written> = Rc::default();
        for life in 0..4 {
            simulation.run(live(Rc::clone(&written)));
            let is_kill = simulation.draw(|random| random.u8(..4)) == 0;
            if !is_kill {
                let mut random = fastrand::Rng::with_seed(seed * 10 + life);
                simulation.disk().lose_power_by_chance(&mut random);
            }
            let (seen, rolled) = (Rc::clone(&written), Rc::new(Cell::new(0)));
            let counted = Rc::clone(&rolled);
            simulation.run(async move {
                let log = open_simulated().await;
                let found = all_bytes(&read_all(&log).await);
                let mut batches = seen.batches.borrow_mut();
                assert!(found.len() >= seen.flushed.get(), "seed {seed}: lost");
                assert!(
                    !is_kill || found.len() == batches.len(),
                    "seed {seed}: a kill"
                );
                assert!(found == all_bytes(&batches)[..found.len()], "seed {seed}");
                // All of it is durable now.
                batches.truncate(found.len());
                seen.flushed.set(found.len());
                counted.set(log.segment_count());
            });
            rolls_ahead += rolled.get();
        }
    }
    assert!(rolls_ahead > 3000, "{rolls_ahead} segments were seen");
}

#[test]
fn what_a_torn_first_batch_takes_with_it_is_counted() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let ((mut log, _), mut batches) = (open(&dir, SMALL).await, Vec::new());
        make_next(&mut log, &mut batches).await;
        roll(&mut log, &mut batches);
        kill(log);
        let next = files(&dir, "next").pop().unwrap();
        let mut bytes = std::fs::read(&next).unwrap();
        bytes[16] ^= 1;
        std::fs::write(&next, bytes).unwrap();
        let (log, recovery) = open(&dir, SMALL).await;
        let lost = batches.pop().unwrap();
        let last = lost.bytes().iter().rposition(|byte| *byte != 0).unwrap();
        assert_eq!(recovery.abandoned_rolls, 1);
        assert_eq!(recovery.cut_bytes, last as u64 + 1);
        assert_holds(&log, &batches).await;
    });
}

#[test]
fn a_log_that_is_refused_keeps_the_file_in_which_no_segment_began() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let ((mut log, _), mut batches) = (open(&dir, SMALL).await, Vec::new());
        roll(&mut log, &mut batches);
        log.close().await.unwrap();
        let (mut log, _) = open(&dir, SMALL).await;
        make_next(&mut log, &mut batches).await;
        kill(log);
        let next = files(&dir, "next").pop().unwrap();
        std::fs::write(&next, b"a torn batch").unwrap();
        let first = files(&dir, "log").remove(0);
        let elsewhere = tempfile::tempdir().unwrap();
        let moved = elsewhere.path().join("segment");
        std::fs::rename(&first, &moved).unwrap();
        for _ in 0..2 {
            let refused = Log::open(dir.path(), SMALL, restart()).await.unwrap_err();
            assert!(matches!(refused, LogError::Damaged { .. }), "{refused}");
            assert_eq!(std::fs::read(&next).unwrap(), b"a torn batch");
        }
        std::fs::rename(&moved, &first).unwrap();
        let (log, recovery) = open(&dir, SMALL).await;
        assert_eq!(recovery.abandoned_rolls, 1);
        assert!(files(&dir, "next").is_empty());
        assert_holds(&log, &batches).await;
    });
}
