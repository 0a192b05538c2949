//! glommio is named only in a few files, so that it can be changed or replaced there.

use crate::Fault;
use crate::allowed::{Allowed, unused};
use crate::source::Source;

/// Every use of glommio outside the allowed files, and every allowed file that has none.
#[must_use]
pub fn check(sources: &[Source], allowed: &[Allowed]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut used = vec![false; allowed.len()];
    for source in sources.iter().filter(|source| !source.is_test()) {
        for (line, _) in source.words().filter(|(_, word)| *word == "glommio") {
            match allowed
                .iter()
                .position(|entry| entry.covers(&source.path, "glommio"))
            {
                Some(entry) => used[entry] = true,
                None => faults.push(Fault::new(
                    &source.path,
                    line,
                    "glommio outside its seams; put the call behind one of them",
                )),
            }
        }
    }
    faults.extend(unused(allowed, &used));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAM: [Allowed; 1] = [Allowed::new(
        "net/src/readiness.rs",
        &["glommio"],
        "the seam",
    )];

    #[test]
    fn glommio_outside_a_seam_is_caught() {
        let inside = Source::new("net/src/readiness.rs", "use glommio::net::TcpStream;");
        let outside = Source::new("net/src/tcp.rs", "// glommio\nuse glommio::timer::sleep;");
        assert!(check(std::slice::from_ref(&inside), &SEAM).is_empty());
        let faults = check(&[inside, outside], &SEAM);
        assert_eq!(faults.len(), 1);
        assert_eq!(
            (faults[0].path.as_str(), faults[0].line),
            ("net/src/tcp.rs", 2)
        );
    }

    #[test]
    fn a_seam_that_no_longer_needs_glommio_is_caught() {
        assert_eq!(check(&[], &SEAM).len(), 1);
    }
}
