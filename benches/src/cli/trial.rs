//! What measures fresh brokers of our own, from its arguments to what is shown of it.

use super::output::Output;
use super::{Outcome, conclude, misused};
use crate::contest::Progress;
use crate::found::{Environment, Findings};
use crate::load::Stop;
use crate::problem::Problem;
use clap::ArgMatches;
use std::path::PathBuf;
use std::process::ExitCode;

/// A race or a siege as its arguments say.
pub(super) struct Trial {
    /// Where data lies meanwhile.
    pub(super) dir: PathBuf,
    /// What the report says of it.
    pub(super) settings: Vec<(String, String)>,
    /// Does it, and writes down what it finds.
    pub(super) run: Run,
}

type Run = Box<dyn FnOnce(&mut Findings, &Stop, &Progress) -> Outcome>;

impl Trial {
    /// Has `read` make one of the arguments, and does it.
    pub(super) fn run(
        words: Vec<String>,
        matches: &ArgMatches,
        read: impl FnOnce(&ArgMatches) -> Result<Self, Problem>,
    ) -> ExitCode {
        let prepared = || {
            let output = Output::of(matches, true)?;
            let trial = read(matches)?;
            // Last, since it makes files.
            output.check()?;
            Ok::<_, Problem>((output, trial))
        };
        let (output, trial) = match prepared() {
            Ok(prepared) => prepared,
            Err(problem) => return misused(&problem),
        };
        let stop = match Stop::on_signals() {
            Ok(stop) => stop,
            Err(error) => {
                return misused(&Problem::new(format!("signals cannot be caught: {error}")));
            }
        };
        let progress = Progress::new(output.is_quiet);
        let mut findings = Findings {
            command: words,
            environment: Environment::look(Some(&trial.dir)),
            settings: trial.settings,
            comparisons: Vec::new(),
            is_interrupted: false,
            problem: None,
        };
        let outcome = (trial.run)(&mut findings, &stop, &progress);
        progress.end();
        conclude(findings, &output, outcome)
    }
}
