//! The command line.

mod command;
mod floor;
mod footprint;
mod offer;
mod output;
mod race;
mod run;
mod security;
mod sides;
mod siege;
mod site;
mod trial;
mod value;

use crate::found::Findings;
use crate::problem::Problem;
use output::Output;
use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;

/// What a command left to show, and how it ended.
type Outcome = Result<(), Problem>;

/// Runs the program with these arguments, the program's name first: the code to exit with. 0: all
/// was measured. 1: something failed. 2: the arguments make no sense. 130: it was interrupted.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = match command::command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version are no errors, and clap knows where each goes.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    let words = arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    match matches.subcommand() {
        Some(("run", matches)) => run::run(words, matches),
        Some(("race", matches)) => race::run(words, matches),
        Some(("siege", matches)) => siege::run(words, matches),
        Some(("floor", matches)) => floor::run(matches),
        Some(("footprint", matches)) => footprint::run(matches),
        _ => unreachable!("clap asks for one of these"),
    }
}

/// Shows what was found, however the run ended.
fn conclude(mut findings: Findings, output: &Output, outcome: Outcome) -> ExitCode {
    findings.problem = outcome.err().map(|problem| problem.to_string());
    let shown = output.show(&findings);
    if let Some(problem) = &findings.problem {
        complain(&Problem::new(problem.clone()));
    }
    for problem in &shown {
        complain(problem);
    }
    match (findings.problem, shown.as_slice(), findings.is_interrupted) {
        (None, [], false) => ExitCode::SUCCESS,
        (None, [], true) => ExitCode::from(130),
        _ => ExitCode::FAILURE,
    }
}

/// The arguments make no sense.
fn misused(problem: &Problem) -> ExitCode {
    complain(problem);
    ExitCode::from(2)
}

fn complain(problem: &Problem) {
    // If nobody hears it, the exit code still says it.
    drop(writeln!(stderr(), "felix-bench: {problem}"));
}
