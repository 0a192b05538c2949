//! The project speaks of itself only: no paths of the machine it was written on, and no hosts of
//! package registries, which each user's tools know by themselves.

use crate::Fault;
use crate::tree::File;

/// Spelled in halves so that this file passes its own rule.
const FORBIDDEN: [&str; 13] = [
    concat!("/wo", "rk/"),
    concat!("/tmp", "/wt"),
    concat!("/ro", "ot/"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("static.cra", "tes.io"),
    concat!("index.cra", "tes.io"),
    concat!("registry.npm", "js.org"),
    concat!("proxy.gol", "ang.org"),
    concat!("maven.apa", "che.org/maven2"),
    concat!("repo1.ma", "ven.org"),
    concat!("deb.deb", "ian.org"),
    concat!("archive.ubu", "ntu.com"),
];

/// Every mention, in whatever text.
#[must_use]
pub fn check(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files {
        for (line, text) in (1..).zip(file.text.lines()) {
            for found in FORBIDDEN.iter().filter(|found| text.contains(**found)) {
                faults.push(Fault::new(&file.path, line, format!("names {found}")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_and_registry_hosts_are_caught() {
        for found in FORBIDDEN {
            let text = format!("see {found}x");
            assert_eq!(
                check(&[File {
                    path: "README.md".into(),
                    text
                }])
                .len(),
                1,
                "{found}"
            );
        }
        let text = "a workspace of crates; work/ and tmp/".to_owned();
        assert!(
            check(&[File {
                path: "README.md".into(),
                text
            }])
            .is_empty()
        );
    }
}
