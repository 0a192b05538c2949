//! Where values come from: the command line, the environment, `--dev`, the table.

use super::resolved::Settings;
use super::table::{Setting, TABLE};
use super::{SettingsError, value};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use std::collections::BTreeMap;
use std::fmt;

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Run with these settings.
    Run(Box<Settings>),
    /// Print this and leave: `--help`, `--version`.
    Print(String),
}

/// Who gave a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    Flag,
    Environment,
    Dev,
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "the flag's value",
            Self::Environment => "the environment's value",
            Self::Dev => "the value of --dev",
            Self::Default => "the default",
        })
    }
}

/// A value as given, before it is understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// The winning value of each setting that has one.
pub(super) type GivenValues = BTreeMap<&'static str, Given>;

/// Reads the settings from the command line (program name first) and the environment.
///
/// # Errors
/// A sentence that names the setting and what it accepts.
pub(crate) fn read(
    arguments: impl IntoIterator<Item = String>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Outcome, SettingsError> {
    let mut matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return asked_or_wrong(&error),
    };
    let dev = matches.get_flag("dev");
    // An empty variable counts as unset: compose files and manifests cannot leave one out.
    let environment: BTreeMap<String, String> = environment
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();

    let mut given = GivenValues::new();
    for setting in TABLE {
        let flag = matches.remove_one::<String>(setting.variable);
        if let Some(value) = choose(setting, flag, &environment, dev) {
            value::check(setting, &value)?;
            given.insert(setting.variable, value);
        }
    }
    let mut settings = Settings::resolve(&given, dev)?;
    settings.unknown_variables = unknown_variables(&environment);
    Ok(Outcome::Run(Box::new(settings)))
}

fn choose(
    setting: &Setting,
    flag: Option<String>,
    environment: &BTreeMap<String, String>,
    dev: bool,
) -> Option<Given> {
    if let Some(text) = flag {
        return Some(Given {
            text,
            origin: Origin::Flag,
        });
    }
    let variable = environment.get(setting.variable).or_else(|| {
        // The name every Rust program listens to.
        (setting.variable == "FELIX_LOG")
            .then(|| environment.get("RUST_LOG"))
            .flatten()
    });
    if let Some(text) = variable {
        return Some(Given {
            text: text.clone(),
            origin: Origin::Environment,
        });
    }
    if let Some(text) = setting.dev.filter(|_| dev) {
        return Some(Given {
            text: text.to_owned(),
            origin: Origin::Dev,
        });
    }
    setting.default.map(|text| Given {
        text: text.to_owned(),
        origin: Origin::Default,
    })
}

/// `FELIX_*` variables nobody here reads, each with the nearest one that is read. They are worth a
/// warning and no more: Kubernetes sets `FELIX_BROKER_SERVICE_HOST` and the like for a service of
/// that name, and other programs of the project have variables of their own.
fn unknown_variables(environment: &BTreeMap<String, String>) -> Vec<(String, &'static str)> {
    environment
        .keys()
        .filter(|name| name.starts_with("FELIX_"))
        .filter(|name| TABLE.iter().all(|setting| setting.variable != *name))
        .map(|name| (name.clone(), nearest(name)))
        .collect()
}

fn nearest(name: &str) -> &'static str {
    TABLE
        .iter()
        .map(|setting| setting.variable)
        .min_by_key(|known| strsim::damerau_levenshtein(known, name))
        .expect("the table is not empty")
}

fn asked_or_wrong(error: &clap::Error) -> Result<Outcome, SettingsError> {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Outcome::Print(text)),
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            Err(SettingsError::Usage(text.trim_end().to_owned()))
        }
    }
}

