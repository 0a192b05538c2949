//! The ways to reach the broker.

use crate::cells::{Cell, Shows};
use crate::given;
use felix_tests::clients::Access;
use felix_tests::{Authority, Broker, Identity, Token, is_full};

/// The tenant of all streams.
const TENANT: &str = "dev";

/// A setting of the broker and its value.
pub(crate) type Setting = (&'static str, &'static str);

/// A way to reach the broker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    /// As the page calls it.
    pub(crate) title: &'static str,
    /// As clients call it.
    pub(crate) protocol: &'static str,
    has_tls: bool,
    has_tokens: bool,
}

/// Each gets a broker of its own.
pub(crate) const VARIANTS: &[Variant] = &[
    Variant {
        title: "Without TLS and SASL",
        protocol: "PLAINTEXT",
        has_tls: false,
        has_tokens: false,
    },
    Variant {
        title: "With TLS",
        protocol: "SSL",
        has_tls: true,
        has_tokens: false,
    },
    Variant {
        title: "With SASL/PLAIN",
        protocol: "SASL_PLAINTEXT",
        has_tls: false,
        has_tokens: true,
    },
    Variant {
        title: "With TLS and SASL/PLAIN",
        protocol: "SASL_SSL",
        has_tls: true,
        has_tokens: true,
    },
];

impl Variant {
    /// Whether everything is tried in every run.
    pub(crate) fn is_bare(&self) -> bool {
        !self.has_tls && !self.has_tokens
    }

    /// Whether a relay can tell what is said to the broker.
    pub(crate) fn is_readable(&self) -> bool {
        !self.has_tls
    }

    /// Whether the page shows the cell, which then is tried in every run.
    pub(crate) fn shows(&self, cell: &Cell) -> bool {
        match cell.shows {
            Shows::WhatIsRight if cell.needs_relay() && !self.is_readable() => false,
            Shows::WhatIsRight => self.is_bare() || cell.is_everywhere,
            Shows::AnotherAuthority => self.has_tls && !self.has_tokens,
            Shows::AnotherToken | Shows::AnotherTenant => self.has_tokens,
        }
    }

    /// Whether this run tries the cell.
    pub(crate) fn tries(&self, cell: &Cell) -> bool {
        let is_possible = cell.shows == Shows::WhatIsRight && !cell.needs_relay();
        self.shows(cell) || is_full() && is_possible
    }
}

/// What brokers and clients know each other by.
#[derive(Debug)]
pub(crate) struct Secrets {
    authority: Authority,
    /// Of the same name, and the broker's certificate is not of it.
    other_authority: Authority,
    /// The broker's. It is no authority's itself: some clients take no such certificate.
    own: Identity,
    token: Token,
    other_token: Token,
}

impl Secrets {
    pub(crate) fn new() -> Self {
        let authority = Authority::new("authority");
        Self {
            own: authority.issue("broker", &["localhost", "127.0.0.1"]),
            authority,
            other_authority: Authority::new("authority"),
            token: Token::new(TENANT, "matrix"),
            other_token: Token::new(TENANT, "stranger"),
        }
    }

    /// The token file.
    pub(crate) fn tokens(&self) -> String {
        Token::file(&[&self.token])
    }

    /// What a broker of the variant needs.
    pub(crate) fn settings(&self, variant: &Variant, broker: &Broker) -> Vec<Setting> {
        let path = |path: &std::path::Path| given::leak(path.display().to_string());
        let mut settings = Vec::new();
        if variant.has_tls {
            // With core ports only the name counts, and clients have to verify it.
            let address = format!("localhost:{}", broker.port());
            settings.push(("FELIX_KAFKA_ADVERTISE_ADDR", given::leak(address)));
            settings.push(("FELIX_KAFKA_TLS", "true"));
            settings.push(("FELIX_TLS_CERT", path(&self.own.certificate)));
            settings.push(("FELIX_TLS_KEY", path(&self.own.key)));
        }
        if variant.has_tokens {
            settings.push(("FELIX_KAFKA_TOKEN_FILE", "tokens.toml"));
            // An empty variable counts as unset.
            settings.push(("FELIX_KAFKA_ANONYMOUS_TENANT", ""));
        }
        settings
    }

    /// Where clients find a broker of the variant, and what they show there.
    pub(crate) fn access(&self, variant: &Variant, broker: &Broker, shows: Shows) -> Access {
        let authority = match shows {
            Shows::AnotherAuthority => &self.other_authority,
            Shows::WhatIsRight | Shows::AnotherToken | Shows::AnotherTenant => &self.authority,
        };
        let (tenant, token) = match shows {
            Shows::AnotherToken => (TENANT, &self.other_token),
            Shows::AnotherTenant => ("other", &self.token),
            Shows::WhatIsRight | Shows::AnotherAuthority => (TENANT, &self.token),
        };
        Access {
            bootstrap: match variant.has_tls {
                true => format!("localhost:{}", broker.port()),
                false => broker.bootstrap(),
            },
            lossy: None,
            ca: variant.has_tls.then(|| authority.certificate()),
            user: (variant.has_tokens).then(|| (tenant.to_owned(), token.text.clone())),
        }
    }
}
