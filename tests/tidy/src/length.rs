//! A file is about one noun. When it grows long there is a second noun in it.

use crate::Fault;
use crate::source::Source;

/// Lines of a file without the tests at its end.
pub const LINES_MAX: usize = 500;

/// Lines of a file with its tests, or of a file of tests.
pub const LINES_WITH_TESTS_MAX: usize = 700;

/// Every file over its cap; `longer` lists those that may be longer for now, and how long.
#[must_use]
pub fn check(sources: &[Source], longer: &[(&str, usize)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        let code = if source.is_test() {
            0
        } else {
            source.lines_before_tests()
        };
        let fits = code <= LINES_MAX && lines <= LINES_WITH_TESTS_MAX;
        match longer.iter().find(|(path, _)| *path == source.path) {
            None if !fits => faults.push(Fault::new(
                &source.path,
                0,
                format!(
                    "{code} lines of code and {lines} in all; at most {LINES_MAX} and \
                     {LINES_WITH_TESTS_MAX}: look for the second noun"
                ),
            )),
            Some((_, cap)) if lines > *cap => faults.push(Fault::new(
                &source.path,
                0,
                format!("{lines} lines; it was listed with {cap} and may only shrink"),
            )),
            Some(_) if fits => faults.push(Fault::new(
                &source.path,
                0,
                "fits by now; remove it from the list of long files",
            )),
            None | Some(_) => {}
        }
    }
    for (path, _) in longer {
        if !sources.iter().any(|source| source.path == *path) {
            faults.push(Fault::new(
                path,
                0,
                "is listed as a long file and does not exist",
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(code: usize, tests: usize) -> Source {
        let text = "x\n".repeat(code) + "#[cfg(test)]\nmod tests {\n" + &"x\n".repeat(tests);
        Source::new("core/src/a.rs", &text)
    }

    #[test]
    fn a_file_over_either_cap_is_caught() {
        assert!(check(&[source(500, 198)], &[]).is_empty());
        assert_eq!(check(&[source(501, 0)], &[]).len(), 1);
        assert_eq!(check(&[source(500, 199)], &[]).len(), 1);
    }

    #[test]
    fn the_list_of_long_files_only_shrinks() {
        let listed = [("core/src/a.rs", 602)];
        assert!(check(&[source(600, 0)], &listed).is_empty());
        assert_eq!(check(&[source(601, 0)], &listed).len(), 1, "it grew");
        assert_eq!(check(&[source(10, 0)], &listed).len(), 1, "it fits by now");
        assert_eq!(check(&[], &listed).len(), 1, "it is gone");
    }
}
