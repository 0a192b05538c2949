//! The settings file: flat TOML, a key for each setting.

use super::SettingsError;
use super::nearest::nearest;
use super::source::{Given, Origin};
use super::table::{CONFIG, Kind, Setting, TABLE};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The values of the file, by variable. One of another type than its setting wants is the fault
/// that this is: it counts only where the value would.
pub(super) type FileValues = BTreeMap<&'static str, Result<Given, SettingsError>>;

/// Reads a settings file. `named_by` gave its path.
///
/// # Errors
/// A sentence with the file and, where there is one, the line.
pub(super) fn read(path: &Path, named_by: &str) -> Result<FileValues, SettingsError> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        SettingsError::File(format!(
            "the settings file {shown} cannot be read: {error}; {named_by} names it"
        ))
    })?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<FileValues, SettingsError> {
    let shown = path.display();
    let table = DeTable::parse(text).map_err(|error| {
        // It shows the line, and ends with a line break that is one too many.
        let error = error.to_string();
        SettingsError::File(format!(
            "the settings file {shown}: {}\neach line is `key = value`, and a value that is no number \
             and neither true nor false stands in quotes",
            error.trim_end()
        ))
    })?;
    let path: Rc<Path> = path.into();
    // By place and not by name, so that what is complained of first stands first.
    let mut entries: Vec<_> = table.into_inner().into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut values = FileValues::new();
    for (key, value) in entries {
        let line = line_of(text, &key);
        let at = |what| SettingsError::File(format!("line {line} of {shown}: {what}"));
        let setting = setting(key.get_ref(), value.get_ref()).map_err(at)?;
        let given = plain(setting, value.get_ref()).map_err(at).map(|text| {
            let path = Rc::clone(&path);
            let origin = Origin::File { path, line };
            Given { text, origin }
        });
        values.insert(setting.variable, given);
    }
    Ok(values)
}

fn line_of<T>(text: &str, part: &Spanned<T>) -> usize {
    let before = text.get(..part.span().start).unwrap_or(text);
    1 + before.matches('\n').count()
}

