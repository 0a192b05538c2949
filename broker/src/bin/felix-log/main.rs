//! `felix-log`: looks at the files of logs, and never writes to them; `bench` measures the engine on
//! files of its own.
//!
//! Exit codes: 0, all is well; 1, `verify` found a fault, or something could not be read; 2, the
//! arguments make no sense, or what they name is not ours.

mod bench;
mod command;
mod dump;
mod output;
mod place;
mod stat;
mod verify;

use output::Trouble;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = match command::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version are no errors, and clap knows where each goes.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    let outcome = match matches.subcommand() {
        Some(("dump", matches)) => dump::run(matches),
        Some(("verify", matches)) => verify::run(matches),
        Some(("stat", matches)) => stat::run(matches),
        Some(("bench", matches)) => bench::run(matches),
        Some((bench::PART, matches)) => return bench::run_part(matches),
        _ => unreachable!("clap asks for one of these"),
    };
    match outcome {
        Ok(code) => code,
        // Whoever reads our output has seen enough.
        Err(Trouble::Closed) => ExitCode::SUCCESS,
        Err(trouble) => {
            output::complain(&trouble);
            trouble.code()
        }
    }
}
