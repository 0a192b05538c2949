//! The table of `docs/configuration.md`, made from the table of settings.

use super::table::{Setting, TABLE};
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- The settings: made from the table in broker/src/settings/table.rs. -->\n";
const END: &str = "<!-- The end of the settings. -->\n";
/// What others put into the environment, told as an example.
const OF_OTHERS: &[&str] = &["FELIX_BROKER_SERVICE_HOST"];
/// Set to write the page instead of checking it.
const REFRESH: &str = "FELIX_TESTS_REFRESH_DOCS";

fn markdown() -> String {
    let mut page = String::from("\n| flag, variable, key | meaning | default | values |\n");
    page.push_str("|---|---|---|---|\n");
    page.extend(TABLE.iter().map(row));
    page.push('\n');
    page
}

fn row(setting: &Setting) -> String {
    let dev = setting
        .dev
        .map(|value| format!("; `--dev`: {value}"))
        .unwrap_or_default();
    format!(
        "| `--{}`<br>`{}`<br>`{}` | {} | {}{dev} | {} |\n",
        setting.flag(),
        setting.variable,
        setting.key(),
        setting.sentence,
        setting.default_text(),
        setting.accepts(),
    )
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap().to_path_buf()
}

#[test]
fn the_configuration_page_has_the_settings_as_the_table_has_them() {
    let path = root().join("docs/configuration.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("the page marks the beginning");
    let (found, after) = rest.split_once(END).expect("the page marks the end");
    let made = markdown();
    if std::env::var_os(REFRESH).is_some() {
        fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    let stale = |one: &str, other: &str| -> Vec<String> {
        let lines = one
            .lines()
            .filter(|line| !other.lines().any(|had| had == *line));
        lines.map(str::to_owned).collect()
    };
    assert!(
        found == made,
        "docs/configuration.md is not what the table of settings says. To write it anew:\n    \
         {REFRESH}=1 cargo test -p felix-broker --lib settings::page\nmissing: {:#?}\nstale: {:#?}",
        stale(&made, found),
        stale(found, &made)
    );
}

/// Pages outlive settings. A variable that is told to readers and that nobody reads is a trap.
#[test]
fn every_variable_that_the_documents_name_exists() {
    let folder = root().join("docs");
    let mut paths = vec![root().join("README.md")];
    paths.extend(
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path()),
    );
    let mut seen = 0;
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
    {
        // A page that is not written yet says nothing wrong.
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.len() > "FELIX_".len()) {
            if word.starts_with("FELIX_") && !word.starts_with("FELIX_TESTS_") {
                let known = TABLE.iter().any(|setting| setting.variable == word)
                    || OF_OTHERS.contains(&word);
                assert!(
                    known,
                    "{} tells of {word}, which is no setting",
                    path.display()
                );
                seen += 1;
            }
        }
    }
    assert!(seen >= TABLE.len(), "the documents were read");
}
