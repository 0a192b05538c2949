//! What a setting is.

use felix_net::tls::TlsPolicy;

/// What values a setting takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number within bounds, both included.
    Number {
        /// Least.
        min: u64,
        /// Greatest.
        max: u64,
    },
    /// One of some words.
    Choice(&'static [&'static str]),
    /// An address to listen on: `ip:port`.
    Listen,
    /// An address clients are told: `host:port`.
    HostPort,
    /// Processors by the kernel's numbers: `0,2-3`.
    Cpus,
    /// A name of letters, digits, `.`, `_` and `-`.
    Name,
    /// A name that a tenant may have in the catalog.
    Tenant,
    /// A name that a namespace may have in the catalog.
    Namespace,
    /// A file or directory.
    Path,
    /// Names of cipher suites, separated by commas.
    CipherSuites,
    /// Levels of the log, by module: `info,felix_kafka=debug`.
    Filter,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// The environment variable, `FELIX_` first. The flag is made from it.
    pub(crate) variable: &'static str,
    /// What it is for: one sentence.
    pub(crate) sentence: &'static str,
    /// The default, as one would write it; `None`: unset.
    pub(crate) default: Option<&'static str>,
    /// What being unset means; empty where there is a default.
    pub(crate) unset: &'static str,
    /// The default under `--dev`, where it differs.
    pub(crate) dev: Option<&'static str>,
    /// What a number counts; empty for what is no number.
    pub(crate) unit: &'static str,
    /// What values it takes.
    pub(crate) kind: Kind,
}

impl Setting {
    /// The flag without its dashes: `FELIX_KAFKA_LISTEN` is `kafka-listen`.
    #[must_use]
    pub(crate) fn flag(&self) -> String {
        self.variable
            .strip_prefix("FELIX_")
            .expect("every variable begins with FELIX_")
            .to_ascii_lowercase()
            .replace('_', "-")
    }

    /// The key in the settings file: `FELIX_KAFKA_LISTEN` is `kafka_listen`.
    #[must_use]
    pub(crate) fn key(&self) -> String {
        self.flag().replace('-', "_")
    }

    /// What values it takes, for people.
    #[must_use]
    pub(crate) fn accepts(&self) -> String {
        let unit = if self.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", self.unit)
        };
        match self.kind {
            Kind::Switch => "true or false".into(),
            Kind::Number { min, max } => format!("{min} to {max}{unit}"),
            Kind::Choice(words) => words.join(", "),
            Kind::Listen => "ip:port".into(),
            Kind::HostPort => "host:port".into(),
            Kind::Cpus => "a list such as 0,2-3".into(),
            Kind::Name | Kind::Tenant => "letters, digits, . _ -".into(),
            Kind::Namespace => "letters, digits, _ -".into(),
            Kind::Path => "a path".into(),
            Kind::CipherSuites => {
                TlsPolicy::suite_names().collect::<Vec<_>>().join(", ") + "; separated by commas"
            }
            Kind::Filter => "level, module=level, separated by commas".into(),
        }
    }

    /// The default, for people.
    #[must_use]
    pub(crate) fn default_text(&self) -> String {
        match self.default {
            Some(value) => value.to_owned(),
            None => format!("unset: {}", self.unset),
        }
    }
}

pub(super) const fn setting(variable: &'static str, kind: Kind, sentence: &'static str) -> Setting {
    Setting {
        variable,
        sentence,
        default: None,
        unset: "",
        dev: None,
        unit: "",
        kind,
    }
}

impl Setting {
    pub(super) const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub(super) const fn unset(mut self, meaning: &'static str) -> Self {
        self.unset = meaning;
        self
    }

    pub(super) const fn dev(mut self, default: &'static str) -> Self {
        self.dev = Some(default);
        self
    }

    pub(super) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }
}

pub(super) const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}
