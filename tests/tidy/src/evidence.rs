//! Every test that a document cites as evidence is there.

use crate::Fault;
use crate::source::Source;
use crate::tree::File;
use std::collections::BTreeSet;

/// The document whose claims are tied to tests.
pub const DOCUMENT: &str = "docs/projections.md";

/// The fewest words that the name of a test has: file names and types that stand in backticks have
/// fewer.
const WORDS_MIN: usize = 4;

/// Every name of a test in backticks that no test of the repository has, and each row of a table
/// that should name one and does not.
#[must_use]
pub fn check(documents: &[File], sources: &[Source]) -> Vec<Fault> {
    let tests: BTreeSet<&str> = sources.iter().flat_map(tests).collect();
    let mut faults = Vec::new();
    for file in documents.iter().filter(|file| file.path == DOCUMENT) {
        let mut owes = false;
        for (number, line) in (1..).zip(file.text.lines()) {
            let mut cited = line
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|word| is_name(word));
            let names: Vec<&str> = cited.by_ref().collect();
            for name in names.iter().filter(|name| !tests.contains(*name)) {
                let what = format!("the test `{name}` is not there: what shows the claim now?");
                faults.push(Fault::new(&file.path, number, what));
            }
            let is_row = line.starts_with('|');
            let is_head = line.contains("shown by") || line.starts_with("|---");
            if owes && is_row && !is_head && names.is_empty() {
                faults.push(Fault::new(&file.path, number, "no test shows this claim"));
            }
            owes = is_row && (owes || line.ends_with("| shown by |"));
        }
    }
    faults
}

fn is_name(word: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.chars().all(is_letter) && word.split('_').count() >= WORDS_MIN
}

/// The functions that are tests.
fn tests(source: &Source) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    source.code.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("#[test]") {
            is_test = true;
        }
        let (name, _) = line.strip_prefix("fn ")?.split_once('(')?;
        std::mem::take(&mut is_test).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: &str) -> Vec<usize> {
        let code =
            "#[test]\n#[expect(x)]\nfn a_kill_loses_nothing() {}\nfn a_helper_of_a_test() {}";
        let sources = [Source::new("a.rs", code)];
        let document = File {
            path: DOCUMENT.into(),
            text: document.into(),
        };
        let faults = check(&[document], &sources);
        faults.iter().map(|fault| fault.line).collect()
    }

    #[test]
    fn a_claim_without_its_test_is_caught() {
        assert_eq!(found("Shown by `a_kill_loses_nothing`."), []);
        assert_eq!(
            found("In `core/src`, shown\nby `a_kill_loses_something`."),
            [2]
        );
        assert_eq!(found("`a_helper_of_a_test` is none"), [1]);
        let head = "| what | shown by |\n|---|---|\n";
        assert_eq!(
            found(&format!("{head}| x | `a_kill_loses_nothing` |\n")),
            []
        );
        assert_eq!(found(&format!("{head}| x | nothing |\n")), [3]);
        assert_eq!(found("| what | where |\n|---|---|\n| x | `y` |\n"), []);
    }
}
