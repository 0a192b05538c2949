//! The layers together: flags, environment, settings file, `--dev`, defaults.

use super::source::{Given, Origin};
use super::table::TABLE;
use super::{Outcome, Settings, SettingsError, read, value};
use std::fs;
use std::path::PathBuf;
use tempfile::{TempDir, tempdir};

/// What an operator gives, layer by layer.
struct Operator {
    flags: Vec<String>,
    variables: Vec<(String, String)>,
    /// Keeps the settings file.
    temp: TempDir,
    lines: String,
}

impl Operator {
    fn new() -> Self {
        Self {
            flags: vec!["felix-broker".into()],
            variables: Vec::new(),
            temp: tempdir().unwrap(),
            lines: String::new(),
        }
    }

    fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).into()));
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn line(mut self, line: &str) -> Self {
        self.lines += line;
        self.lines += "\n";
        self
    }

    fn file(&self) -> PathBuf {
        self.temp.path().join("felix.toml")
    }

    fn read(self) -> Result<Outcome, SettingsError> {
        let file = self.file();
        let mut flags = self.flags;
        if !self.lines.is_empty() {
            fs::write(&file, &self.lines).unwrap();
            flags.push(format!("--config={}", file.display()));
        }
        read(flags, self.variables)
    }

    fn run(self) -> Settings {
        match self.read().unwrap() {
            Outcome::Run(settings) => *settings,
            other => panic!("{other:?}"),
        }
    }

    fn printed(self) -> String {
        match self.flags(&["--print-config"]).read().unwrap() {
            Outcome::Print(text) => text,
            other => panic!("{other:?}"),
        }
    }

    fn refused(self) -> String {
        self.read().unwrap_err().to_string()
    }
}

/// The layers that can give a value, the strongest first.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Layer {
    Flag,
    Environment,
    File,
    Dev,
}

const LAYERS: [Layer; 4] = [Layer::Flag, Layer::Environment, Layer::File, Layer::Dev];

impl Layer {
    fn port(self) -> u16 {
        match self {
            Self::Flag => 1001,
            Self::Environment => 1002,
            Self::File => 1003,
            Self::Dev => 9092,
        }
    }

    fn give(self, operator: Operator) -> Operator {
        let address = format!("127.0.0.1:{}", self.port());
        match self {
            Self::Flag => operator.flags(&["--kafka-listen", &address]),
            Self::Environment => operator.variable("FELIX_KAFKA_LISTEN", &address),
            Self::File => operator.line(&format!("kafka_listen = \"{address}\"")),
            Self::Dev => operator.flags(&["--dev"]),
        }
    }
}

#[test]
fn of_any_two_layers_the_stronger_one_wins() {
    for (strong, winner) in LAYERS.into_iter().enumerate() {
        for loser in LAYERS.into_iter().skip(strong) {
            let mut operator = Operator::new();
            operator = operator.flags(&["--kafka-tls=false", "--kafka-anonymous-tenant=t1"]);
            operator = winner.give(operator);
            if loser != winner {
                operator = loser.give(operator);
            }
            let port = operator.run().kafka.unwrap().listen.port();
            assert_eq!(port, winner.port(), "{winner:?} over {loser:?}");
        }
    }
}

#[test]
fn every_layer_wins_over_the_default() {
    let number = |operator: Operator| operator.run().broker.0;
    assert_eq!(number(Operator::new()), 1);
    assert_eq!(number(Operator::new().flags(&["--broker-id", "2"])), 2);
    assert_eq!(number(Operator::new().flags(&["--broker-id=3"])), 3);
    assert_eq!(number(Operator::new().variable("FELIX_BROKER_ID", "4")), 4);
    assert_eq!(number(Operator::new().line("broker_id = 5")), 5);
    // The default of --dev over the default without.
    let plain = [
        "--kafka-listen=127.0.0.1:9",
        "--kafka-tls=false",
        "--kafka-anonymous-tenant=t1",
    ];
    let core_ports = |operator: Operator| operator.run().kafka.unwrap().core_port_base;
    assert_eq!(core_ports(Operator::new().flags(&plain)), None);
    assert_eq!(core_ports(Operator::new().flags(&["--dev"])), Some(9093));
}

