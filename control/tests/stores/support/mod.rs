//! What tests of the Postgres store share: a server of their own.

mod server;

pub(crate) use server::{Database, Server};
