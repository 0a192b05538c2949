//! The identity of a stream as the broker's files write it.

use felix_core::StreamId;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};

/// A stream id, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Identity(pub(crate) StreamId);

impl TryFrom<String> for Identity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&text, 16).ok().filter(|_| is_hex);
        number
            .map(|number| Self(StreamId(number)))
            .ok_or_else(|| format!("{text:?} is not 32 hexadecimal digits"))
    }
}

impl From<Identity> for String {
    fn from(Identity(StreamId(number)): Identity) -> Self {
        format!("{number:032x}")
    }
}

/// Where randomness comes from.
pub(crate) const RANDOM: &str = "/dev/urandom";

/// A random number.
///
/// # Errors
/// [`RANDOM`] cannot be read.
pub(crate) fn draw_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open(RANDOM)?.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// A random identity. Kafka reserves 0 (no topic) and 1 (its metadata topic), and so do we.
///
/// # Errors
/// [`RANDOM`] cannot be read.
pub(crate) fn draw() -> io::Result<Identity> {
    let mut bytes = [0; 16];
    loop {
        File::open(RANDOM)?.read_exact(&mut bytes)?;
        let id = u128::from_be_bytes(bytes);
        if id > 1 {
            return Ok(Identity(StreamId(id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_32_hexadecimal_digits_and_reads_back() {
        let id = draw().unwrap();
        assert_eq!(Identity::try_from(String::from(id)), Ok(id));
        for text in ["", "7", "+0000000000000000000000000000007", &"g".repeat(32)] {
            assert!(Identity::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
