//! The tokens that were issued, as the broker keeps them: never themselves, only their hashes.

use felix_core::auth::Grant;
use felix_core::{Rejection, Timestamp};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What every token begins with, so that one that leaks is recognised for what it is.
pub(crate) const PREFIX: &str = "felix_";

/// Hexadecimal digits that follow: 256 random bits.
const DIGITS: usize = 64;

/// The SHA-256 of a token. A fast hash is enough, because a token is random and nobody goes through
/// 2^256 of them; tokens that people chose are refused for their form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest([u8; 32]);

/// To whom a token was issued, and for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Issued {
    /// The tenant it speaks for.
    pub(crate) tenant: String,
    /// Whose it is.
    pub(crate) subject: String,
    /// From when on it is refused; `None`: never.
    pub(crate) expires: Option<Timestamp>,
    /// What it may be used for.
    pub(crate) grants: Arc<[Grant]>,
}

/// All tokens, found by their hash. Plain, to cross threads.
#[derive(Debug, Default)]
pub(crate) struct Tokens(HashMap<Digest, Issued>);

impl Digest {
    /// The hash of a token.
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Reads 64 hexadecimal digits, in either case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

/// In a time that does not depend on where they differ.
impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let difference = pairs.fold(0, |all, (one, two)| std::hint::black_box(all | (one ^ two)));
        difference == 0
    }
}

impl Eq for Digest {}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Tokens {
    /// Adds one. `false`: there is one of that hash already, which stays.
    pub(crate) fn add(&mut self, digest: Digest, issued: Issued) -> bool {
        let is_new = !self.0.contains_key(&digest);
        if is_new {
            self.0.insert(digest, issued);
        }
        is_new
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// To whom a token that somebody shows was issued, if it is one for this tenant.
    ///
    /// # Errors
    /// It is none, or not for that tenant, or its time is over.
    pub(crate) fn find(
        &self,
        tenant: &str,
        token: &str,
        now: Timestamp,
    ) -> Result<&Issued, Rejection> {
        if !has_form(token) {
            return Err(Rejection::Form);
        }
        let issued = self.0.get(&Digest::of(token)).ok_or(Rejection::Unknown)?;
        if issued.tenant != tenant {
            return Err(Rejection::WrongTenant);
        }
        if issued.expires.is_some_and(|expires| now >= expires) {
            return Err(Rejection::Expired);
        }
        Ok(issued)
    }
}

/// A token of these random bytes.
pub(crate) fn token(random: [u8; 32]) -> String {
    format!("{PREFIX}{}", Digest(random))
}

fn has_form(token: &str) -> bool {
    let Some(digits) = token.strip_prefix(PREFIX) else {
        return false;
    };
    let legal = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.len() == DIGITS && digits.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued(expires: Option<i64>) -> Issued {
        Issued {
            tenant: "t1".into(),
            subject: "checkout".into(),
            expires: expires.map(Timestamp),
            grants: Arc::from([]),
        }
    }

    #[test]
    fn a_hash_is_what_everybody_elses_sha_256_is() {
        let digest = Digest::of("abc");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), expected);
        assert_eq!(Digest::parse(expected), Some(digest));
        assert_eq!(Digest::parse(&expected.to_uppercase()), Some(digest));
        let plus = "+".repeat(64);
        let short = &expected[1..];
        let umlauts = "\u{e4}".repeat(32);
        for wrong in ["", short, &plus, &umlauts] {
            assert_eq!(Digest::parse(wrong), None, "{wrong}");
        }
        assert_ne!(Digest::of("abd"), digest);
    }

    #[test]
    fn a_token_is_found_for_its_tenant_until_its_time_is_over() {
        let shown = token([7; 32]);
        let mut tokens = Tokens::default();
        assert!(tokens.add(Digest::of(&shown), issued(Some(1000))));
        assert!(
            !tokens.add(Digest::of(&shown), issued(None)),
            "it is there already"
        );
        let find = |tenant, token, now| tokens.find(tenant, token, Timestamp(now)).map(|_| ());
        assert_eq!(find("t1", &shown, 999), Ok(()));
        assert_eq!(find("t1", &shown, 1000), Err(Rejection::Expired));
        assert_eq!(find("t2", &shown, 0), Err(Rejection::WrongTenant));
        assert_eq!(find("t1", &token([8; 32]), 0), Err(Rejection::Unknown));
    }

    #[test]
    fn what_somebody_chose_is_refused_even_where_its_hash_is_listed() {
        let upper = token([0xab; 32]).to_uppercase();
        let short = &token([1; 32])[..69];
        for chosen in ["", "secret", "felix_secret", &upper, short] {
            let mut tokens = Tokens::default();
            tokens.add(Digest::of(chosen), issued(None));
            let found = tokens.find("t1", chosen, Timestamp(0)).map(|_| ());
            assert_eq!(found, Err(Rejection::Form), "{chosen}");
        }
    }
}
