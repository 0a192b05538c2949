//! Authentication by user and password (SASL/PLAIN).

use super::exchange::Exchange;
use super::{Api, Credential, Problem, answer, request};
use std::time::Instant;

const MECHANISM: &str = "PLAIN";

/// Names the mechanism, then sends user and password.
pub(super) fn authenticate(
    exchange: &mut Exchange,
    credential: &Credential,
    deadline: Instant,
) -> Result<(), Problem> {
    let token = token(credential)?;
    let address = exchange.address().clone();
    let frame = exchange.ask(Api::SaslHandshake, deadline, |out, correlation| {
        request::sasl_handshake(out, correlation, MECHANISM);
    })?;
    let (taken, mechanisms) = answer::sasl_mechanisms(frame)?;
    taken.map_err(|refusal| {
        Problem::new(format!(
            "{address} does not authenticate by {MECHANISM}, which is all that felix-bench \
             speaks: {}; it offers {}",
            refusal.told(),
            if mechanisms.is_empty() {
                "nothing".to_owned()
            } else {
                mechanisms.join(", ")
            }
        ))
    })?;
    let frame = exchange.ask(Api::SaslAuthenticate, deadline, |out, correlation| {
        request::sasl_authenticate(out, correlation, &token);
    })?;
    answer::authenticated(frame)?.map_err(|refusal| {
        Problem::new(format!(
            "{address} does not let user `{}` in: {}; check user and password",
            credential.user,
            refusal.told()
        ))
    })
}

/// RFC 4616: nobody else to act for, the user, the password, a zero byte before each.
fn token(credential: &Credential) -> Result<Vec<u8>, Problem> {
    let Credential { user, password } = credential;
    if user.is_empty() || password.is_empty() || user.contains('\0') || password.contains('\0') {
        return Err(Problem::new(
            "user and password must not be empty, nor have a zero byte in them",
        ));
    }
    Ok(format!("\0{user}\0{password}").into_bytes())
}
