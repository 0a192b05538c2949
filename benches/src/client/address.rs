//! Where a broker listens.

use super::Problem;
use std::fmt;
use std::str::FromStr;

/// A host, by name or by number, and a port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// A name, or the number of an interface; of IPv6 without brackets.
    pub host: String,
    /// The port of its Kafka listener.
    pub port: u16,
}

impl Address {
    /// Whether it is of this machine, as far as its name tells.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let number = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || number.is_ok_and(|number| number.is_loopback())
    }
}

impl FromStr for Address {
    type Err = Problem;

    /// Reads `host:port`, or `[host]:port` where the host has colons of its own.
    fn from_str(text: &str) -> Result<Self, Problem> {
        let parsed = text.rsplit_once(':').and_then(|(host, port)| {
            let bare = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'));
            let is_plain = !host.is_empty() && !host.contains([':', '[', ']', '/']);
            let host = bare.or_else(|| is_plain.then_some(host))?;
            let port = port.parse().ok().filter(|port| *port != 0)?;
            Some(Self {
                host: host.to_owned(),
                port,
            })
        });
        parsed.ok_or_else(|| {
            Problem::new(format!(
                "`{text}` is no address of a broker; write host:port, such as 127.0.0.1:9092, or \
                 [::1]:9092"
            ))
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_were_written() {
        for text in ["127.0.0.1:9092", "broker-1.example:19092", "[::1]:9092"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example_of_one() {
        for text in [
            "",
            "localhost",
            ":9092",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            "::1:9092",
            "kafka://localhost:9092",
        ] {
            let problem = text.parse::<Address>().unwrap_err().to_string();
            assert!(problem.contains("127.0.0.1:9092"), "{problem}");
            assert!(problem.contains(&format!("`{text}`")), "{problem}");
        }
    }
}
