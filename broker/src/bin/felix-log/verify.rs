//! `felix-log verify`.

use crate::output::{Lines, Trouble};
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
    let options = options(matches, path);
    let mut lines = Lines::new(matches.get_flag("json"));
    let mut faults = 0;
    for shard in shards {
        let verdict = inspect::verify(&shard, options, &mut |_, _, _| {})
            .map_err(|cause| Trouble::unreadable(&shard, &cause))?;
        for found in &verdict.findings {
            tell(&mut lines, &shard, found)?;
        }
        sum_up(&mut lines, &shard, &verdict)?;
        faults += verdict.findings.len();
    }
    lines.end()?;
    Ok(match faults {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// How to verify what lies at `path`.
pub(crate) fn options(matches: &ArgMatches, path: &Path) -> Options {
    let spacing = matches.get_one::<u32>("index-spacing");
    Options {
        index_interval_bytes: *spacing.expect("it has a default"),
        is_in_use: place::is_in_use(path),
    }
}

fn tell(lines: &mut Lines, shard: &Path, found: &Finding) -> Result<(), Trouble> {
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
                Consequence::Remade | Consequence::Believed => format!("{count} faults"),
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
