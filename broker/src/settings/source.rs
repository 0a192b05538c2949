//! Where values come from: the command line, the environment, the settings file, `--dev`, the
//! table.

use super::command::{self, Line, Parsed, Wish};
use super::file::{self, FileValues};
use super::nearest::nearest;
use super::resolved::Settings;
use super::table::{CONFIG, DEV, LOG, Setting, TABLE, find};
use super::{SettingsError, print, value};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Run with these settings.
    Run(Box<Settings>),
    /// Check whether it could run with these settings, and leave.
    Check(Box<Settings>),
    /// Print this and leave: `--help`, `--version`, `--print-config`.
    Print(String),
    /// Make a token for this tenant and subject, and leave.
    NewToken(String),
}

/// Who gave a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    Flag,
    Environment,
    /// The variable every Rust program listens to.
    RustLog,
    File {
        path: Rc<Path>,
        line: usize,
    },
    Dev,
    Default,
}

impl Origin {
    /// The value and whence it came, as the beginning of a sentence.
    pub(super) fn describe(&self, text: &str) -> String {
        match self {
            Self::Flag => format!("the flag's value {text:?}"),
            Self::Environment => format!("the environment's value {text:?}"),
            Self::RustLog => format!("the value {text:?} of RUST_LOG"),
            Self::File { path, line } => {
                format!("the value {text:?} in line {line} of {}", path.display())
            }
            Self::Dev => format!("the value {text:?} of --dev"),
            Self::Default => format!("the default {text:?}"),
        }
    }

    /// Whence the value of a setting came, in few words and without line breaks.
    pub(super) fn source(&self, setting: &Setting) -> String {
        match self {
            Self::Flag => format!("--{}", setting.flag()),
            Self::Environment => setting.variable.to_owned(),
            Self::RustLog => RUST_LOG.to_owned(),
            Self::File { path, line } => format!("{path:?} line {line}"),
            Self::Dev => "--dev".to_owned(),
            Self::Default => "default".to_owned(),
        }
    }
}

/// A value as given, before it is understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) origin: Origin,
}

impl Given {
    fn new(text: &str, origin: Origin) -> Self {
        let text = text.to_owned();
        Self { text, origin }
    }
}

/// The winning value of each setting that has one.
pub(super) type GivenValues = BTreeMap<&'static str, Given>;

/// Reads the settings from the command line (program name first), the environment and the settings
/// file that one of them may name.
///
/// # Errors
/// A sentence that names the setting and what it accepts.
pub(crate) fn read(
    arguments: impl IntoIterator<Item = String>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Outcome, SettingsError> {
    let Line { wish, flags } = match command::parse(arguments)? {
        Parsed::Line(line) => line,
        Parsed::Answer(text) => return Ok(Outcome::Print(text)),
        Parsed::NewToken(whose) => return Ok(Outcome::NewToken(whose)),
    };
    // An empty variable counts as unset: compose files and manifests cannot leave one out.
    let environment = environment
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let mut layers = Layers {
        flags,
        environment,
        file: FileValues::new(),
        dev: false,
    };
    if let Some(config) = layers.winner(find(CONFIG))? {
        let named_by = config.origin.source(find(CONFIG));
        layers.file = file::read(Path::new(&config.text), &named_by)?;
    }
    layers.dev = layers
        .winner(find(DEV))?
        .is_some_and(|dev| dev.text == "true");

    let mut given = GivenValues::new();
    for setting in TABLE {
        if let Some(value) = layers.winner(setting)? {
            given.insert(setting.variable, value);
        }
    }
    let mut settings = Settings::resolve(&given)?;
    settings.unknown_variables = unknown_variables(&layers.environment);
    settings.logging.rust_log_fault = layers.rust_log_fault();
    Ok(match wish {
        Wish::Run => Outcome::Run(Box::new(settings)),
        Wish::Check => Outcome::Check(Box::new(settings)),
        Wish::Print => Outcome::Print(print::page(&given)),
    })
}

/// What every Rust program listens to.
const RUST_LOG: &str = "RUST_LOG";

/// All that was given, by layer.
struct Layers {
    flags: BTreeMap<&'static str, String>,
    environment: BTreeMap<String, String>,
    file: FileValues,
    /// The defaults of `--dev` are in force.
    dev: bool,
}

impl Layers {
    /// The value that counts, checked. What loses is not looked at, so that a flag can mend it.
    fn winner(&self, setting: &'static Setting) -> Result<Option<Given>, SettingsError> {
        let Some(given) = self.choose(setting) else {
            return Ok(None);
        };
        let given = given?;
        value::check(setting, &given)?;
        Ok(Some(given))
    }

    fn choose(&self, setting: &Setting) -> Option<Result<Given, SettingsError>> {
        let variable = setting.variable;
        if let Some(text) = self.flags.get(variable) {
            return Some(Ok(Given::new(text, Origin::Flag)));
        }
        if let Some(text) = self.environment.get(variable) {
            return Some(Ok(Given::new(text, Origin::Environment)));
        }
        if let Some(given) = self.file.get(variable) {
            return Some(given.clone());
        }
        // Below the file: it may be meant for every program on the machine, the file is for us. So
        // it may also say what only others understand, and that must not keep us from starting.
        let rust_log = self.environment.get(RUST_LOG);
        if let Some(text) = rust_log.filter(|text| variable == LOG && value::filter(text).is_ok()) {
            return Some(Ok(Given::new(text, Origin::RustLog)));
        }
        if let Some(text) = setting.dev.filter(|_| self.dev) {
            return Some(Ok(Given::new(text, Origin::Dev)));
        }
        let text = setting.default?;
        Some(Ok(Given::new(text, Origin::Default)))
    }

    /// What is wrong with RUST_LOG, where it would count.
    fn rust_log_fault(&self) -> Option<String> {
        let is_set = self.flags.contains_key(LOG)
            || self.environment.contains_key(LOG)
            || self.file.contains_key(LOG);
        let text = self.environment.get(RUST_LOG).filter(|_| !is_set)?;
        let fault = value::filter(text).err()?;
        Some(format!("{} {fault}", Origin::RustLog.describe(text)))
    }
}

/// `FELIX_*` variables nobody here reads, each with the nearest one that is read. They are worth a
/// warning and no more: Kubernetes sets `FELIX_BROKER_SERVICE_HOST` and the like for a service of
/// that name, and other programs of the project have variables of their own.
fn unknown_variables(environment: &BTreeMap<String, String>) -> Vec<(String, &'static str)> {
    let known = || TABLE.iter().map(|setting| setting.variable);
    environment
        .keys()
        .filter(|name| name.starts_with("FELIX_") && known().all(|known| known != *name))
        .map(|name| (name.clone(), nearest(name, known())))
        .collect()
}
