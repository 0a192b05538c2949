//! What the system refuses before it has begun, for want of space or of descriptors, puts nothing in
//! doubt: the log is as it was, and the same is asked for again.

use super::*;
use crate::disk::memory::{Faults, MemoryDisk};
use crate::runtime::simulated::Simulation;
use std::path::Path;

const DIR: &str = "/log";

const NO_DESCRIPTORS: Faults = faults(10_000, 0);
const NO_NAMES: Faults = faults(0, 10_000);

const fn faults(descriptors: u32, names: u32) -> Faults {
    Faults {
        descriptors,
        names,
        ..Faults::NONE
    }
}

async fn opened() -> Log {
    let opened = Log::open(Path::new(DIR), SMALL, restart()).await;
    opened.unwrap().0
}

async fn assert_nothing_failed(log: Log, batches: &[PlacedBatch]) {
    assert_holds(&log, batches).await;
    let dir = Rc::clone(&log.dir);
    assert_eq!(dir.size_of("failed").unwrap(), None);
    kill(log);
    assert_holds(&opened().await, batches).await;
}

/// A log with a roll in the file that was made ahead, which has no name of its own yet.
async fn rolled_ahead() -> (Log, Vec<PlacedBatch>) {
    let (mut log, mut batches) = (opened().await, Vec::new());
    while !log.wants_next() {
        batches.push(append(&mut log, 1, 100));
    }
    let next = log.making_next().unwrap().run().await.unwrap();
    log.made_next(next);
    while !log.is_rolled_ahead() {
        batches.push(append(&mut log, 1, 100));
    }
    (log, batches)
}

fn simulate<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rc<MemoryDisk>) -> F) {
    let simulation = Simulation::new(1);
    let disk = Rc::clone(simulation.disk());
    simulation.run(test(disk));
}

#[test]
fn an_append_whose_file_cannot_be_opened_is_refused_by_name_of_the_limit() {
    simulate(|disk| async move {
        let mut log = opened().await;
        let mut batches = vec![append(&mut log, 1, 700)];
        flush(&mut log).await;
        // The second one needs a file of its own.
        for bytes in [10, 700] {
            disk.set_faults(NO_DESCRIPTORS);
            let refused = log.append(batch(&[5], bytes), Timestamps::Append, NOW);
            let error = refused.unwrap_err();
            assert!(error.is_out_of_files() && !error.leaves_doubt(), "{error}");
            assert!(error.to_string().contains("NOFILE"), "{error}");
            disk.set_faults(Faults::default());
            batches.push(append(&mut log, 1, bytes));
            flush(&mut log).await;
        }
        assert_nothing_failed(log, &batches).await;
    });
}

#[test]
fn a_flush_that_cannot_give_a_file_its_name_or_open_one_is_done_by_the_next() {
    for faults in [NO_NAMES, NO_DESCRIPTORS] {
        simulate(|disk| async move {
            let (mut log, mut batches) = rolled_ahead().await;
            disk.set_faults(faults);
            for _ in 0..2 {
                let durable_end = log.durable_end();
                let refused = log.flush().unwrap().run().await;
                let error = log.flushed(refused).unwrap_err();
                assert!(error.is_refusal() && !error.leaves_doubt(), "{error}");
                assert_eq!(log.durable_end(), durable_end);
                assert!(log.is_dirty());
            }
            disk.set_faults(Faults::default());
            batches.push(append(&mut log, 1, 100));
            flush(&mut log).await;
            assert_eq!(log.durable_end(), log.end());
            disk.lose_power();
            assert_nothing_failed(log, &batches).await;
        });
    }
}

#[test]
fn a_generation_that_cannot_be_noted_is_refused_and_noted_later() {
    simulate(|disk| async move {
        let mut log = opened().await;
        let batches = [append(&mut log, 1, 100)];
        log.close().await.unwrap();
        let noted = Opening {
            generation_floor: Generation::new(9),
            is_floor_noted: true,
            ..restart()
        };
        let (mut log, _) = Log::open(Path::new(DIR), SMALL, noted).await.unwrap();
        disk.set_faults(NO_DESCRIPTORS);
        let refused = log.saving().unwrap().run().await;
        assert!(log.saved(refused).unwrap_err().is_out_of_files());
        disk.set_faults(Faults::default());
        let saved = log.saving().unwrap().run().await;
        log.saved(saved).unwrap();
        assert_nothing_failed(log, &batches).await;
    });
}

#[test]
fn a_flush_of_several_files_hears_of_each_before_it_says_what_became_of_them() {
    let mut poisoned = 0;
    let mut refused = 0;
    for seed in 0..200 {
        let simulation = Simulation::new(seed);
        let disk = Rc::clone(simulation.disk());
        let ended = simulation.run(async move {
            let mut log = opened().await;
            for _ in 0..6 {
                append(&mut log, 1, 700);
            }
            disk.set_faults(Faults {
                flush: 1500,
                ..faults(3000, 0)
            });
            let flushed = log.flush().unwrap().run().await;
            assert_eq!(disk.flushing.get(), 0, "seed {seed}: one was left alone");
            let failed = flushed.as_ref().err().map(LogError::is_refusal);
            if log.flushed(flushed).is_err() {
                assert_eq!(log.is_dirty(), failed == Some(true));
            }
            failed
        });
        poisoned += u32::from(ended == Some(false));
        refused += u32::from(ended == Some(true));
    }
    assert!(poisoned > 20 && refused > 20, "{poisoned}, {refused}");
}

#[test]
fn what_was_lost_counts_before_what_was_refused_beside_it() {
    let mut both = 0;
    for seed in 0..200 {
        let simulation = Simulation::new(seed);
        let disk = Rc::clone(simulation.disk());
        both += simulation.run(async move {
            let mut log = opened().await;
            let batches: Vec<_> = (0..6).map(|_| append(&mut log, 1, 700)).collect();
            disk.set_faults(Faults {
                flush: 500,
                ..faults(1500, 0)
            });
            let mut tries = 0;
            loop {
                let Some(flush) = log.flush() else {
                    return 0;
                };
                let flushed = flush.run().await;
                tries += 1;
                match log.flushed(flushed) {
                    Ok(()) => break,
                    Err(error) if error.is_refusal() => {}
                    Err(_) => return 0,
                }
            }
            // Nobody was told of a loss, so there was none.
            disk.set_faults(Faults::default());
            disk.lose_power();
            kill(log);
            assert_holds(&opened().await, &batches).await;
            u32::from(tries > 1)
        });
    }
    assert!(both > 10, "{both}");
}

#[test]
fn word_of_a_failed_flush_is_left_though_no_descriptor_is() {
    simulate(|disk| async move {
        let mut log = opened().await;
        append(&mut log, 1, 100);
        disk.set_faults(Faults {
            flush: 10_000,
            ..Faults::default()
        });
        let failed = log.flush().unwrap().run().await;
        disk.set_faults(NO_DESCRIPTORS);
        assert!(!log.flushed(failed).unwrap_err().is_refusal());
        log.failure_note().unwrap().leave().await;
        let left = log.dir.aside(|calls| calls.size_of("failed")).await;
        assert_eq!(left.unwrap(), Some(0));
    });
}
