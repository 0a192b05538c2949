//! Transports of one CPU core: readiness, listeners and byte streams.
//!
//! Each core has one [`Reactor`]: an epoll set that is awaited inside the core's executor and
//! whose sockets are read and written directly; [`tls`] encrypts any byte stream. Everything here lives on the core that made it,
//! except [`Bound`], which is made before any core runs and handed over. Why it is built so, with
//! the figures, stands in `docs/decisions/0001-io.md`.

mod listener;
mod metrics;
mod reactor;
mod readiness;
mod registration;
mod sys;
mod tcp;
pub mod tls;
mod vigil;

pub use listener::{Bound, TcpListener};
pub use metrics::NetMetrics;
pub use reactor::Reactor;
pub use tcp::TcpStream;
pub use tls::TlsStream;
