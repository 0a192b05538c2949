//! `felix-log bench`.
#![expect(
    clippy::disallowed_methods,
    reason = "whoever measures time reads the clock, and threads that measure have nothing else to do"
)]

mod appends;
mod batches;
mod cores;
mod floor;
mod load;
mod machine;
mod matrix;
mod pace;
mod plan;
mod round;
mod scenarios;
mod scratch;

pub(crate) use plan::arguments;
pub(crate) use scenarios::part::{NAME as PART, arguments as part_arguments, run as run_part};

use crate::output::{Lines, Trouble};
use clap::ArgMatches;
use machine::Machine;
use scratch::Scratch;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs it.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Trouble> {
    let done = measure(matches);
    // What failed then is that its files are gone, and the process is about to end.
    while done.is_err() && scratch::is_ending() {
        std::thread::park();
    }
    done
}

fn measure(matches: &ArgMatches) -> Result<ExitCode, Trouble> {
    let dir: &PathBuf = matches.get_one("dir").expect("it is required");
    let setup = plan::setup(matches)?;
    let loads = plan::loads(matches, &setup)?;
    let scratch = Scratch::make(dir)?;
    let mut lines = Lines::new(matches.get_flag("json"));
    let machine = Machine::look(dir, &setup.cpus);
    lines.say(|| machine.words(), || machine.to_json())?;
    let names = matches.get_many::<String>("scenarios");
    if matches.contains_id("scenarios") && matches.value_source("scenarios").is_some() {
        let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
        scenarios::run(
            &names,
            &setup,
            matches.get_flag("quick"),
            &scratch,
            &mut lines,
        )?;
    } else {
        matrix::run(&loads, &setup, &scratch, &mut lines)?;
    }
    lines.end()?;
    Ok(ExitCode::SUCCESS)
}
