//! `felix-fuzz seeds` writes the seeds into the corpus; `felix-fuzz replay <target> <file>...` feeds
//! files to a target and says what became of each.
#![expect(clippy::print_stdout, reason = "that is what it is for")]

use felix_fuzz::{TARGETS, Watched, corpus, targets};
use std::process::ExitCode;

#[global_allocator]
static MEMORY: Watched = Watched;

const USAGE: &str = "felix-fuzz seeds\nfelix-fuzz replay <target> <file>...";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match &args[..] {
        ["seeds"] => seeds(),
        ["replay", target, files @ ..] => replay(target, files),
        _ => {
            println!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn seeds() -> ExitCode {
    for target in TARGETS {
        let seeds = (target.seeds)();
        let bytes: usize = seeds.iter().map(|seed| seed.bytes.len()).sum();
        corpus::save(target.name, &seeds).expect("the corpus can be written");
        println!("{}: {} seeds, {bytes} bytes", target.name, seeds.len());
    }
    ExitCode::SUCCESS
}

fn replay(name: &str, files: &[&str]) -> ExitCode {
    let Some(target) = targets::find(name) else {
        println!(
            "no target {name}; there are {:?}",
            TARGETS.map(|target| target.name)
        );
        return ExitCode::FAILURE;
    };
    for file in files {
        let bytes = std::fs::read(file).expect("the file can be read");
        let accepted = (target.run)(&bytes);
        println!("{file}: {}", if accepted { "accepted" } else { "refused" });
    }
    ExitCode::SUCCESS
}
