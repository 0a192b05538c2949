//! `felix-log verify`.

use crate::output::{self, Lines, Trouble};
use crate::place;
use clap::ArgMatches;
use felix_shard::log::inspect::{self, Consequence, Finding, Options, Verdict};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs it.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Trouble> {
    let path = matches.get_one::<PathBuf>("path").expect("it is required");
    let shards = place::shards(path)?;
    let options = options(path);
    let mut lines = Lines::new(matches.get_flag("json"));
    let mut is_right = true;
    for shard in shards {
        match inspect::verify(&shard, options, &mut |_, _, _| {}) {
            Ok(verdict) => {
                is_right &= verdict.findings.is_empty();
                unless_closed(tell(&mut lines, &shard, &verdict))?;
            }
            // The others may be read.
            Err(cause) => {
                is_right = false;
                output::complain(&Trouble::unreadable(&shard, &cause));
            }
        }
    }
    unless_closed(lines.end())?;
    Ok(match is_right {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Who reads no further still learns from the exit code what was found.
fn unless_closed(told: Result<(), Trouble>) -> Result<(), Trouble> {
    match told {
        Err(Trouble::Closed) => Ok(()),
        told => told,
    }
}

/// How to verify what lies at `path`.
pub(crate) fn options(path: &Path) -> Options {
    Options {
        is_in_use: place::is_in_use(path),
    }
}

fn tell(lines: &mut Lines, shard: &Path, verdict: &Verdict) -> Result<(), Trouble> {
    for found in &verdict.findings {
        tell_fault(lines, shard, found)?;
    }
    sum_up(lines, shard, verdict)
}

fn tell_fault(lines: &mut Lines, shard: &Path, found: &Finding) -> Result<(), Trouble> {
    let Finding {
        file,
        position,
        what,
        consequence,
    } = found;
    let shown = shard.display();
    lines.say(
        || format!("{shown}: {file}, byte {position}: {what}; {consequence}"),
        || {
            json!({
                "type": "fault",
                "shard": shown.to_string(),
                "file": file,
                "position": position,
                "what": what,
                "opening": consequence.word(),
            })
        },
    )
}

fn sum_up(lines: &mut Lines, shard: &Path, verdict: &Verdict) -> Result<(), Trouble> {
    let shown = shard.display();
    let outlook = match verdict.gravest() {
        None => "no fault".to_owned(),
        Some(gravest) => {
            let count = verdict.findings.len();
            let cut = verdict.cut_bytes();
            match gravest {
                Consequence::Fatal => format!("{count} faults: fatal, nothing would be cut"),
                Consequence::Cut { .. } => format!("{count} faults: {cut} bytes would be cut"),
                Consequence::Removed | Consequence::Remade | Consequence::Believed => {
                    format!("{count} faults")
                }
            }
        }
    };
    let (segments, batches) = (verdict.segments, verdict.batches);
    let (start, end) = (verdict.start, verdict.end);
    lines.say(
        || {
            let notes: String = verdict
                .notes
                .iter()
                .map(|note| format!("; {note}"))
                .collect();
            format!(
                "{shown}: {segments} segments, {batches} batches, offsets {start} to {end}: \
                 {outlook}{notes}"
            )
        },
        || {
            json!({
                "type": "shard",
                "shard": shown.to_string(),
                "segments": segments,
                "batches": batches,
                "start": start.get(),
                "end": end.get(),
                "recovery_point": verdict.recovery_point.get(),
                "faults": verdict.findings.len(),
                "opening": verdict.gravest().map_or("clean", Consequence::word),
                "cut_bytes": verdict.cut_bytes(),
                "notes": verdict.notes,
            })
        },
    )
}
