//! From text to a value, with the bounds named where it fails.

use super::SettingsError;
use super::source::{Given, GivenValues};
use super::table::{Kind, Setting, find};
use crate::cpus::CpuList;
use felix_core::catalog;
use felix_core::topology::Address;
use felix_net::tls::{TlsPolicy, TlsVersion};
use std::net::SocketAddr;
use tracing_subscriber::filter::{Directive, LevelFilter};

/// Refuses a value its setting does not accept.
pub(super) fn check(setting: &'static Setting, given: &Given) -> Result<(), SettingsError> {
    let text = given.text.as_str();
    let fault = match setting.kind {
        Kind::Switch => switch(text).err(),
        Kind::Number { min, max } => number(text, min, max, setting.unit).err(),
        Kind::Choice(words) => {
            (!words.contains(&text)).then(|| format!("is none of {}", words.join(", ")))
        }
        Kind::Listen => listen(text).err(),
        Kind::HostPort => host_port(text).err(),
        Kind::Cpus => CpuList::parse(text).err(),
        Kind::Name => name(text).err(),
        Kind::Tenant => catalog::name_fault(text).map(str::to_owned),
        Kind::Namespace => catalog::namespace_fault(text).map(str::to_owned),
        Kind::CipherSuites => cipher_suites(text).err(),
        Kind::Filter => filter(text).err(),
        Kind::Path => text.is_empty().then(|| "is empty".to_owned()),
    };
    match fault {
        None => Ok(()),
        Some(fault) => Err(refusal(setting, given, fault)),
    }
}

/// The refusal of a value, for faults that need more than the value to be seen.
pub(super) fn refusal(setting: &'static Setting, given: &Given, fault: String) -> SettingsError {
    SettingsError::Value {
        variable: setting.variable,
        given: given.origin.describe(&given.text),
        fault,
    }
}

fn switch(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| "is neither true nor false".to_owned())
}

fn number(text: &str, min: u64, max: u64, unit: &str) -> Result<u64, String> {
    let bounds = || {
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(" ({unit})")
        };
        format!("is not a whole number from {min} to {max}{unit}")
    };
    let value = text.parse().map_err(|_| bounds())?;
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(bounds())
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "is not ip:port, such as 127.0.0.1:9092 or [::1]:9092 (host names are not looked up)"
            .to_owned()
    })
}

fn host_port(text: &str) -> Result<Address, String> {
    let fault = || "is not host:port, such as broker-1.example.com:9092".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(fault)?,
        None if host.contains(':') => return Err(fault()),
        None => host,
    };
    let port: u16 = port.parse().map_err(|_| fault())?;
    let legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    if host.is_empty() || !host.bytes().all(legal) || port == 0 {
        return Err(fault());
    }
    Ok(Address {
        host: host.to_owned(),
        port,
    })
}

fn name(text: &str) -> Result<&str, String> {
    let fault = "is not a name of letters, digits, . _ and -";
    let legal = !text.is_empty() && catalog::is_legal(text);
    if legal {
        Ok(text)
    } else {
        Err(fault.to_owned())
    }
}

/// Suites of the least version that has any; whether they go with the version that is set is seen
/// once both are known.
fn cipher_suites(text: &str) -> Result<Vec<&str>, String> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    TlsPolicy::new(TlsVersion::V12, &names)?;
    Ok(names)
}

/// A filter without the spaces that people put behind commas, which would be taken for a part of
/// the module's name.
pub(super) fn filter(text: &str) -> Result<String, String> {
    let parts = text.split(',').map(str::trim);
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return Err("names no level".to_owned());
    }
    match parts.iter().find(|part| !directive(part)) {
        None => Ok(parts.join(",")),
        Some(part) => Err(format!(
            "has {part:?}, which is neither a level (off, error, warn, info, debug, trace) nor \
             module=level, such as felix_kafka=debug"
        )),
    }
}

/// Stricter than the library, for which a word that is no level is a module with everything on: a
/// misspelt level would silence the whole log.
fn directive(part: &str) -> bool {
    match part.rsplit_once('=') {
        Some((_, "")) => false,
        Some(_) => part.parse::<Directive>().is_ok(),
        None => part.parse::<LevelFilter>().is_ok(),
    }
}

