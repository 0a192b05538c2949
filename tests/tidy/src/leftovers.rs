//! Nothing unfinished lands: what is not built is absent, and what is known to be wrong is mended
//! or written down where users look.

use crate::Fault;
use crate::source::Source;

/// In code.
const MACROS: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// Anywhere, comments included. Spelled in halves so that this file passes its own rule.
const MARKS: [&str; 3] = [
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
];

/// Every leftover, in tests too.
#[must_use]
pub fn check(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources {
        for (line, (code, text)) in (1..).zip(source.code.lines().zip(source.text.lines())) {
            let in_code = MACROS.iter().filter(|left| code.contains(**left));
            let anywhere = MARKS.iter().filter(|left| has_word(text, left));
            for left in in_code.chain(anywhere) {
                faults.push(Fault::new(
                    &source.path,
                    line,
                    format!("{left} is left over"),
                ));
            }
        }
    }
    faults
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric())
        .any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_caught_in_code_and_marks_also_in_comments() {
        for text in [
            "todo!()",
            "unimplemented!(\"later\")",
            "dbg!(x)",
            "#[ignore = \"slow\"]",
        ] {
            assert_eq!(
                check(&[Source::new("core/src/a.rs", text)]).len(),
                1,
                "{text}"
            );
            let comment = format!("// {text}");
            assert!(check(&[Source::new("core/src/a.rs", &comment)]).is_empty());
        }
        for mark in MARKS {
            let comment = format!("// {mark}: later");
            assert_eq!(
                check(&[Source::new("tests/a.rs", &comment)]).len(),
                1,
                "{mark}"
            );
        }
    }
}
