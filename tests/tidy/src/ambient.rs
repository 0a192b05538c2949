//! Settings and time are passed in: only the broker reads the environment or a clock, and tests.

use crate::Fault;
use crate::allowed::{Allowed, unused};
use crate::source::Source;

/// Calls that read the world, as they are written after any import.
const CALLS: [&str; 8] = [
    "env::var",
    "env::var_os",
    "env::vars",
    "env::args",
    "Instant::now",
    "SystemTime::now",
    "clock_gettime",
    "gettimeofday",
];

/// Every read of environment or clock outside the broker that is not allowed.
#[must_use]
pub fn check(sources: &[Source], allowed: &[Allowed]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut used = vec![false; allowed.len()];
    let below = |source: &&Source| !source.is_test() && !source.path.starts_with("broker/");
    for source in sources.iter().filter(below) {
        let lines = source.code.lines().take(source.lines_before_tests());
        for (line, code) in (1..).zip(lines) {
            for call in CALLS.into_iter().filter(|call| calls(code, call)) {
                match allowed
                    .iter()
                    .position(|entry| entry.covers(&source.path, call))
                {
                    Some(entry) => used[entry] = true,
                    None => faults.push(Fault::new(
                        &source.path,
                        line,
                        format!("{call} below the broker; let the caller pass it in"),
                    )),
                }
            }
        }
    }
    faults.extend(unused(allowed, &used));
    faults
}

fn calls(code: &str, call: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(call)
        .any(|(at, _)| !code[..at].ends_with(word) && !code[at + call.len()..].starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_environment_below_the_broker_are_caught() {
        for text in [
            "let n = Instant::now();",
            "std::time::SystemTime::now()",
            "std::env::var(NAME)",
        ] {
            assert_eq!(
                check(&[Source::new("shard/src/a.rs", text)], &[]).len(),
                1,
                "{text}"
            );
            assert!(check(&[Source::new("broker/src/a.rs", text)], &[]).is_empty());
            assert!(check(&[Source::new("shard/tests/a.rs", text)], &[]).is_empty());
            let tests = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
            assert!(check(&[Source::new("shard/src/a.rs", &tests)], &[]).is_empty());
        }
        let innocent = "env!(NAME); my_env::variable(); fn instant() {}";
        assert!(check(&[Source::new("shard/src/a.rs", innocent)], &[]).is_empty());
    }
}
