//! A peer's connection: plain, or with TLS where the broker's listener has it.

use super::peer::Place;
use crate::client::TlsConfig;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// So that the end of a turn is noticed.
pub(super) const TIMEOUT: Duration = Duration::from_millis(100);

/// What requests go over.
pub(super) trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

/// A connection that requests can be sent on.
pub(super) fn open(place: &Place) -> io::Result<Box<dyn Wire>> {
    let socket = connect(place)?;
    Ok(match &place.tls {
        Some(tls) => Box::new(StreamOwned::new(begin(tls, place)?, socket)),
        None => Box::new(socket),
    })
}

/// A connection without anything.
pub(super) fn connect(place: &Place) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(place.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// What a client says first in TLS.
pub(super) fn hello(tls: &TlsConfig, place: &Place) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    begin(tls, place)?.write_tls(&mut bytes)?;
    Ok(bytes)
}

fn begin(tls: &TlsConfig, place: &Place) -> io::Result<ClientConnection> {
    let name = ServerName::from(place.address.ip());
    ClientConnection::new(tls.config(), name).map_err(io::Error::other)
}
