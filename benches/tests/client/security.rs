//! Ways to be secure.

use felix_bench::client::{Credential, Security, TlsConfig, Trust};

/// Nothing.
pub(crate) fn none() -> Security {
    Security::default()
}

/// Encrypted.
pub(crate) fn tls(trust: &Trust) -> Security {
    Security {
        tls: Some(TlsConfig::new(trust, None).unwrap()),
        sasl: None,
    }
}

/// Known by a password.
pub(crate) fn sasl(user: &str, password: &str) -> Security {
    Security {
        tls: None,
        sasl: Some(Credential {
            user: user.to_owned(),
            password: password.to_owned(),
        }),
    }
}
