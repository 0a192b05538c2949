//! `--print-config`: the settings in effect, as a settings file.

use super::source::GivenValues;
use super::table::{CONFIG, Kind, Setting, TABLE};
use std::fmt::Write;
use toml::Value;

/// The settings file that has the same effect, with the source of each value beside it.
#[must_use]
pub(super) fn page(given: &GivenValues) -> String {
    let mut page = format!(
        "# The settings of felix-broker {} that are in effect, each with its source.\n\
         # As a file for --config it has the same effect.\n\n",
        env!("CARGO_PKG_VERSION")
    );
    // A settings file cannot name another one.
    let settings = TABLE.iter().filter(|setting| setting.variable != CONFIG);
    for setting in settings {
        let key = setting.key();
        match given.get(setting.variable) {
            Some(value) => {
                let literal = literal(setting, &value.text);
                let source = value.origin.source(setting);
                writeln!(page, "{key} = {literal}  # {source}")
            }
            None => writeln!(page, "# {key} is unset: {}", setting.unset),
        }
        .expect("a string takes everything");
    }
    page
}

fn literal(setting: &Setting, text: &str) -> String {
    match setting.kind {
        Kind::Switch => text.to_owned(),
        // Flags take 007, which is no number to TOML.
        Kind::Number { .. } => text
            .parse::<u64>()
            .expect("values are checked before they are printed")
            .to_string(),
        Kind::Choice(_)
        | Kind::Listen
        | Kind::HostPort
        | Kind::Cpus
        | Kind::Name
        | Kind::CipherSuites
        | Kind::Tenant
        | Kind::Namespace
        | Kind::Path
        | Kind::Filter => Value::from(text).to_string(),
    }
}
