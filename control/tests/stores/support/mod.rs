//! What tests of the Postgres store share: a server of their own, and a wire to it that fails.

mod relay;
mod server;

pub(crate) use relay::Relay;
pub(crate) use server::{Database, Server};