fn command() -> Command {
    let dev = Arg::new("dev").long("dev").action(ArgAction::SetTrue).help(
        "Development: loopback only, tenant `dev` without credentials, stream `default.clicks` \
         with 3 shards, a Kafka port per core, data in ./felix-data; settings given explicitly win",
    );
    let flags = TABLE.iter().map(|setting| {
        Arg::new(setting.variable)
            .long(setting.flag())
            .value_name("VALUE")
            .allow_hyphen_values(true)
            .help(help(setting))
    });
    Command::new("felix-broker")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Felix, a low-latency event broker")
        // The last of a repeated flag wins, so that a wrapper's flags can be overridden.
        .args_override_self(true)
        .after_help("Each setting can be given as a flag or by its variable; the flag wins.")
        .arg(dev)
        .args(flags)
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

    fn run(flags: &[&str], environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let arguments = ["felix-broker"]
            .iter()
            .chain(flags)
            .map(|text| (*text).to_owned());
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        match read(arguments, environment)? {
            Outcome::Run(settings) => Ok(*settings),
            Outcome::Print(text) => panic!("printed {text}"),
        }
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_the_environment_over_the_default() {
        assert_eq!(run(&[], &[]).unwrap().broker.0, 1);
        let environment = [("FELIX_BROKER_ID", "7")];
        assert_eq!(run(&[], &environment).unwrap().broker.0, 7);
        assert_eq!(
            run(&["--broker-id", "9"], &environment).unwrap().broker.0,
            9
        );
        assert_eq!(run(&["--broker-id=9"], &environment).unwrap().broker.0, 9);
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        assert_eq!(run(&[], &[("FELIX_BROKER_ID", "")]).unwrap().broker.0, 1);
    }

    #[test]
    fn explicit_settings_override_the_development_defaults() {
        let settings = run(&["--dev"], &[]).unwrap();
        let kafka = settings.kafka.unwrap();
        assert_eq!(kafka.listen.to_string(), "127.0.0.1:9092");
        assert_eq!(kafka.core_port_base, Some(9093));
        assert_eq!(kafka.anonymous_tenant.as_deref(), Some("dev"));

        let settings = run(&["--dev"], &[("FELIX_KAFKA_LISTEN", "127.0.0.1:19092")]).unwrap();
        let kafka = settings.kafka.unwrap();
        assert_eq!(kafka.listen.port(), 19092);
        assert_eq!(kafka.core_port_base, Some(19093));
    }

    #[test]
    fn an_unknown_flag_is_refused_with_the_nearest_one_that_exists() {
        let error = run(&["--kafka-lisen", "127.0.0.1:9092"], &[]).unwrap_err();
        assert!(matches!(error, SettingsError::Usage(_)));
        assert!(error.to_string().contains("--kafka-listen"), "{error}");
    }

    #[test]
    fn an_unknown_variable_is_noted_with_the_nearest_one_that_exists() {
        let settings = run(&[], &[("FELIX_KAFKA_LISTN", "x"), ("OTHER", "y")]).unwrap();
        let expected = vec![("FELIX_KAFKA_LISTN".to_owned(), "FELIX_KAFKA_LISTEN")];
        assert_eq!(settings.unknown_variables, expected);
    }

    #[test]
    fn help_names_every_flag_and_variable() {
        let arguments = ["felix-broker", "--help"].map(str::to_owned);
        let Outcome::Print(help) = read(arguments, []).unwrap() else {
            panic!("no help")
        };
        for setting in TABLE {
            assert!(
                help.contains(&format!("--{} ", setting.flag())),
                "{}",
                setting.variable
            );
            assert!(help.contains(setting.variable), "{}", setting.variable);
        }
    }

    #[test]
    fn rust_log_is_heard_where_the_own_variable_is_silent() {
        let rust_log = ("RUST_LOG", "debug");
        assert_eq!(run(&[], &[rust_log]).unwrap().logging.filter, "debug");
        let both = [rust_log, ("FELIX_LOG", "warn")];
        assert_eq!(run(&[], &both).unwrap().logging.filter, "warn");
    }

    #[test]
    fn every_default_is_a_value_its_setting_accepts() {
        for setting in TABLE {
            for text in [setting.default, setting.dev].into_iter().flatten() {
                let given = Given {
                    text: text.to_owned(),
                    origin: Origin::Default,
                };
                value::check(setting, &given).unwrap();
            }
        }
    }
}
