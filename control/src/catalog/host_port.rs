//! Where a node can be reached, as `host:port`.

use crate::limits::HOST_BYTES_MAX;
use felix_core::topology::Address;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// An address as clients are told it: a host name, an IPv4 address, or an IPv6 address in brackets,
/// and a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPort {
    host: String,
    port: u16,
}

/// Why a text is no address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPortError(String);

impl fmt::Display for HostPortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no address; give host:port, as broker-1.example.com:9092 or [2001:db8::1]:9092",
            self.0
        )
    }
}

impl std::error::Error for HostPortError {}

impl HostPort {
    /// As the brokers have it.
    #[must_use]
    pub fn address(&self) -> Address {
        Address {
            host: self.host.clone(),
            port: self.port,
        }
    }
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        let refused = || HostPortError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(refused)?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_host = match bare {
            Some(ip) => ip.parse::<Ipv6Addr>().is_ok(),
            None => is_name(host),
        };
        let host = bare.unwrap_or(host).to_owned();
        is_host.then_some(Self { host, port }).ok_or_else(refused)
    }
}

/// Whether it looks like a host name or an IPv4 address (RFC 1123, and the underscores of some
/// container networks).
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    host.len() <= HOST_BYTES_MAX && host.split('.').all(is_label)
}

impl TryFrom<String> for HostPort {
    type Error = HostPortError;

    fn try_from(text: String) -> Result<Self, HostPortError> {
        text.parse()
    }
}

impl From<HostPort> for String {
    fn from(address: HostPort) -> Self {
        address.to_string()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_both_kinds_read_back() {
        for text in [
            "broker-1.example.com:9092",
            "felix_broker:1",
            "192.0.2.7:65535",
            "[::1]:5000",
        ] {
            let address: HostPort = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        let address: HostPort = "[2001:db8::1]:9092".parse().unwrap();
        assert_eq!(address.address().host, "2001:db8::1");
    }

    #[test]
    fn what_nobody_could_connect_to_is_refused() {
        for text in [
            "",
            "host",
            ":9092",
            "host:0",
            "host:70000",
            "a b:1",
            "::1:5000",
            "[host]:1",
            "-a:1",
        ] {
            let refusal = text.parse::<HostPort>().unwrap_err().to_string();
            assert!(refusal.contains("give host:port"), "{refusal}");
        }
    }
}