fn setting(key: &str, value: &DeValue<'_>) -> Result<&'static Setting, String> {
    let found = TABLE.iter().find(|setting| setting.key() == key);
    match found {
        Some(setting) if setting.variable == CONFIG => Err(format!(
            "{key} cannot stand in a settings file; --config and {CONFIG} say which one is read"
        )),
        Some(setting) => Ok(setting),
        None => {
            // Written as a flag or as a variable, the name is meant all the same.
            let plain = key.to_ascii_lowercase().replace('-', "_");
            let plain = plain.strip_prefix("felix_").unwrap_or(&plain);
            let known = TABLE.iter().filter(|setting| setting.variable != CONFIG);
            let nearest = nearest(plain, known.map(Setting::key));
            let what = if value.is_table() { "table" } else { "key" };
            Err(format!(
                "the {what} {key:?} is unknown; the nearest key is {nearest}"
            ))
        }
    }
}

/// The value as it would be written for a flag. Types are strict: a number in quotes would be a
/// second spelling of everything, and `"false"` is true to many.
fn plain(setting: &Setting, value: &DeValue<'_>) -> Result<String, String> {
    let wanted = match setting.kind {
        Kind::Switch => match value.as_bool() {
            Some(switch) => return Ok(switch.to_string()),
            None => "true or false, without quotes",
        },
        Kind::Number { .. } => match value.as_integer() {
            Some(number) => {
                let digits = i128::from_str_radix(number.as_str(), number.radix());
                return Ok(digits.map_or_else(|_| number.to_string(), |value| value.to_string()));
            }
            None => "a whole number, without quotes",
        },
        Kind::Choice(_)
        | Kind::Listen
        | Kind::HostPort
        | Kind::Cpus
        | Kind::Name
        | Kind::CipherSuites
        | Kind::Tenant
        | Kind::Namespace
        | Kind::Path
        | Kind::Filter => match value.as_str() {
            Some(text) => return Ok(text.to_owned()),
            None => "a text in quotes",
        },
    };
    Err(format!(
        "{} is {}, and it has to be {wanted}",
        setting.key(),
        name_of(value)
    ))
}

fn name_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    fn file(text: &str) -> Result<FileValues, String> {
        let temp = tempdir().unwrap();
        let path = temp.path().join("felix.toml");
        fs::write(&path, text).unwrap();
        read(&path, "--config").map_err(|error| error.to_string())
    }

    fn value(values: &FileValues, variable: &str) -> Given {
        values[variable].clone().unwrap()
    }

    fn refused(text: &str) -> String {
        file(text).unwrap_err()
    }

    #[test]
    fn values_are_read_by_their_type_and_keep_their_line() {
        let text = "# a comment\nkafka_tls = false\n\nbroker_id = 0x1_0\ncores = '0,2-3'\n";
        let values = file(text).unwrap();
        assert_eq!(value(&values, "FELIX_KAFKA_TLS").text, "false");
        assert_eq!(value(&values, "FELIX_BROKER_ID").text, "16");
        assert_eq!(value(&values, "FELIX_CORES").text, "0,2-3");
        let Origin::File { line, path } = value(&values, "FELIX_BROKER_ID").origin else {
            panic!("it came from the file")
        };
        assert_eq!(line, 4);
        assert!(path.ends_with("felix.toml"));
        assert!(file("").unwrap().is_empty());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_nearest_one() {
        for (text, line, nearest) in [
            ("\n\nkafka_lisen = \"x\"", 3, "kafka_listen"),
            ("kafka-listen = \"x\"", 1, "kafka_listen"),
            ("FELIX_BROKER_ID = 7", 1, "broker_id"),
            ("broker_id = 7\nracks = \"r\"", 2, "rack"),
            ("[logs]\nformat = \"json\"", 1, "log"),
        ] {
            let sentence = refused(text);
            assert!(sentence.contains(&format!("line {line} of ")), "{sentence}");
            let nearest = format!("the nearest key is {nearest}");
            assert!(sentence.ends_with(&nearest), "{sentence}");
        }
        // The first fault in the file is the one told, whatever the names.
        assert!(refused("zzz = 1\naaa = 1\n").contains("\"zzz\""));
        assert!(refused("config = \"other.toml\"").contains("cannot stand in a settings file"));
    }

    #[test]
    fn a_value_of_another_type_is_the_fault_with_what_is_wanted() {
        for (variable, text, fault) in [
            (
                "FELIX_KAFKA_TLS",
                "kafka_tls = \"false\"",
                "true or false, without quotes",
            ),
            (
                "FELIX_BROKER_ID",
                "broker_id = \"7\"",
                "a whole number, without quotes",
            ),
            (
                "FELIX_BROKER_ID",
                "broker_id = 7.0",
                "broker_id is a fraction",
            ),
            (
                "FELIX_CORES",
                "cores = [0, 1]",
                "cores is a list, and it has to be a text",
            ),
            ("FELIX_LOG", "log = 3", "a text in quotes"),
        ] {
            let sentence = file(text).unwrap()[variable].clone().unwrap_err();
            let sentence = sentence.to_string();
            assert!(sentence.contains(fault), "{sentence}");
            assert!(sentence.contains("line 1 of"), "{sentence}");
        }
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        for text in ["rack = \"r\"\nbroker_id 7", "rack = \"r\"\nrack = \"s\"\n"] {
            let sentence = refused(text);
            assert!(sentence.contains("felix.toml") && sentence.contains("line 2"));
        }
        let sentence = refused("durable_fsync_mode = none");
        assert!(sentence.contains("stands in quotes"), "{sentence}");
        let sentence = read(Path::new("no/such.toml"), "FELIX_CONFIG").unwrap_err();
        let sentence = sentence.to_string();
        assert!(sentence.contains("no/such.toml") && sentence.contains("FELIX_CONFIG"));
    }
}
