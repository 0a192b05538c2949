//! The tokens an operator lists in a TOML file: whose each is, and what it may be used for.

use crate::given_file::{GivenFault, Wanted};
use crate::tokens::{Digest, Issued, Tokens, token};
use crate::{identity, rfc3339};
use felix_core::Timestamp;
use felix_core::auth::{Action, Grant, GrantScope};
use felix_core::catalog::{name_fault, namespace_fault};
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use toml::value::Datetime;

/// Bytes of a token file at most: some fifty thousand tokens.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Hexadecimal digits in a row that a sentence may show of the file: fewer than a guess needs.
const DIGITS_SHOWN_MAX: usize = 12;

/// Permissions of a token. Each is looked at for every stream of every request.
const PERMISSIONS_MAX: usize = 1000;

/// Characters of a subject.
const SUBJECT_CHARS_MAX: usize = 249;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    token: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    tenant: Spanned<String>,
    subject: Spanned<String>,
    sha256: Spanned<String>,
    permissions: Vec<Spanned<String>>,
    expires: Option<Spanned<Moment>>,
}

/// RFC 3339, in quotes or without.
#[derive(Deserialize)]
#[serde(untagged)]
enum Moment {
    Date(Datetime),
    Text(String),
}

/// Reads a token file.
///
/// # Errors
/// A sentence with the file, the line and what to do.
pub(crate) fn read(path: &Path) -> Result<Tokens, GivenFault> {
    let wanted = Wanted {
        variable: "FELIX_KAFKA_TOKEN_FILE",
        what: "a token file",
        bytes_max: FILE_BYTES_MAX,
    };
    let bytes = wanted.read(path)?;
    let text = String::from_utf8(bytes);
    let tokens = text.map_err(|error| {
        let before = error
            .as_bytes()
            .iter()
            .take(error.utf8_error().valid_up_to());
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        format!("line {line}: this is no UTF-8")
    });
    let tokens = tokens.and_then(|text| parse(&text));
    tokens
        .map_err(|fault| GivenFault::Refused(format!("the token file {}: {fault}", path.display())))
}

fn parse(text: &str) -> Result<Tokens, String> {
    understand(text).map_err(|fault| without_secrets(&fault))
}

fn understand(text: &str) -> Result<Tokens, String> {
    let page: Page = toml::from_str(text).map_err(|error| {
        // Shown whole it has the line of the file in it, and with it whatever stands there.
        let at = error.span().unwrap_or_default().start;
        format!("line {}: {}", line_of(text, at), error.message())
    })?;
    let mut tokens = Tokens::default();
    for entry in page.token {
        let line = line_of(text, entry.span().start);
        let (digest, issued) = issue(text, entry.into_inner())?;
        if !tokens.add(digest, issued) {
            return Err(format!(
                "line {line}: this token (by its sha256) is listed before; a token is one \
                 subject's, so make another one with felix-broker --new-token"
            ));
        }
    }
    Ok(tokens)
}

/// A sentence without what may be a token: somebody who writes one where its hash belongs, or under
/// a name of his own, is not to find it in the log.
fn without_secrets(sentence: &str) -> String {
    let mut shown = String::new();
    let mut digits = String::new();
    for character in sentence.chars().chain(['\0']) {
        if character.is_ascii_hexdigit() {
            digits.push(character);
            continue;
        }
        if digits.len() > DIGITS_SHOWN_MAX {
            shown.push_str("...");
        } else {
            shown.push_str(&digits);
        }
        digits.clear();
        shown.push(character);
    }
    shown.pop();
    shown
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    1 + before.matches('\n').count()
}

