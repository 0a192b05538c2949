//! How brokers are reached securely, and what of it is shown.

use crate::client::{Credential, Identity, Security, TlsConfig, Trust};
use crate::problem::Problem;
use clap::{Arg, ArgAction, ArgMatches};
use std::fs;
use std::path::{Path, PathBuf};

/// The arguments for it.
pub(super) fn arguments() -> Vec<Arg> {
    let path = clap::value_parser!(PathBuf);
    let file = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name("FILE").help(help);
        arg.value_parser(path.clone())
    };
    vec![
        Arg::new("users")
            .long("users")
            .value_name("FILE")
            .value_parser(path.clone())
            .help(
                "Users and passwords (SASL/PLAIN), one USER:PASSWORD a line; several take turns, \
                   connection by connection",
            ),
        Arg::new("tls")
            .long("tls")
            .action(ArgAction::SetTrue)
            .help("Encrypts"),
        file(
            "tls-ca",
            "Whose signature under the broker's certificate counts (PEM); default: whom this machine trusts",
        ),
        Arg::new("tls-insecure")
            .long("tls-insecure")
            .action(ArgAction::SetTrue)
            .help("Believes any certificate, so that whoever sits in between can read along"),
        file("tls-cert", "A certificate of our own (PEM), with --tls-key"),
        file("tls-key", "Its key (PEM)"),
    ]
}

/// Whether an argument's value is nobody's business.
pub(super) fn is_secret(name: &str) -> bool {
    ["users", "tls-key", "tls-cert", "tls-ca", "html", "hlog"].contains(&name)
}

/// The command without the places of files.
pub(super) fn without_secrets(words: Vec<String>) -> Vec<String> {
    let mut shown = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let name = word.strip_prefix("--").unwrap_or_default();
        match name.split_once('=') {
            Some((name, _)) if is_secret(name) => shown.push(format!("--{name}=FILE")),
            None if is_secret(name) => {
                shown.extend([word, "FILE".to_owned()]);
                words.next();
            }
            _ => shown.push(word),
        }
    }
    shown
}

/// One for each user; without users, one.
pub(super) fn securities(matches: &ArgMatches) -> Result<Vec<Security>, Problem> {
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let identity = match (path("tls-cert"), path("tls-key")) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        _ => return Err(Problem::new("--tls-cert and --tls-key belong together")),
    };
    let trust = match (path("tls-ca"), matches.get_flag("tls-insecure")) {
        (Some(_), true) => {
            return Err(Problem::new(
                "--tls-ca and --tls-insecure exclude each other",
            ));
        }
        (Some(file), false) => Trust::File(file),
        (None, true) => Trust::Anybody,
        (None, false) => Trust::System,
    };
    let is_asked = matches.get_flag("tls") || trust != Trust::System || identity.is_some();
    let tls = match is_asked {
        true => Some(TlsConfig::new(&trust, identity.as_ref())?),
        false => None,
    };
    let users = match path("users") {
        Some(file) => users(&file)?.into_iter().map(Some).collect(),
        None => vec![None],
    };
    Ok(users
        .into_iter()
        .map(|sasl| Security {
            tls: tls.clone(),
            sasl,
        })
        .collect())
}

fn users(file: &Path) -> Result<Vec<Credential>, Problem> {
    let shown = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| Problem::new(format!("{shown} cannot be read: {error}")))?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let users = lines.map(|(number, line)| match line.split_once(':') {
        Some((user, password)) if !user.is_empty() => Ok(Credential {
            user: user.to_owned(),
            password: password.to_owned(),
        }),
        // The line is not shown: it may be a password.
        _ => Err(Problem::new(format!(
            "{shown}, line {}: write USER:PASSWORD",
            number + 1
        ))),
    });
    let users: Vec<_> = users.collect::<Result<_, _>>()?;
    match users.is_empty() {
        true => Err(Problem::new(format!("{shown} names no user"))),
        false => Ok(users),
    }
}
