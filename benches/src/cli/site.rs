//! Where a fresh broker of our own runs, and its client.

use super::value;
use crate::problem::Problem;
use crate::{broker, pin};
use clap::{Arg, ArgMatches};
use std::path::{Path, PathBuf};

/// What [`arguments`] said.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) binary: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) broker_cpu: usize,
    pub(super) client_cpu: usize,
}

/// What it takes.
pub(super) fn arguments() -> [Arg; 4] {
    let path = clap::value_parser!(PathBuf);
    [
        Arg::new("broker")
            .long("broker")
            .value_name("FILE")
            .value_parser(path.clone())
            .help("The felix-broker to start; default: the one beside this program, or on the path"),
        Arg::new("dir")
            .long("dir")
            .value_name("DIRECTORY")
            .value_parser(path)
            .help("Where data lies meanwhile: its file system is measured; default: the temporary directory"),
        Arg::new("broker-cpu")
            .long("broker-cpu")
            .value_name("N")
            .value_parser(value::number(0, 4095))
            .help("The processor of broker and floors; default: the first that is allowed"),
        Arg::new("client-cpu")
            .long("client-cpu")
            .value_name("N")
            .value_parser(value::number(0, 4095))
            .help("The processor of the client; default: the last that is allowed"),
    ]
}

impl Site {
    /// # Errors
    /// It is none: there is no broker, no such directory, or a processor too few.
    pub(super) fn of(matches: &ArgMatches) -> Result<Self, Problem> {
        let allowed = pin::allowed();
        let cpu = |name: &str, default: Option<&usize>| match matches.get_one::<u64>(name) {
            Some(cpu) => usize::try_from(*cpu).map_err(|error| Problem::new(error.to_string())),
            None => default
                .copied()
                .ok_or_else(|| Problem::new("the kernel names no processor to run on")),
        };
        let broker_cpu = cpu("broker-cpu", allowed.first())?;
        let client_cpu = cpu("client-cpu", allowed.last())?;
        pin::check(broker_cpu)?;
        pin::check(client_cpu)?;
        if broker_cpu == client_cpu {
            return Err(Problem::new(format!(
                "broker and client would share processor {broker_cpu}; they need one each, so choose \
                 another with --broker-cpu or --client-cpu"
            )));
        }
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let binary = match path("broker") {
            Some(binary) => binary,
            None => broker::find_binary()?,
        };
        let dir = path("dir").unwrap_or_else(std::env::temp_dir);
        if !dir.is_dir() {
            return Err(Problem::new(format!("{} is no directory", dir.display())));
        }
        Ok(Self {
            binary,
            dir,
            broker_cpu,
            client_cpu,
        })
    }
}

/// What the broker says that it is.
pub(super) fn version(binary: &Path) -> String {
    let said = std::process::Command::new(binary).arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
    said.ok()
        .filter(|said| !said.is_empty())
        .unwrap_or_else(|| "not to be seen".to_owned())
}