fn issue(text: &str, entry: Entry) -> Result<(Digest, Issued), String> {
    let at = |line_at: usize, fault: &str| format!("line {}: {fault}", line_of(text, line_at));
    let tenant = entry.tenant.get_ref();
    if let Some(fault) = name_fault(tenant) {
        return Err(at(
            entry.tenant.span().start,
            &format!("the tenant {tenant:?} {fault}"),
        ));
    }
    let subject = entry.subject.get_ref();
    if !is_subject(subject) {
        let fault = format!(
            "the subject {subject:?} is to be 1 to {SUBJECT_CHARS_MAX} printable characters \
             without spaces, such as the name of the program that uses the token"
        );
        return Err(at(entry.subject.span().start, &fault));
    }
    let Some(digest) = Digest::parse(entry.sha256.get_ref()) else {
        let fault = "sha256 is to be 64 hexadecimal digits: the SHA-256 of a token, as \
                     felix-broker --new-token prints it";
        return Err(at(entry.sha256.span().start, fault));
    };
    if let Some(permission) = entry.permissions.get(PERMISSIONS_MAX) {
        let fault = format!(
            "the token has {} permissions, and may have {PERMISSIONS_MAX}; give it whole \
             namespaces, or split it",
            entry.permissions.len()
        );
        return Err(at(permission.span().start, &fault));
    }
    let mut grants = Vec::new();
    for permission in &entry.permissions {
        let grant = grant(permission.get_ref());
        grants.push(grant.map_err(|fault| at(permission.span().start, &fault))?);
    }
    let expires = match &entry.expires {
        None => None,
        Some(moment) => {
            let written = match moment.get_ref() {
                Moment::Date(date) => date.to_string(),
                Moment::Text(text) => text.clone(),
            };
            let Some(milliseconds) = rfc3339::milliseconds(&written) else {
                let fault = format!(
                    "expires = {written} is no moment of RFC 3339 with its distance from UTC, \
                     such as 2030-01-31T00:00:00Z"
                );
                return Err(at(moment.span().start, &fault));
            };
            Some(Timestamp(milliseconds))
        }
    };
    let issued = Issued {
        tenant: tenant.clone(),
        subject: subject.clone(),
        expires,
        grants: Arc::from(grants),
    };
    Ok((digest, issued))
}

fn is_subject(subject: &str) -> bool {
    let legal = |character: char| !character.is_whitespace() && !character.is_control();
    (1..=SUBJECT_CHARS_MAX).contains(&subject.chars().count()) && subject.chars().all(legal)
}

/// `stream.publish`, `stream.publish:orders` for a namespace, `stream.publish:orders.created` for a
/// stream, which is told apart by its dot as a topic name is.
fn grant(permission: &str) -> Result<Grant, String> {
    let (action, scope) = match permission.split_once(':') {
        Some((action, scope)) => (action, Some(scope)),
        None => (permission, None),
    };
    let actions = [Action::Publish, Action::Subscribe];
    let Some(action) = actions.into_iter().find(|known| known.name() == action) else {
        return Err(format!(
            "the permission {permission:?} is none; there are stream.publish and \
             stream.subscribe, each alone, or with :namespace or :namespace.stream behind it"
        ));
    };
    let named = |part: &str, name: &str, fault: Option<&str>| match fault {
        None => Ok(name.to_owned()),
        Some(fault) => Err(format!("the {part} {name:?} of {permission:?} {fault}")),
    };
    let scope = match scope.map(|scope| scope.split_once('.').ok_or(scope)) {
        None => GrantScope::Tenant,
        Some(Err(namespace)) => {
            GrantScope::Namespace(named("namespace", namespace, namespace_fault(namespace))?)
        }
        Some(Ok((namespace, name))) => GrantScope::Stream {
            namespace: named("namespace", namespace, namespace_fault(namespace))?,
            name: named("stream", name, name_fault(name))?,
        },
    };
    Ok(Grant { action, scope })
}

/// A token that was just made.
#[derive(Debug)]
pub(crate) struct NewToken {
    /// Whom it speaks for: the SASL username.
    pub(crate) tenant: String,
    /// Whose it is.
    pub(crate) subject: String,
    /// For its user, and for nobody else.
    pub(crate) token: String,
    /// For the token file.
    pub(crate) entry: String,
}

