//! Writing what is read afterwards.

use super::load::Load;
use super::spots::Spot;
use crate::client::{answer, error_name, request};
use crate::load::{Batches, Link, Stop};
use crate::problem::Problem;
use std::time::{Duration, Instant};

/// So many batches are on their way at once.
const IN_FLIGHT: usize = 5;
/// Longer than this without an answer, and the broker does not take it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Appends batches of the load's to each spot until so many bytes are there.
pub(super) fn fill(load: &Load, spots: &[Spot], stop: &Stop) -> Result<(), Problem> {
    let mut random = fastrand::Rng::with_seed(load.seed);
    let places: Vec<usize> = (0..load.partitions).collect();
    let mut batches = Batches::make(&load.recipe, &places, load.partitions, &mut random)?;
    spots
        .iter()
        .try_for_each(|spot| fill_one(&mut batches, spot, load.fill_bytes, stop))
}

fn fill_one(batches: &mut Batches, spot: &Spot, bytes: u64, stop: &Stop) -> Result<(), Problem> {
    let mut link = spot.open()?;
    let (mut written, mut unanswered) = (0, 0);
    let mut last = Instant::now();
    while (written < bytes || unanswered > 0) && !stop.is_asked() {
        while written < bytes && unanswered < IN_FLIGHT && link.has_room() {
            let batch = batches.take().bytes();
            written += batch.len() as u64;
            unanswered += 1;
            link.queue(|out, correlation| {
                request::produce(
                    out,
                    correlation,
                    -1,
                    30_000,
                    &spot.topic,
                    spot.partition,
                    batch,
                );
            });
        }
        link.push()?;
        if take(&mut link, &mut unanswered)? {
            last = Instant::now();
        } else if last.elapsed() > ANSWER_TIMEOUT {
            return Err(Problem::new(format!(
                "the broker does not answer appends to {} within {ANSWER_TIMEOUT:?}",
                spot.topic
            )));
        } else {
            std::thread::yield_now();
        }
    }
    Ok(())
}

fn take(link: &mut Link, unanswered: &mut usize) -> Result<bool, Problem> {
    let has_taken = link.pull()?;
    while let Some(frame) = link.frame()? {
        let produced = answer::produced(frame)?;
        if produced.error != 0 {
            return Err(Problem::new(format!(
                "the broker refused an append: {}",
                error_name(produced.error)
            )));
        }
        *unanswered -= 1;
    }
    Ok(has_taken)
}
