//! Opening a log after a crash: all of its growing segment is read and verified.

use super::crafted::Crafted;
use super::{Finding, Stage, appends};
use crate::bench::batches::Batches;
use crate::bench::cores;
use crate::bench::load::Setup;
use crate::bench::round::median;
use crate::output::{Lines, Trouble};
use felix_core::{Durability, Retention};
use rustix::fs::{Advice, fadvise};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

/// What is to be reached, or the disk's own speed where that is less.
const BYTES_PER_SECOND: f64 = 2.0 * GIB;

const GIB: f64 = (1_u64 << 30) as f64;

/// Of each batch: what Kafka's producers fill by default.
const BATCH_BYTES: usize = 16 << 10;

pub(super) fn run(stage: &Stage<'_>, lines: &mut Lines) -> Result<(), Trouble> {
    let trouble = |error: io::Error| Trouble::Unreadable(format!("recovery: {error}"));
    let setup = Setup {
        segment_bytes: 2_000_000_000,
        ..stage.setup(1.0)
    };
    let dir = stage.scratch.fresh().map_err(Trouble::Unreadable)?;
    let batches = Batches::of(BATCH_BYTES);
    let bytes = stage.amount(1 << 30, 4 << 20);
    let mut log = Crafted::write(&dir.join("made"), bytes, 1 << 30, &batches).map_err(trouble)?;
    let [mut opened, mut hot, mut cold] = [const { Vec::new() }; 3];
    for round in 0..setup.rounds {
        let root = dir.join(round.to_string());
        let load = appends(Durability::Periodic, None);
        let specs = cores::specs(&root, &load, Retention::default());
        log.again(&specs[0].directory).map_err(trouble)?;
        cold.push(read(&log, true).map_err(trouble)?);
        hot.push(read(&log, false).map_err(trouble)?);
        let took = cores::run(&setup, &root, specs, async |_, place| Ok(place.opened));
        let took = took.map_err(|error| Trouble::Unreadable(format!("recovery: {error}")))?;
        #[expect(clippy::cast_precision_loss, reason = "a rate is told to two digits")]
        opened.push(log.bytes as f64 / took[0].as_secs_f64());
    }
    let middle = |rates: Vec<f64>| median(rates).unwrap_or(f64::NAN);
    let (opened, hot, cold) = (middle(opened), middle(hot), middle(cold));
    let target = BYTES_PER_SECOND.min(cold);
    let finding = Finding {
        name: "recovery".to_owned(),
        target: format!(
            "1 GiB in one segment at 2 GiB/s, or the disk's speed: {:.2} GiB/s",
            target / GIB
        ),
        measured: format!(
            "{:.2} GiB/s in the page cache, batches of 16 KiB; bare reads {:.2} GiB/s there, {:.2} \
             from the device",
            opened / GIB,
            hot / GIB,
            cold / GIB,
        ),
        met: Some(opened >= target),
        figures: json!({
            "bytes": log.bytes,
            "bytes_per_second": opened,
            "read_hot_bytes_per_second": hot,
            "read_cold_bytes_per_second": cold,
        }),
    };
    finding.tell(lines)
}

/// Bytes a second of bare reads of it all.
fn read(log: &Crafted, from_device: bool) -> io::Result<f64> {
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    let mut took = 0.0;
    for path in log.segments() {
        if from_device {
            forget(path)?;
        }
        let begun = Instant::now();
        let mut file = File::open(path)?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => bytes += count,
            }
        }
        took += begun.elapsed().as_secs_f64();
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate is told to two digits")]
    let rate = bytes as f64 / took;
    Ok(rate)
}

/// Has the page cache give up what it has of a file that is on the device.
pub(super) fn forget(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}