#[test]
fn rust_log_is_heard_where_the_own_setting_is_silent_in_every_layer() {
    let rust_log = || Operator::new().variable("RUST_LOG", "debug");
    let filter = |operator: Operator| operator.run().logging.filter;
    assert_eq!(filter(Operator::new()), "info");
    assert_eq!(filter(rust_log()), "debug");
    assert_eq!(filter(rust_log().line("log = \"warn\"")), "warn");
    assert_eq!(filter(rust_log().variable("FELIX_LOG", "warn")), "warn");
    assert_eq!(filter(rust_log().flags(&["--log=warn"])), "warn");
}

#[test]
fn a_rust_log_that_is_meant_for_others_is_passed_over_and_noted_where_it_would_count() {
    let rust_log = || Operator::new().variable("RUST_LOG", "hyper");
    let logging = rust_log().run().logging;
    assert_eq!(logging.filter, "info");
    let fault = logging.rust_log_fault.unwrap();
    assert!(fault.contains("of RUST_LOG has \"hyper\""), "{fault}");
    for operator in [
        rust_log().line("log = \"warn\""),
        rust_log().variable("FELIX_LOG", "warn"),
        rust_log().flags(&["--log=warn"]),
        Operator::new().variable("RUST_LOG", "warn"),
    ] {
        let logging = operator.run().logging;
        assert_eq!(logging.filter, "warn");
        assert_eq!(logging.rust_log_fault, None);
    }
    let refused = rust_log().variable("FELIX_LOG", "hyper").refused();
    assert!(refused.starts_with("FELIX_LOG: "), "{refused}");
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let operator = Operator::new().variable("FELIX_BROKER_ID", "");
    assert_eq!(operator.line("broker_id = 7").run().broker.0, 7);
    let operator = Operator::new().variable("FELIX_CONFIG", "");
    assert_eq!(operator.run().broker.0, 1);
}

#[test]
fn the_settings_file_is_named_by_flag_or_variable() {
    let operator = Operator::new();
    fs::write(operator.file(), "broker_id = 7\n").unwrap();
    let file = operator.file().display().to_string();
    let missing = format!("{file}.none");
    let operator = operator.variable("FELIX_CONFIG", &file);
    assert_eq!(operator.run().broker.0, 7);

    let refused = Operator::new().variable("FELIX_CONFIG", &missing).refused();
    assert!(refused.contains(&missing) && refused.ends_with("FELIX_CONFIG names it"));
    let refused = Operator::new().flags(&["--config", &missing]).refused();
    assert!(refused.ends_with("--config names it"), "{refused}");
}

#[test]
fn a_number_out_of_bounds_is_refused_in_every_layer_with_its_source() {
    let bounds = "is not a whole number from 1 to 2147483647";
    let flag = Operator::new().flags(&["--broker-id=0"]).refused();
    assert_eq!(
        flag,
        format!("FELIX_BROKER_ID: the flag's value \"0\" {bounds}")
    );
    let variable = Operator::new().variable("FELIX_BROKER_ID", "2147483648");
    let variable = variable.refused();
    let expected = "FELIX_BROKER_ID: the environment's value \"2147483648\"";
    assert_eq!(variable, format!("{expected} {bounds}"));
    let operator = Operator::new().line("rack = \"r\"").line("broker_id = -1");
    let expected = format!(
        "the value \"-1\" in line 2 of {}",
        operator.file().display()
    );
    let line = operator.refused();
    assert_eq!(line, format!("FELIX_BROKER_ID: {expected} {bounds}"));
}

#[test]
fn a_stronger_layer_mends_what_a_weaker_one_has_wrong() {
    let operator = Operator::new().line("broker_id = 0");
    let operator = operator.variable("FELIX_BROKER_ID", "none");
    assert_eq!(operator.flags(&["--broker-id=7"]).run().broker.0, 7);
    // A value of the wrong type is a wrong value like others.
    let operator = || Operator::new().line("broker_id = \"5\"");
    assert_eq!(operator().flags(&["--broker-id=3"]).run().broker.0, 3);
    let mended = operator().variable("FELIX_BROKER_ID", "4");
    assert_eq!(mended.run().broker.0, 4);
    assert!(operator().refused().contains("whole number, without"));
}

#[test]
fn development_can_be_switched_on_in_every_layer_and_off_by_a_flag() {
    assert!(Operator::new().variable("FELIX_DEV", "true").run().dev);
    let settings = Operator::new().line("dev = true").run();
    assert!(settings.dev && settings.kafka.is_some());
    let settings = Operator::new().line("dev = true").flags(&["--dev=false"]);
    let settings = settings.run();
    assert!(!settings.dev && settings.kafka.is_none());
}

