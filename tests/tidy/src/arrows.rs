//! Which of our crates may use which, and which libraries stay in one place
//! (`docs/ARCHITECTURE.md`). Siblings do not import each other, not even in their tests.

use crate::Fault;
use toml::{Table, Value};

/// What each folder's crate may use of ours. `ALL`: anything.
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("shard", &["felix-core"]),
    ("kafka", &["felix-core"]),
    ("native", &["felix-core"]),
    ("net", &["felix-core"]),
    ("replication", &["felix-core"]),
    ("control", &["felix-core"]),
    ("client", &["felix-core", "felix-native"]),
    ("broker", ALL),
    ("tests", ALL),
    ("tests/clients/librdkafka", &[]),
    ("tests/clients/rust", &[]),
    ("tests/fuzz", ALL),
    ("tests/fuzz/cargo-fuzz", &["felix-fuzz"]),
    ("tests/tidy", &[]),
    ("benches", ALL),
    ("benches/librdkafka", &[]),
];

const ALL: &[&str] = &["*"];

/// Libraries that only some folders may use, and why.
const CONFINED: &[(&str, &[&str], &str)] = &[
    (
        "glommio",
        &["net", "shard", "broker", "tests/fuzz", "benches"],
        "the runtime stays out of vocabulary and protocols",
    ),
    (
        "rustls",
        // rskafka takes its configuration of TLS from whoever uses it, and so does what speaks to
        // the control plane's database.
        &["net", "control", "client", "benches", "tests/clients/rust"],
        "encryption belongs to the transport",
    ),
    (
        "quinn-proto",
        &["net", "client"],
        "QUIC belongs to the transport",
    ),
    (
        "quinn-udp",
        &["net", "client"],
        "QUIC belongs to the transport",
    ),
    (
        "tokio",
        &[
            "control",
            "broker",
            "client",
            "benches",
            "tests/clients/rust",
        ],
        "no second runtime on the data path",
    ),
    ("parking_lot", &[], "state belongs to one CPU core"),
    ("dashmap", &[], "state belongs to one CPU core"),
];

/// Checks the manifest of the crate in `folder`.
#[must_use]
pub fn check(folder: &str, manifest: &str) -> Vec<Fault> {
    let path = format!("{folder}/Cargo.toml");
    let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == folder) else {
        return vec![Fault::new(
            &path,
            0,
            "a crate that the table of arrows does not know",
        )];
    };
    let table: Table = match manifest.parse() {
        Ok(table) => table,
        Err(error) => return vec![Fault::new(&path, 0, format!("not a manifest: {error}"))],
    };
    let mut faults = Vec::new();
    for name in dependencies(&table) {
        let ours = name.starts_with("felix-");
        if ours && *allowed != ALL && !allowed.contains(&name.as_str()) {
            faults.push(Fault::new(&path, 0, format!("{folder} may not use {name}")));
        }
        for (library, folders, reason) in CONFINED {
            if name == *library && !folders.contains(&folder) {
                faults.push(Fault::new(
                    &path,
                    0,
                    format!("no {library} in {folder}: {reason}"),
                ));
            }
        }
    }
    faults
}

/// Names of all packages a manifest depends on, in whatever section and for whatever target.
fn dependencies(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let per_target = targets
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = std::iter::once(manifest).chain(per_target);
    let tables = tables.flat_map(|table| sections.map(|section| table.get(section)));
    let entries = tables.flatten().filter_map(Value::as_table).flatten();
    // A dependency may be imported under another name.
    entries
        .map(|(name, how)| {
            how.get("package")
                .and_then(Value::as_str)
                .unwrap_or(name)
                .to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(folder: &str, manifest: &str) -> Vec<String> {
        check(folder, manifest)
            .into_iter()
            .map(|fault| fault.what)
            .collect()
    }

    #[test]
    fn siblings_are_caught_in_every_section_and_under_every_name() {
        for manifest in [
            "[dependencies]\nfelix-shard.workspace = true",
            "[dev-dependencies]\nfelix-shard = { path = '../shard' }",
            "[target.'cfg(unix)'.dependencies]\nfelix-shard = '1'",
            "[build-dependencies]\nother = { package = 'felix-shard', version = '1' }",
        ] {
            assert_eq!(
                faults("kafka", manifest),
                ["kafka may not use felix-shard"],
                "{manifest}"
            );
            assert!(faults("broker", manifest).is_empty());
        }
        assert!(faults("kafka", "[dependencies]\nfelix-core.workspace = true").is_empty());
        assert_eq!(
            faults("core", "[dependencies]\nfelix-net = '1'"),
            ["core may not use felix-net"]
        );
    }

    #[test]
    fn a_runtime_outside_its_place_is_caught() {
        let manifest = "[dependencies]\nglommio.workspace = true";
        assert!(faults("shard", manifest).is_empty());
        assert_eq!(faults("kafka", manifest).len(), 1);
        assert_eq!(faults("shard", "[dev-dependencies]\ntokio = '1'").len(), 1);
        assert_eq!(faults("broker", "[dependencies]\nrustls = '1'").len(), 1);
    }

    #[test]
    fn a_crate_nobody_placed_is_caught() {
        assert_eq!(faults("attic", "").len(), 1);
    }
}
