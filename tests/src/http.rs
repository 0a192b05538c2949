//! Enough of an HTTP client to ask the broker how it is.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Status and body of `GET path`.
pub(crate) fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("not HTTP: {answer:?}")))?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok((status, body.to_owned()))
}