/// The checked values, by kind. Each panics where the table has another kind under that name.
impl Checked<'_> {
    pub(super) fn switch(&self, variable: &str) -> bool {
        self.read(variable, switch).unwrap_or(false)
    }

    /// A number that has a default.
    pub(super) fn number(&self, variable: &str) -> u64 {
        self.optional_number(variable)
            .expect("the setting has a default")
    }

    pub(super) fn optional_number(&self, variable: &str) -> Option<u64> {
        let setting = find(variable);
        let Kind::Number { min, max } = setting.kind else {
            panic!("{variable} is no number")
        };
        self.read(variable, |text| number(text, min, max, setting.unit))
    }

    pub(super) fn listen(&self, variable: &str) -> Option<SocketAddr> {
        self.read(variable, listen)
    }

    pub(super) fn host_port(&self, variable: &str) -> Option<Address> {
        self.read(variable, host_port)
    }

    pub(super) fn cpus(&self, variable: &str) -> Option<CpuList> {
        self.read(variable, CpuList::parse)
    }

    pub(super) fn filter(&self, variable: &str) -> Option<String> {
        self.read(variable, filter)
    }

    pub(super) fn cipher_suites(&self, variable: &str) -> Option<Vec<&str>> {
        self.read(variable, cipher_suites)
    }

    pub(super) fn text(&self, variable: &str) -> Option<String> {
        self.read(variable, |text| Ok(text.to_owned()))
    }

    pub(super) fn given(&self, variable: &str) -> Option<&Given> {
        self.0.get(find(variable).variable)
    }

    fn read<'a, T>(
        &'a self,
        variable: &str,
        parse: impl FnOnce(&'a str) -> Result<T, String>,
    ) -> Option<T> {
        let given = self.given(variable)?;
        Some(parse(&given.text).expect("values are checked before they are read"))
    }
}

/// Values that [`check`] has accepted.
pub(super) struct Checked<'a>(pub(super) &'a GivenValues);

#[cfg(test)]
mod tests {
    use super::super::source::Origin;
    use super::*;

    fn fault(variable: &'static str, text: &str) -> String {
        let given = Given {
            text: text.to_owned(),
            origin: Origin::Flag,
        };
        check(find(variable), &given).unwrap_err().to_string()
    }

    #[test]
    fn a_number_out_of_bounds_is_refused_with_its_bounds_and_unit() {
        let sentence = fault("FELIX_DURABLE_FSYNC_INTERVAL_MS", "0");
        assert_eq!(
            sentence,
            "FELIX_DURABLE_FSYNC_INTERVAL_MS: the flag's value \"0\" is not a whole number from 1 \
             to 60000 (ms)"
        );
        assert!(fault("FELIX_BROKER_ID", "-1").contains("1 to 2147483647"));
        assert!(fault("FELIX_BROKER_ID", "1.5").contains("whole number"));
        assert!(fault("FELIX_DURABLE_SEGMENT_BYTES", "2147483648").contains("to 2147483647"));
    }

    #[test]
    fn words_addresses_and_names_are_refused_with_what_would_do() {
        assert!(fault("FELIX_LOG_FORMAT", "xml").contains("text, json"));
        assert!(fault("FELIX_KAFKA_LISTEN", "localhost:9092").contains("ip:port"));
        assert!(fault("FELIX_KAFKA_TLS", "yes").contains("neither true nor false"));
        assert!(fault("FELIX_RACK", "a b").contains("letters"));
        for address in ["host", "host:0", "host:x", ":1", "a:b:1", "[::1:1", "a b:1"] {
            assert!(fault("FELIX_KAFKA_ADVERTISE_ADDR", address).contains("host:port"));
        }
    }

    #[test]
    fn names_of_tenants_and_namespaces_keep_the_rules_of_the_catalog() {
        let tenant = "FELIX_KAFKA_ANONYMOUS_TENANT";
        let namespace = "FELIX_KAFKA_DEFAULT_NAMESPACE";
        let long = "x".repeat(250);
        for (text, rule) in [
            ("..", "is a reserved path"),
            (".", "is a reserved path"),
            ("", "is empty"),
            ("a b", "has a character outside A-Z a-z 0-9 . _ -"),
            (&*long, "is longer than 249 characters"),
        ] {
            for variable in [tenant, namespace] {
                let expected = format!("{variable}: the flag's value {text:?} {rule}");
                assert_eq!(fault(variable, text), expected);
            }
        }
        let sentence = fault(namespace, "a.b");
        assert!(sentence.contains("\"a.b\" has a dot"), "{sentence}");
        let text = "a.b".to_owned();
        let origin = Origin::Flag;
        check(find(tenant), &Given { text, origin }).unwrap();
    }

    #[test]
    fn a_log_filter_is_refused_with_the_directive_that_is_wrong() {
        for (text, bad) in [
            ("infoo", "infoo"),
            ("info,felix_kafka=debgu", "felix_kafka=debgu"),
            ("info,felix_kafka=,warn", "felix_kafka="),
            ("warn, felix_kafka", "felix_kafka"),
            ("info,a[b=debug", "a[b=debug"),
        ] {
            let sentence = fault("FELIX_LOG", text);
            assert!(sentence.contains(&format!("has {bad:?}")), "{sentence}");
        }
        assert!(fault("FELIX_LOG", " ,").contains("names no level"));
    }

    #[test]
    fn a_log_filter_takes_levels_by_module_and_spaces_behind_commas() {
        let read = filter("warn, felix_kafka=debug,felix_shard::log=TRACE,").unwrap();
        assert_eq!(read, "warn,felix_kafka=debug,felix_shard::log=TRACE");
        assert!(tracing_subscriber::EnvFilter::try_new(read).is_ok());
        assert!(filter("off").is_ok());
    }

    #[test]
    fn an_address_in_brackets_loses_them() {
        let address = host_port("[::1]:9092").unwrap();
        assert_eq!(
            address,
            Address {
                host: "::1".into(),
                port: 9092
            }
        );
    }
}
