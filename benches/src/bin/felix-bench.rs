//! The `felix-bench` binary.

use felix_bench::{child, cli};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = || std::env::args_os();
    child::role(arguments().skip(1)).unwrap_or_else(|| cli::run(arguments()))
}
