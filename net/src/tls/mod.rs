//! TLS 1.2 and 1.3 over any byte stream, by rustls, which appears nowhere else.
//!
//! A [`TlsConfig`] is made from PEM files, once for all cores. Each core has a [`TlsAcceptor`],
//! which shakes hands with peers and hands out [`TlsStream`]s. What costs a handshake its time, key
//! exchange and signatures, is done beside the core; records are decrypted and encrypted on it.

mod acceptor;
mod certificate;
mod config;
mod failure;
mod metrics;
mod session;
mod stream;
#[cfg(test)]
mod tests;

pub use acceptor::{Accepted, Refused, TlsAcceptor};
pub use config::{TlsConfig, TlsFault, TlsFile, TlsPem, TlsPolicy, TlsVersion};
pub use failure::{TlsError, TlsFailure};
pub use metrics::TlsMetrics;
pub use stream::TlsStream;
