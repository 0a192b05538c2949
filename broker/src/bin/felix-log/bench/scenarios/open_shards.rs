//! A start with ten thousand shards that nobody writes to: how long it takes, and their memory.

use super::part;
use super::{Finding, Stage, appends};
use crate::bench::appends::Appends;
use crate::bench::cores;
use crate::bench::round::median;
use crate::output::{Lines, Trouble};
use felix_core::{Durability, Retention};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Seconds.
const OPENED_S_MAX: f64 = 2.0;

/// No further start after so long: what is far from the target need not be known precisely.
const LONGEST: Duration = Duration::from_secs(20);

/// Memory of each shard.
const KIB_MAX: f64 = 12.0;

pub(super) fn run(stage: &Stage<'_>, lines: &mut Lines) -> Result<(), Trouble> {
    let dir = stage.scratch.fresh().map_err(Trouble::Unreadable)?;
    let measured = measure(stage, &dir);
    let measured =
        measured.map_err(|error| Trouble::Unreadable(format!("open-shards: {error}")))?;
    let shards = stage.amount(10_000, 20);
    let middle = |of: fn(&(f64, f64)) -> f64| median(measured.iter().map(of)).unwrap_or(f64::NAN);
    let (opened_s, bytes) = (middle(|one| one.0), middle(|one| one.1));
    let kib = bytes / 1024.0 / f64::from(shards);
    let finding = Finding {
        name: "open-shards, time".to_owned(),
        target: format!("{shards} shards, closed cleanly, open in {OPENED_S_MAX} s"),
        measured: format!("{opened_s:.2} s on one core, {} starts", measured.len()),
        met: Some(opened_s <= OPENED_S_MAX),
        figures: json!({"shards": shards, "opened_s": opened_s}),
    };
    finding.tell(lines)?;
    let finding = Finding {
        name: "open-shards, memory".to_owned(),
        target: format!("less than {KIB_MAX} KiB each when idle"),
        measured: format!("{kib:.1} KiB each, of the process's resident memory"),
        met: Some(kib < KIB_MAX),
        figures: json!({"shards": shards, "kib_each": kib}),
    };
    finding.tell(lines)
}

/// Seconds and bytes of each start.
fn measure(stage: &Stage<'_>, dir: &Path) -> Result<Vec<(f64, f64)>, String> {
    let setup = stage.setup(0.1);
    let said = |error: io::Error| error.to_string();
    // One that was used and closed is what all of them look like.
    let load = appends(Durability::Periodic, None);
    let (root, own) = (dir.join("model"), setup.clone());
    let specs = cores::specs(&root, &load, Retention::default());
    let (model, ids) = (specs[0].directory.clone(), cores::own(&specs, 0, 1));
    let some = super::Load {
        rate: Some(1000),
        ..load
    };
    cores::run(&setup, &root, specs, async move |engine, _| {
        Appends::new(engine, ids, &some, &own).run().await
    })?;
    let shards = stage.amount(10_000, 20);
    let root = dir.join("all");
    for spec in cores::specs(&root, &part::idle(shards), Retention::default()) {
        copy(&model, &spec.directory).map_err(said)?;
    }
    let filesystem = fs::File::open(dir).map_err(said)?;
    rustix::fs::syncfs(&filesystem).map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(said)?;
    let mut measured = Vec::new();
    let begun = Instant::now();
    while measured.is_empty() || measured.len() < setup.rounds && begun.elapsed() < LONGEST {
        let mut command = Command::new(&program);
        command.args([part::NAME, "open"]).arg(&root);
        command.arg(shards.to_string());
        command.arg(setup.cpus[0].to_string());
        let output = command.output().map_err(said)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let line: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
        let number = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
        measured.push((number("opened_s"), number("resident_bytes")));
    }
    Ok(measured)
}

/// Copies the files of a directory into a new one.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
