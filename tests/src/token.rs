//! Tokens, as the broker's own program makes them.

use crate::binary;
use std::process::Command;

/// A token, and its entry for the token file.
#[derive(Clone, Debug)]
pub struct Token {
    /// The tenant: the SASL username.
    pub tenant: &'static str,
    /// The token: the SASL password.
    pub text: String,
    entry: String,
}

impl Token {
    /// Makes one that may publish and subscribe to all streams of the tenant.
    #[must_use]
    pub fn new(tenant: &'static str, subject: &str) -> Self {
        let made = Command::new(binary::broker())
            .args(["--new-token", &format!("{tenant}/{subject}")])
            .output()
            .expect("the broker's program runs");
        assert!(made.status.success(), "{made:?}");
        let told = String::from_utf8(made.stderr).expect("it writes text");
        let text = told.lines().last().expect("the token stands last");
        Self {
            tenant,
            text: text.to_owned(),
            entry: String::from_utf8(made.stdout).expect("it writes text"),
        }
    }

    /// The same with these permissions instead.
    #[must_use]
    pub fn permitted(mut self, permissions: &str) -> Self {
        let all = "[\"stream.publish\", \"stream.subscribe\"]";
        assert!(self.entry.contains(all), "{}", self.entry);
        self.entry = self.entry.replace(all, permissions);
        self
    }

    /// The same, until then.
    #[must_use]
    pub fn expiring(mut self, moment: &str) -> Self {
        self.entry += &format!("expires = {moment}\n");
        self
    }

    /// A token file of these.
    #[must_use]
    pub fn file(tokens: &[&Self]) -> String {
        tokens.iter().map(|token| &*token.entry).collect()
    }

    /// What makes librdkafka use it, for [`kcat`](crate::kcat).
    #[must_use]
    pub fn of_kcat(&self) -> Vec<String> {
        let properties = [
            "security.protocol=SASL_PLAINTEXT".to_owned(),
            "sasl.mechanisms=PLAIN".to_owned(),
            format!("sasl.username={}", self.tenant),
            format!("sasl.password={}", self.text),
        ];
        let flags = properties.into_iter();
        flags
            .flat_map(|property| ["-X".to_owned(), property])
            .collect()
    }

    /// The message of SASL/PLAIN with it.
    #[must_use]
    pub fn plain(&self) -> Vec<u8> {
        format!("\0{}\0{}", self.tenant, self.text).into_bytes()
    }
}