/// Makes a token for `<tenant>/<subject>`.
///
/// # Errors
/// A sentence: that is no tenant and subject, or there is no randomness.
pub(crate) fn new_token(whose: &str) -> Result<NewToken, String> {
    let wanted = "--new-token takes <tenant>/<subject>, such as t1/checkout";
    let (tenant, subject) = whose
        .split_once('/')
        .ok_or_else(|| format!("{wanted}; {whose:?} has no slash"))?;
    if let Some(fault) = name_fault(tenant) {
        return Err(format!("{wanted}; the tenant {tenant:?} {fault}"));
    }
    if !is_subject(subject) {
        return Err(format!(
            "{wanted}; the subject {subject:?} is not 1 to {SUBJECT_CHARS_MAX} printable \
             characters without spaces"
        ));
    }
    let mut random = [0; 32];
    let drawn = File::open(identity::RANDOM).and_then(|mut source| source.read_exact(&mut random));
    drawn.map_err(|error| format!("{} cannot be read: {error}", identity::RANDOM))?;
    let token = token(random);
    let quoted = toml::Value::String(subject.to_owned());
    let entry = format!(
        "[[token]]\ntenant = \"{tenant}\"\nsubject = {quoted}\nsha256 = \"{}\"\n\
         permissions = [\"stream.publish\", \"stream.subscribe\"]\n",
        Digest::of(&token)
    );
    Ok(NewToken {
        tenant: tenant.to_owned(),
        subject: subject.to_owned(),
        token,
        entry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use felix_core::Rejection;

    fn page(hash: &str, more: &str) -> String {
        format!(
            "# Tokens.\n[[token]]\ntenant = \"t1\"\nsubject = \"checkout\"\nsha256 = \"{hash}\"\n\
             {more}\n"
        )
    }

    fn hash() -> String {
        Digest::of(&token([1; 32])).to_string()
    }

    const ALL: &str = "permissions = [\"stream.publish\", \"stream.subscribe\"]";

    fn fault(text: &str) -> String {
        parse(text).map(|_| ()).unwrap_err()
    }

    #[test]
    fn a_new_token_is_found_by_the_entry_that_came_with_it() {
        let NewToken { token, entry, .. } = new_token("t1/spiffe://a\"b").unwrap();
        let tokens = parse(&entry).unwrap();
        let issued = tokens.find("t1", &token, Timestamp(0)).unwrap();
        assert_eq!(issued.subject, "spiffe://a\"b");
        assert_eq!(issued.grants.len(), 2);
        let other = new_token("t1/x").unwrap();
        assert_ne!(other.token, token);
        assert!(
            !entry.contains(&token),
            "the token itself is not for the file"
        );
        for wrong in ["t1", "/x", "t1/", "t 1/x", "t1/a b"] {
            assert!(new_token(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_has_a_thousand_permissions_at_most() {
        let text = |count: usize| {
            let permissions = "\"stream.publish:orders\",\n".repeat(count);
            page(&hash(), &format!("permissions = [\n{permissions}]"))
        };
        let tokens = parse(&text(1000)).unwrap();
        let issued = tokens.find("t1", &token([1; 32]), Timestamp(0)).unwrap();
        assert_eq!(issued.grants.len(), 1000);
        // The list begins in line 7.
        let fault = fault(&text(1001));
        assert!(
            fault.starts_with("line 1007: the token has 1001 permissions, and may have 1000;"),
            "{fault}"
        );
    }

    #[test]
    fn permissions_are_for_all_streams_a_namespace_or_one() {
        let text = page(
            &hash(),
            "permissions = [\"stream.publish\", \"stream.subscribe:orders\", \
             \"stream.publish:orders.created.eu\"]",
        );
        let tokens = parse(&text).unwrap();
        let issued = tokens.find("t1", &token([1; 32]), Timestamp(0)).unwrap();
        let scopes: Vec<_> = issued.grants.iter().map(|grant| &grant.scope).collect();
        let orders = "orders".to_owned();
        assert_eq!(
            scopes,
            [
                &GrantScope::Tenant,
                &GrantScope::Namespace(orders.clone()),
                &GrantScope::Stream {
                    namespace: orders,
                    name: "created.eu".into()
                },
            ]
        );
    }

    #[test]
    fn an_expiry_is_a_moment_in_quotes_or_without() {
        for expires in ["2030-01-31T00:00:00Z", "\"2030-01-31T01:00:00+01:00\""] {
            let text = page(&hash(), &format!("{ALL}\nexpires = {expires}"));
            let tokens = parse(&text).unwrap();
            let find = |now| {
                tokens
                    .find("t1", &token([1; 32]), Timestamp(now))
                    .map(|_| ())
            };
            let end = 1_896_048_000_000;
            assert_eq!(find(end - 1), Ok(()), "{expires}");
            assert_eq!(find(end), Err(Rejection::Expired), "{expires}");
        }
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line_and_what_to_do() {
        let twice = format!("{}{}", page(&hash(), ALL), page(&hash(), ALL));
        for (text, line, words) in [
            (page("abc", ALL), 5, "64 hexadecimal digits"),
            (
                page(&hash(), "permissions = [\"stream.write\"]"),
                6,
                "stream.publish and",
            ),
            (
                page(&hash(), "permissions = [\"stream.publish:\"]"),
                6,
                "is empty",
            ),
            (
                page(&hash(), "permissions = [\"stream.publish:a.\"]"),
                6,
                "is empty",
            ),
            (page(&hash(), ""), 2, "missing field `permissions`"),
            (
                page(&hash(), &format!("{ALL}\nexpires = 2030-01-31")),
                7,
                "RFC 3339",
            ),
            (
                page(&hash(), &format!("{ALL}\nexpires = \"soon\"")),
                7,
                "RFC 3339",
            ),
            (
                page(&hash(), &format!("{ALL}\nsecret = 1")),
                7,
                "unknown field `secret`",
            ),
            (
                page(&hash(), ALL).replace("t1", "t 1"),
                3,
                "has a character outside",
            ),
            (page(&hash(), ALL).replace("checkout", ""), 4, "the subject"),
            (twice, 8, "is listed before"),
        ] {
            let sentence = fault(&text);
            assert!(sentence.contains(words), "{sentence}");
            assert!(sentence.contains(&format!("line {line}")), "{sentence}");
        }
    }

    #[test]
    fn no_sentence_has_a_token_in_it_wherever_it_stands() {
        let secret = token([0xab; 32]);
        let digits = secret.trim_start_matches("felix_");
        for text in [
            format!("token = \"{secret}\"\n"),
            format!("{secret} = 1\n"),
            format!("[[token]]\ntenant = \"t1\" {secret}\n"),
            format!("[[token]]\n{secret}\n"),
            format!("[[token]]\ntoken = \"{secret}\"\n"),
            page(&secret, ALL),
            page(&hash(), &format!("{ALL}\npassword = \"{digits}\"")),
            page(&hash(), &format!("permissions = \"{secret}\"")),
            page(&hash(), &format!("permissions = [\"{digits}\"]")),
            page(&hash(), &format!("{ALL}\nexpires = \"{secret}\"")),
            page(&hash(), ALL).replace("t1", &format!("{secret} ")),
            page(&hash(), ALL).replace("checkout", &format!("{secret} ")),
        ] {
            let sentence = fault(&text);
            assert!(sentence.starts_with("line "), "{sentence}");
            assert!(!sentence.contains(&digits[..16]), "{sentence}");
            assert!(!sentence.contains('\n'), "{sentence}");
        }
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("tokens.toml");
        std::fs::write(&path, b"# one\n# \xff\n").unwrap();
        let fault = String::from(read(&path).map(|_| ()).unwrap_err());
        assert!(fault.contains("line 2: this is no UTF-8"), "{fault}");
    }

    #[test]
    fn a_file_without_tokens_lets_nobody_in_and_is_no_fault() {
        assert_eq!(parse("").unwrap().count(), 0);
    }
}
