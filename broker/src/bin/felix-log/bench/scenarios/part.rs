//! What a scenario has a process of its own do: its memory is then nobody else's, and so is what it
//! writes.

use super::appends;
use crate::bench::cores;
use crate::bench::load::{Load, Setup};
use crate::bench::{machine, pace};
use clap::{Arg, ArgMatches, Command, value_parser};
use felix_core::{Durability, Generation, Retention};
use felix_shard::ShardSpec;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

/// The command that starts it. Not for people.
pub(crate) const NAME: &str = "bench-part";

/// When a core that has opened its shards is idle.
const IDLE: Duration = Duration::from_millis(500);

/// Files that are written to in turns.
const FILES: u64 = 4;

/// What it may be told.
pub(crate) fn arguments() -> Command {
    let number = |name| {
        Arg::new(name)
            .required(true)
            .value_parser(value_parser!(u64))
    };
    let dir = || {
        Arg::new("dir")
            .required(true)
            .value_parser(value_parser!(PathBuf))
    };
    Command::new(NAME)
        .hide(true)
        .subcommand_required(true)
        .subcommand(
            Command::new("open")
                .arg(dir())
                .arg(number("shards"))
                .arg(number("cpu")),
        )
        .subcommand(Command::new("fill").arg(dir()).arg(number("bytes")))
}

/// Does it.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let (name, matches) = matches.subcommand().expect("clap asks for one");
    let dir: &PathBuf = matches.get_one("dir").expect("it is required");
    let number = |name| *matches.get_one::<u64>(name).expect("it is required");
    let done = match name {
        "open" => open(dir, number("shards"), number("cpu")),
        _ => fill(dir, number("bytes")).map_err(|error| error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// The load whose shards are opened: that many, which nobody writes to.
pub(super) fn idle(shards: usize) -> Load {
    Load {
        shards,
        ..appends(Durability::Periodic, None)
    }
}

/// Opens shards that are there; says how long that took and what memory they take.
fn open(root: &Path, shards: u64, cpu: u64) -> Result<(), String> {
    let small = |number: u64| usize::try_from(number).map_err(|error| error.to_string());
    let setup = Setup {
        cpus: vec![small(cpu)?],
        all_cpus: machine::allowed(),
        flush_interval: Duration::from_millis(50),
        segment_bytes: 1 << 30,
        warm_up: Duration::ZERO,
        span: Duration::ZERO,
        rounds: 1,
        lead: pace::LEAD,
    };
    // As in a broker, which has counted its starts before it opens a log.
    let begun = UNIX_EPOCH.elapsed().map_err(|error| error.to_string())?;
    let floor = Generation::new(u32::try_from(begun.as_secs() / 2).unwrap_or_default());
    let specs = cores::specs(root, &idle(small(shards)?), Retention::default());
    let noted = specs.into_iter().map(|spec| ShardSpec {
        generation_floor: floor,
        is_floor_noted: true,
        ..spec
    });
    let specs = noted.collect();
    let before = resident_bytes();
    cores::run(&setup, root, specs, async move |engine, place| {
        engine.pause(IDLE).await;
        let line = json!({
            "opened_s": place.opened.as_secs_f64(),
            "resident_bytes": resident_bytes().saturating_sub(before),
        });
        let told = writeln!(io::stdout(), "{line}");
        // Closing them all takes long, and nothing has changed in them.
        std::process::exit(told.is_err().into());
    })
    .map(|ended: Vec<()>| assert!(ended.is_empty(), "the process ends before"))
}

/// What of this process is in memory.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Writes to files of so many bytes together, over and over, until its input ends.
fn fill(dir: &Path, bytes: u64) -> io::Result<()> {
    thread::Builder::new().spawn(|| {
        // Whoever started this has ended, or has had enough.
        drop(io::copy(&mut io::stdin(), &mut io::sink()));
        std::process::exit(0);
    })?;
    let chunk = vec![1; 1 << 20];
    let chunks = (bytes / FILES / chunk.len() as u64).max(1);
    let mut is_told = false;
    loop {
        for number in 0..FILES {
            let path = dir.join(format!("fill-{number}"));
            let mut options = File::options();
            let mut file = options
                .create(true)
                .truncate(false)
                .write(true)
                .open(path)?;
            for _ in 0..chunks {
                file.write_all(&chunk)?;
            }
            if !is_told {
                writeln!(io::stdout(), "filling")?;
                io::stdout().flush()?;
                is_told = true;
            }
        }
    }
}

/// A process that fills the page cache, for as long as this lives.
#[derive(Debug)]
pub(super) struct Filler(std::process::Child);

impl Filler {
    /// Starts it; returns once it has begun.
    pub(super) fn start(dir: &Path, bytes: u64) -> io::Result<Self> {
        let mut child = std::process::Command::new(std::env::current_exe()?)
            .args([NAME, "fill"])
            .arg(dir)
            .arg(bytes.to_string())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let mut told = [0];
        let out = child.stdout.as_mut().expect("it is piped");
        let begun = out.read_exact(&mut told);
        let filler = Self(child);
        begun?;
        Ok(filler)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
