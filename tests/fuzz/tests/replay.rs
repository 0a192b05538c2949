//! The committed corpus, and a bounded run of mutations over it: what every change must pass.
//!
//! `FELIX_TESTS_FUZZ_SEED` chooses another run of mutations, `FELIX_TESTS_FUZZ_ROUNDS` multiplies its length.
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a failed run says how to have it again"
)]

use felix_fuzz::{Mutator, Seed, TARGETS, Target, Watched, corpus, targets};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[global_allocator]
static MEMORY: Watched = Watched;

/// The run that everybody has who asks for none.
const SEED: u64 = 0x00fe_115e;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("it is a whole number"))
}

/// Feeds a target; an input that breaks a promise is kept and named.
fn feed(target: &Target, name: &str, bytes: &[u8]) -> bool {
    match catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))) {
        Ok(accepted) => accepted,
        Err(panic) => {
            let kept = std::env::temp_dir().join(format!("felix-fuzz-{}-{name}", target.name));
            std::fs::write(&kept, bytes).unwrap();
            eprintln!("{} failed; its input is {}", target.name, kept.display());
            resume_unwind(panic);
        }
    }
}

fn replay(target: &Target) -> Vec<Seed> {
    let inputs = corpus::load(target.name).unwrap();
    assert!(!inputs.is_empty());
    for input in &inputs {
        let accepted = feed(target, &input.name, &input.bytes);
        if input.name.starts_with("ok-") {
            assert!(accepted, "{} refuses {}", target.name, input.name);
        }
        if input.name.starts_with("bad-") {
            assert!(!accepted, "{} accepts {}", target.name, input.name);
        }
    }
    inputs
}

fn mutate(target: &Target, inputs: &[Seed]) {
    let seed = number("FELIX_TESTS_FUZZ_SEED").unwrap_or(SEED);
    let times = number("FELIX_TESTS_FUZZ_ROUNDS").unwrap_or(1);
    eprintln!("FELIX_TESTS_FUZZ_SEED={seed}");
    let mut mutator = Mutator::new(seed);
    let rounds = target.rounds * usize::try_from(times).unwrap();
    for round in 0..rounds {
        let parent = &inputs[mutator.below(inputs.len())];
        let other = &inputs[mutator.below(inputs.len())];
        let child = mutator.child(&parent.bytes, &other.bytes);
        feed(target, &format!("{seed}-{round}"), &child);
    }
}

fn survives(name: &str) {
    let target = targets::find(name).unwrap();
    let inputs = replay(target);
    mutate(target, &inputs);
}

#[test]
fn no_batch_of_a_client_breaks_a_promise() {
    survives("batch");
}

#[test]
fn no_compressed_bytes_break_a_promise() {
    survives("codec");
}

#[test]
fn no_bytes_of_a_log_break_a_promise() {
    survives("placed");
}

#[test]
fn no_request_breaks_a_promise() {
    survives("request");
}

#[test]
fn no_connection_breaks_a_promise() {
    survives("connection");
}

#[test]
fn no_directory_breaks_a_promise() {
    survives("log");
}

#[test]
fn no_snapshot_of_producers_breaks_a_promise() {
    survives("producers");
}

#[test]
fn every_target_has_a_corpus_and_all_of_them_stay_small() {
    let mut bytes = 0;
    for target in TARGETS {
        let inputs = corpus::load(target.name).unwrap();
        let names: Vec<_> = inputs.iter().map(|input| &input.name).collect();
        for seed in (target.seeds)() {
            assert!(
                names.contains(&&seed.name),
                "{} lacks {}: run `cargo run -p felix-fuzz -- seeds`",
                target.name,
                seed.name
            );
        }
        bytes += inputs
            .iter()
            .map(|input| input.bytes.len() as u64)
            .sum::<u64>();
    }
    assert!(bytes <= corpus::BYTES_MAX, "the corpus has {bytes} bytes");
}
