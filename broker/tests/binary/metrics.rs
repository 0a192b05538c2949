//! What a broker shows of itself, and what the page for operators says of it.

use crate::harness::Broker;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

const BEGIN: &str = "<!-- The metrics: made from what a broker shows. -->\n";
const END: &str = "<!-- The end of the metrics. -->\n";
/// Set to write the page instead of checking it.
const REFRESH: &str = "FELIX_TESTS_REFRESH_DOCS";

/// One name of the page.
#[derive(Debug, Default)]
struct Shown {
    help: String,
    kind: String,
    /// The keys of its labels.
    labels: Vec<String>,
}

/// Everything a broker shows, by name.
fn shown() -> BTreeMap<String, Shown> {
    let temp = tempdir().unwrap();
    // With TLS, which has numbers of its own.
    let mut broker = Broker::start(temp.path(), &["--kafka-tls=true"]);
    let (status, page) = broker.get("/metrics");
    assert_eq!(status, 200);
    let mut all: BTreeMap<String, Shown> = BTreeMap::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            all.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            all.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else {
            note_labels(&mut all, line);
        }
    }
    all
}

fn note_labels(all: &mut BTreeMap<String, Shown>, line: &str) {
    let (name, rest) = line.split_once(['{', ' ']).unwrap();
    let name = ["_sum", "_count"]
        .iter()
        .filter(|_| !all.contains_key(name))
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name);
    let shown = all
        .get_mut(name)
        .unwrap_or_else(|| panic!("no HELP before {line}"));
    let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
    for (key, _) in labels.split(',').filter_map(|label| label.split_once('=')) {
        if key != "quantile" && !shown.labels.iter().any(|known| known == key) {
            shown.labels.push(key.to_owned());
        }
    }
}

/// The unit, which is the last word of a name but for `total` and `max`.
fn unit(name: &str) -> &'static str {
    let words: Vec<&str> = name.split('_').collect();
    let last = words.iter().rfind(|word| !["total", "max"].contains(word));
    match *last.unwrap() {
        "us" => "us",
        "seconds" => "s",
        "bytes" => "bytes",
        _ => "",
    }
}

fn table(all: &BTreeMap<String, Shown>) -> String {
    let mut table = String::from("\n| name | kind | unit | labels | meaning |\n");
    table.push_str("|---|---|---|---|---|\n");
    for (name, shown) in all {
        let Shown { help, kind, labels } = shown;
        let unit = unit(name);
        let labels = labels.join(", ");
        table.push_str(&format!(
            "| `{name}` | {kind} | {unit} | {labels} | {help} |\n"
        ));
    }
    table.push('\n');
    table
}

fn page() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap().join("docs/operations.md")
}

#[test]
fn the_page_for_operators_has_every_metric_that_a_broker_shows_and_no_other() {
    let made = table(&shown());
    let page_text = fs::read_to_string(page()).unwrap();
    let (before, rest) = page_text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os(REFRESH).is_some() {
        fs::write(page(), format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    let lacks = |one: &str, other: &str| -> Vec<String> {
        let lines = one
            .lines()
            .filter(|line| !other.lines().any(|had| had == *line));
        lines.map(str::to_owned).collect()
    };
    assert!(
        found == made,
        "docs/operations.md is not what a broker shows. To write it anew:\n    {REFRESH}=1 cargo \
         test -p felix-broker --test binary metrics\nmissing: {:#?}\nstale: {:#?}",
        lacks(&made, found),
        lacks(found, &made)
    );
}

/// A duration, or a number of what its last word says.
fn is_summary_name(name: &str) -> bool {
    let units = ["_us", "_seconds", "_records", "_appends"];
    units.iter().any(|unit| name.ends_with(unit))
}

#[test]
fn a_metric_says_what_it_is_and_its_name_what_it_counts_in() {
    for (name, shown) in shown() {
        let Shown { help, kind, .. } = shown;
        assert!(name.starts_with("felix_"), "{name}");
        assert!(help.ends_with('.'), "{name}: {help}");
        match kind.as_str() {
            "counter" => assert!(name.ends_with("_total"), "{name}"),
            "summary" => assert!(is_summary_name(&name), "{name}"),
            "gauge" => assert!(!name.ends_with("_total"), "{name}"),
            other => panic!("{name} is a {other}"),
        }
    }
}
