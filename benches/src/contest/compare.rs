//! Taking turns.

use super::load::Load;
use super::progress::Progress;
use crate::found::{Comparison, Findings, Side};
use crate::load::{Job, round};
use crate::load::{Stop, Watched};
use crate::problem::Problem;

/// Far apart, so that the seeds of rounds and of threads do not meet.
const ROUND_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// One of those that take turns.
pub trait Contender {
    /// What it is called.
    fn name(&self) -> &str;
    /// Whether others are told as multiples of it.
    fn is_floor(&self) -> bool;
    /// What to do in one turn, its connections open. What takes long before it ends when it is
    /// asked to stop.
    ///
    /// # Errors
    /// It cannot be reached, or refuses what the turn needs.
    fn jobs(&mut self, load: &Load, stop: &Stop) -> Result<Vec<Job>, Problem>;
    /// What to look at meanwhile.
    fn watched(&self) -> Watched;
    /// Its turn is over.
    ///
    /// # Errors
    /// Something beside its jobs went wrong meanwhile.
    fn ended(&mut self) -> Result<(), Problem> {
        Ok(())
    }
}

/// Lets contenders take so many turns each, and adds what they find as it is found, so that it is
/// there however this ends. `comparison` says what is asked, and has no sides yet.
///
/// # Errors
/// A contender cannot take its turn. What was found before stays.
pub fn compare(
    findings: &mut Findings,
    comparison: Comparison,
    load: &Load,
    contenders: &mut [&mut dyn Contender],
    rounds: usize,
    stop: &Stop,
    progress: &Progress,
) -> Result<(), Problem> {
    let name = comparison.name.clone();
    findings.comparisons.push(comparison);
    let sides = &mut findings.comparisons.last_mut().expect("just pushed").sides;
    sides.extend(contenders.iter().map(|contender| Side {
        name: contender.name().to_owned(),
        is_floor: contender.is_floor(),
        rounds: Vec::new(),
    }));
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for turn in order {
            if stop.is_asked() {
                findings.is_interrupted = true;
                return Ok(());
            }
            let contender = &mut contenders[turn];
            progress.turn(&name, contender.name(), round + 1, rounds);
            let told = |problem: Problem| Problem::new(format!("{}: {problem}", sides[turn].name));
            // Each round has its own chance, the same for all sides.
            let seed = load
                .seed
                .wrapping_add((round as u64).wrapping_mul(ROUND_SEED));
            let load = Load {
                seed,
                ..load.clone()
            };
            let jobs = contender.jobs(&load, stop).map_err(told)?;
            let mut watched = contender.watched();
            watched.client_cpu = load.cpus.last().copied().unwrap_or_default();
            watched.cpus.extend(&load.cpus);
            watched.cpus.sort_unstable();
            watched.cpus.dedup();
            let found = round::take(jobs, &load.timing, &watched, stop);
            contender.ended().map_err(told)?;
            let found = found.map_err(told)?;
            sides[turn].rounds.extend(found);
        }
    }
    findings.is_interrupted |= stop.is_asked();
    Ok(())
}
