//! Where what was found goes.

use crate::found::Findings;
use crate::problem::Problem;
use crate::{race, report};
use clap::{Arg, ArgAction, ArgMatches};
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

/// What is written, and where.
#[derive(Clone, Debug)]
pub(super) struct Output {
    is_json: bool,
    is_race: bool,
    html: Option<PathBuf>,
    hlog: Option<PathBuf>,
    pub(super) is_quiet: bool,
}

/// The arguments for it.
pub(super) fn arguments() -> [Arg; 4] {
    let file = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name("FILE").help(help);
        arg.value_parser(clap::value_parser!(PathBuf))
    };
    [
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("One JSON object on standard output instead of tables"),
        file(
            "html",
            "Writes a report with plots, one file that needs nothing else",
        ),
        file(
            "hlog",
            "Writes an HdrHistogram log, one interval for each slot of time",
        ),
        Arg::new("quiet")
            .long("quiet")
            .action(ArgAction::SetTrue)
            .help("Says nothing of the progress"),
    ]
}

impl Output {
    /// Before anything is measured, makes sure that the files can be written.
    pub(super) fn of(matches: &ArgMatches, is_race: bool) -> Result<Self, Problem> {
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let output = Self {
            is_json: matches.get_flag("json"),
            is_race,
            html: path("html"),
            hlog: path("hlog"),
            is_quiet: matches.get_flag("quiet"),
        };
        for file in [&output.html, &output.hlog].into_iter().flatten() {
            let opened = fs::File::options().append(true).create(true).open(file);
            opened.map_err(|error| no_file(file, &error))?;
        }
        Ok(output)
    }

    pub(super) fn show(&self, findings: &Findings) -> Result<(), Problem> {
        if let Some(file) = &self.html {
            fs::write(file, report::html(findings)).map_err(|error| no_file(file, &error))?;
        }
        if let Some(file) = &self.hlog {
            let written = fs::File::create(file).map(std::io::BufWriter::new);
            let mut written = written.map_err(|error| no_file(file, &error))?;
            report::hlog(findings, &mut written).map_err(|error| no_file(file, &error))?;
            written.flush().map_err(|error| no_file(file, &error))?;
        }
        let text = match (self.is_json, self.is_race) {
            (true, true) => format!("{:#}\n", race::summary(findings, report::json(findings))),
            (true, false) => format!("{:#}\n", report::json(findings)),
            (false, _) => report::table(findings),
        };
        // A reader that went away, as head does, has what it wanted.
        match stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Problem::new(
                format!("standard output does not take the result: {error}"),
            )),
            _ => Ok(()),
        }
    }
}

fn no_file(file: &Path, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(format!("{} cannot be written: {error}", file.display()))
}