#[test]
fn core_ports_of_a_development_broker_follow_an_explicit_port() {
    let operator = Operator::new().flags(&["--dev"]);
    let operator = operator.variable("FELIX_KAFKA_LISTEN", "127.0.0.1:19092");
    let kafka = operator.run().kafka.unwrap();
    assert_eq!(kafka.core_port_base, Some(19093));
    assert_eq!(kafka.anonymous_tenant.as_deref(), Some("dev"));
}

#[test]
fn an_unknown_variable_is_noted_with_the_nearest_one_that_exists() {
    let operator = Operator::new().variable("FELIX_KAFKA_LISTN", "x");
    let settings = operator.variable("OTHER", "y").run();
    let expected = vec![("FELIX_KAFKA_LISTN".to_owned(), "FELIX_KAFKA_LISTEN")];
    assert_eq!(settings.unknown_variables, expected);
}

#[test]
fn printed_settings_are_a_file_with_the_same_effect() {
    let given = || {
        Operator::new()
            .flags(&[
                "--dev",
                "--broker-id=007",
                "--catalog-file=a \"b\"\n\\c#.toml",
            ])
            .variable("FELIX_LOG", "warn, felix_kafka=debug")
            .variable("RUST_LOG", "trace")
            .line("rack = 'r1'")
            .line("durable_segment_bytes = 16_777_216")
    };
    let printed = given().printed();
    let mut again = Operator::new();
    again.lines = printed.clone();
    assert_eq!(again.run(), given().run(), "{printed}");

    let mut again = Operator::new();
    again.lines = printed.clone();
    let values = |page: &str| {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let values = lines.map(|line| line.rsplit_once("  # ").map_or(line, |parts| parts.0));
        values.map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(values(&again.printed()), values(&printed));
}

#[test]
fn printed_settings_name_the_source_of_each() {
    let printed = Operator::new()
        .flags(&["--dev", "--broker-id=7"])
        .variable("FELIX_RACK", "r1")
        .variable("RUST_LOG", "warn")
        .line("# spins")
        .line("spin_us = 20")
        .printed();
    for line in [
        "broker_id = 7  # --broker-id",
        "rack = \"r1\"  # FELIX_RACK",
        "log = \"warn\"  # RUST_LOG",
        "kafka_listen = \"127.0.0.1:9092\"  # --dev",
        "log_format = \"text\"  # default",
        "# cores is unset: from four",
        "dev = true  # --dev",
    ] {
        assert!(printed.contains(line), "no {line:?} in\n{printed}");
    }
    let spin = printed
        .lines()
        .find(|line| line.starts_with("spin_us = 20"));
    let spin = spin.unwrap();
    assert!(spin.ends_with("felix.toml\" line 2"), "{spin}");
    // Every setting is shown, whether it has a value or not, but the name of the file itself.
    for setting in TABLE
        .iter()
        .filter(|setting| setting.variable != "FELIX_CONFIG")
    {
        let (value, unset) = (
            format!("{} = ", setting.key()),
            format!("# {} is", setting.key()),
        );
        let is_shown = |line: &str| line.starts_with(&value) || line.starts_with(&unset);
        assert!(printed.lines().any(is_shown), "{}", setting.key());
    }
}

#[test]
fn settings_that_do_not_go_together_are_not_printed() {
    let operator = Operator::new().line("kafka_listen = \"192.0.2.1:9092\"");
    let flags = ["--kafka-tls=false", "--print-config"];
    let refused = operator.flags(&flags).refused();
    assert!(refused.contains("FELIX_KAFKA_TOKEN_FILE"), "{refused}");
}

#[test]
fn appends_do_not_wait_for_flushes_that_nothing_begins() {
    let operator = Operator::new().variable("FELIX_DIRTY_BYTES_SOFT", "2000000");
    let refused = operator.flags(&["--dirty-bytes-hard", "1999999"]).refused();
    assert!(
        refused.contains("FELIX_DIRTY_BYTES_HARD=1999999"),
        "{refused}"
    );
}

#[test]
fn every_default_is_a_value_its_setting_accepts() {
    for setting in TABLE {
        for text in [setting.default, setting.dev].into_iter().flatten() {
            let text = text.to_owned();
            let origin = Origin::Default;
            value::check(setting, &Given { text, origin }).unwrap();
        }
    }
}
