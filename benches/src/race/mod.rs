//! The few ratios that matter: a fresh broker against the floors of the machine.

mod heat;
mod summary;

pub use heat::HEATS;
pub use summary::summary;

use crate::broker::{FreshBroker, FreshStream};
use crate::client::Security;
use crate::contest::{Contender, Floored, Flushed, Progress, Target, TargetSettings, compare};
use crate::floor::FloorSettings;
use crate::found::{Comparison, Findings};
use crate::load::{Stop, Waiting};
use crate::problem::Problem;
use heat::Heat;
use std::path::PathBuf;
use std::time::Duration;

/// How long spinning sides look for more before they sleep, so that one of them leaves the
/// processor to the other soon after its turn.
const SPIN_US: u64 = 1_000;

/// What is run, and where.
#[derive(Clone, Debug)]
pub struct Race {
    /// Turns of each side.
    pub rounds: usize,
    /// Two minutes instead of a million samples a round.
    pub is_quick: bool,
    /// How long each turn is measured, where that is not left to the race.
    pub turn: Option<Duration>,
    /// The names of what is run, of [`HEATS`]; all of it if empty.
    pub only: Vec<String>,
    /// Whether all floors take turns, not only the lowest.
    pub has_all_floors: bool,
    /// The broker's executable.
    pub binary: PathBuf,
    /// Where its data lies meanwhile, and the floors' files: the file system that is measured.
    pub dir: PathBuf,
    /// The processor of the broker and of the floors.
    pub broker_cpu: usize,
    /// The processor of the client.
    pub client_cpu: usize,
}

impl Race {
    /// Runs all of it, or as much as there is time for until it is stopped.
    ///
    /// # Errors
    /// A side cannot be started or fails. What was found before stays in `findings`.
    pub fn run(
        &self,
        findings: &mut Findings,
        stop: &Stop,
        progress: &Progress,
    ) -> Result<(), Problem> {
        for heat in Heat::all(self) {
            if stop.is_asked() {
                findings.is_interrupted = true;
                break;
            }
            self.heat(heat, findings, stop, progress)?;
        }
        Ok(())
    }

    fn heat(
        &self,
        heat: Heat,
        findings: &mut Findings,
        stop: &Stop,
        progress: &Progress,
    ) -> Result<(), Problem> {
        progress.say(&format!("{}: starting a fresh broker", heat.name));
        let stream = FreshStream::new(heat.durability, 1, heat.durability);
        let topic = stream.topic();
        let settings = FloorSettings {
            cpu: self.broker_cpu,
            answer_bytes: heat.load.answer_bytes(&topic)?,
            spin_us: match heat.load.waiting {
                Waiting::Parked => 0,
                Waiting::Spinning => SPIN_US,
            },
            dir: Some(self.dir.clone()),
            ..FloorSettings::default()
        };
        // Fresh each time, so that no heat sees the files of another.
        let spin = ("FELIX_SPIN_US".to_owned(), settings.spin_us.to_string());
        let (cores, streams) = ([self.broker_cpu], [stream]);
        let broker = FreshBroker::start(&self.binary, &self.dir, &cores, &streams, &[spin])?;
        let mut felix = Target::new(TargetSettings {
            name: "felix".to_owned(),
            addresses: broker.address().to_string(),
            securities: vec![Security::default()],
            topic: topic.clone(),
            may_create: false,
            replication: -1,
            pid: Some(broker.pid()),
            cpus: cores.to_vec(),
        });
        let mut floors = Vec::new();
        for kind in heat.floors {
            floors.push(Floored::start(kind.word(), *kind, &settings, topic.len())?);
        }
        let mut flushed = Flushed::new(self.dir.clone(), self.broker_cpu);
        let mut sides: Vec<&mut dyn Contender> = Vec::new();
        for floor in &mut floors {
            sides.push(floor);
        }
        if heat.is_flushed() {
            sides.push(&mut flushed);
        }
        sides.push(&mut felix);
        let comparison = Comparison {
            name: heat.name.to_owned(),
            what: heat.what,
            figure: heat.figure,
            offered: heat.load.rate,
            sides: Vec::new(),
        };
        let rounds = self.rounds;
        compare(
            findings, comparison, &heat.load, &mut sides, rounds, stop, progress,
        )
    }
}
