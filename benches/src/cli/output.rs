//! Where what was found goes.

use crate::found::Findings;
use crate::problem::Problem;
use crate::{race, report};
use clap::{Arg, ArgAction, ArgMatches};
use std::fs;
use std::io::{BufWriter, ErrorKind, Write, stdout};
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
    /// What was asked for.
    pub(super) fn of(matches: &ArgMatches, is_race: bool) -> Result<Self, Problem> {
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let output = Self {
            is_json: matches.get_flag("json"),
            is_race,
            html: path("html"),
            hlog: path("hlog"),
            is_quiet: matches.get_flag("quiet"),
        };
        if output.html.is_some() && output.html == output.hlog {
            return Err(Problem::new("--html and --hlog cannot be the same file"));
        }
        Ok(output)
    }

    /// Before anything is measured, makes sure that the files can be written.
    pub(super) fn check(&self) -> Result<(), Problem> {
        for file in [&self.html, &self.hlog].into_iter().flatten() {
            let opened = fs::File::options().append(true).create(true).open(file);
            opened.map_err(|error| no_file(file, &error))?;
        }
        Ok(())
    }

    /// Shows all of it, each part whatever becomes of the others: what went wrong.
    pub(super) fn show(&self, findings: &Findings) -> Vec<Problem> {
        let text = match (self.is_json, self.is_race) {
            (true, true) => format!("{:#}\n", race::summary(findings, report::json(findings))),
            (true, false) => format!("{:#}\n", report::json(findings)),
            (false, _) => report::table(findings),
        };
        let printed = match stdout().write_all(text.as_bytes()) {
            // A reader that went away, as head does, has what it wanted.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Problem::new(format!(
                "standard output does not take the result: {error}"
            ))),
            _ => Ok(()),
        };
        let html = self.html.as_ref().map_or(Ok(()), |file| {
            fs::write(file, report::html(findings)).map_err(|error| no_file(file, &error))
        });
        let hlog = self
            .hlog
            .as_ref()
            .map_or(Ok(()), |file| write_log(findings, file));
        [printed, html, hlog]
            .into_iter()
            .filter_map(Result::err)
            .collect()
    }
}

fn write_log(findings: &Findings, file: &Path) -> Result<(), Problem> {
    let created = fs::File::create(file).map(BufWriter::new);
    let mut created = created.map_err(|error| no_file(file, &error))?;
    report::hlog(findings, &mut created).map_err(|error| no_file(file, &error))?;
    created.flush().map_err(|error| no_file(file, &error))
}

fn no_file(file: &Path, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(format!("{} cannot be written: {error}", file.display()))
}
