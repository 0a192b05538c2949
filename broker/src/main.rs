//! The `felix-broker` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    felix_broker::main()
}
