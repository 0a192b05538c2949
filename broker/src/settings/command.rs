//! The command line: a flag for each setting, and a few that ask for something else than to run.

use super::SettingsError;
use super::nearest::nearest;
use super::table::{DEV, Setting, TABLE};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use std::collections::BTreeMap;

const PRINT_CONFIG: &str = "print-config";
const CHECK_CONFIG: &str = "check-config";
const NEW_TOKEN: &str = "new-token";

/// What to do with the settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    Run,
    Check,
    Print,
}

/// A command line that was understood.
#[derive(Debug)]
pub(super) enum Parsed {
    /// Read the settings.
    Line(Line),
    /// Print this and leave: `--help`, `--version`.
    Answer(String),
    /// Make a token for this tenant and subject, and leave.
    NewToken(String),
}

/// The flags.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) wish: Wish,
    /// By the setting's variable.
    pub(super) flags: BTreeMap<&'static str, String>,
}

/// Reads a command line, program name first.
///
/// # Errors
/// A sentence that names the flag and, where it does not exist, the nearest one that does.
pub(super) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Parsed, SettingsError> {
    let mut matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return asked_or_wrong(&error),
    };
    if let Some(whose) = matches.remove_one::<String>(NEW_TOKEN) {
        return Ok(Parsed::NewToken(whose));
    }
    let wish = if matches.get_flag(PRINT_CONFIG) {
        Wish::Print
    } else if matches.get_flag(CHECK_CONFIG) {
        Wish::Check
    } else {
        Wish::Run
    };
    let flags = TABLE.iter().filter_map(|setting| {
        let value = matches.remove_one::<String>(setting.variable)?;
        Some((setting.variable, value))
    });
    let flags = flags.collect();
    Ok(Parsed::Line(Line { wish, flags }))
}

fn asked_or_wrong(error: &clap::Error) -> Result<Parsed, SettingsError> {
    let text = error.render().to_string();
    if let ErrorKind::DisplayHelp | ErrorKind::DisplayVersion = error.kind() {
        return Ok(Parsed::Answer(text));
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
    {
        return Err(SettingsError::Usage(unknown(word)));
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Err(SettingsError::Usage(text.trim_end().to_owned()))
}

fn unknown(word: &str) -> String {
    let name = word.split('=').next().unwrap_or(word);
    if !name.starts_with('-') {
        return format!("{word:?} is no flag, and values follow a flag; --help lists them");
    }
    let others = [PRINT_CONFIG, CHECK_CONFIG, NEW_TOKEN, "help", "version"].map(str::to_owned);
    let known = TABLE.iter().map(Setting::flag).chain(others);
    let nearest = nearest(name.trim_start_matches('-'), known);
    format!("the flag {name} does not exist; the nearest is --{nearest}, and --help lists all")
}

fn command() -> Command {
    let print = Arg::new(PRINT_CONFIG)
        .long(PRINT_CONFIG)
        .action(ArgAction::SetTrue)
        .conflicts_with(CHECK_CONFIG)
        .help(
            "Prints the settings in effect, each with where it comes from, as a settings file, and \
             ends",
        );
    let check = Arg::new(CHECK_CONFIG)
        .long(CHECK_CONFIG)
        .action(ArgAction::SetTrue)
        .help(
            "Checks the settings and the catalog file, and ends: says ok, or what is wrong with \
             exit code 2",
        );
    let new_token = Arg::new(NEW_TOKEN)
        .long(NEW_TOKEN)
        .value_name("TENANT/SUBJECT")
        .conflicts_with_all([PRINT_CONFIG, CHECK_CONFIG])
        .help(
            "Makes a token, and ends: the entry for the token file goes to standard output, the \
             token itself, which is kept nowhere, to standard error",
        );
    Command::new("felix-broker")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Felix, a low-latency event broker")
        // The last of a repeated flag wins, so that a wrapper's flags can be overridden.
        .args_override_self(true)
        .after_help(
            "Each setting can be given as a flag, by its variable, or in the settings file under \
             the flag's name with _ for -. A flag wins over a variable, a variable over the file, \
             and the file over the default.",
        )
        .arg(print)
        .arg(check)
        .arg(new_token)
        .args(TABLE.iter().map(flag))
}

fn flag(setting: &'static Setting) -> Arg {
    let flag = Arg::new(setting.variable)
        .long(setting.flag())
        .value_name("VALUE")
        .help(help(setting));
    if setting.variable == DEV {
        // The one flag that is typed by hand all day: it may stand alone.
        flag.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    } else {
        flag.allow_hyphen_values(true)
    }
}

fn help(setting: &Setting) -> String {
    format!(
        "{}\n[{}] [default: {}] [values: {}]",
        setting.sentence,
        setting.variable,
        setting.default_text(),
        setting.accepts()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Result<Parsed, SettingsError> {
        let words = ["felix-broker"].iter().chain(words);
        parse(words.map(|word| (*word).to_owned()))
    }

    fn refused(words: &[&str]) -> String {
        match line(words).unwrap_err() {
            SettingsError::Usage(sentence) => sentence,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unknown_flag_is_refused_with_the_nearest_one_that_exists() {
        for (given, meant) in [
            ("--kafka-lisen", "--kafka-listen,"),
            ("--kafka-lisen=127.0.0.1:9092", "--kafka-listen,"),
            ("--check_config", "--check-config,"),
            ("--print", "--print-config,"),
            ("--fsync-mode", "--durable-fsync-mode,"),
        ] {
            let sentence = refused(&[given]);
            let nearest = format!("the nearest is {meant}");
            assert!(sentence.contains(&nearest), "{given}: {sentence}");
            assert!(!sentence.contains('\n'), "{sentence}");
        }
        assert!(refused(&["-x"]).contains("the flag -x does not exist"));
        assert!(refused(&["start"]).contains("\"start\" is no flag"));
    }

    #[test]
    fn help_names_every_flag_variable_and_bound() {
        let Parsed::Answer(help) = line(&["--help"]).unwrap() else {
            panic!("no help")
        };
        for setting in TABLE {
            let flag = format!("--{}", setting.flag());
            for part in [flag, setting.accepts(), setting.default_text()] {
                assert!(help.contains(&part), "{}: {part}", setting.variable);
            }
            assert!(help.contains(setting.variable), "{}", setting.variable);
        }
    }

    #[test]
    fn dev_stands_alone_or_takes_a_value_after_an_equals_sign() {
        let given = |words: &[&str]| match line(words).unwrap() {
            Parsed::Line(line) => line.flags,
            other => panic!("{other:?}"),
        };
        let flags = given(&["--dev", "--broker-id", "7"]);
        assert_eq!(flags[DEV], "true");
        assert_eq!(flags["FELIX_BROKER_ID"], "7");
        assert_eq!(given(&["--dev", "--dev=false"])[DEV], "false");
    }

    #[test]
    fn printing_and_checking_are_one_or_the_other() {
        assert!(refused(&["--print-config", "--check-config"]).contains("cannot be used with"));
    }
}
