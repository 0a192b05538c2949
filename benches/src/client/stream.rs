//! A connection to a broker that never waits.

use super::exchange::Exchange;
use super::tls::{self, TlsStream};
use super::{Address, Problem, Security, sasl};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Longer than it takes a healthy broker to accept, to encrypt and to check a password.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A non-blocking connection, encrypted or not.
#[derive(Debug)]
pub struct Stream {
    transport: Transport,
}

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    // Boxed, since it is many times as large as the other.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Connects, encrypts and authenticates, as far as `security` asks for it. Waits for each, at
    /// most ten seconds for all together; afterwards nothing waits any more.
    ///
    /// # Errors
    /// Nobody listens, the broker is not who it should be, or it does not know us.
    pub fn open(host: &str, port: u16, security: &Security) -> Result<Self, Problem> {
        let deadline = Instant::now() + OPEN_TIMEOUT;
        let address = Address {
            host: host.to_owned(),
            port,
        };
        let socket = connect(&address, deadline)?;
        let stream = match &security.tls {
            None => Self {
                transport: Transport::Plain(socket),
            },
            Some(tls) => {
                let mut tls = Box::new(TlsStream::new(socket, host, tls)?);
                shake_hands(&mut tls, &address, deadline)?;
                Self {
                    transport: Transport::Tls(tls),
                }
            }
        };
        let Some(credential) = &security.sasl else {
            return Ok(stream);
        };
        let mut exchange = Exchange::new(stream, address);
        sasl::authenticate(&mut exchange, credential, deadline)?;
        Ok(exchange.into_stream())
    }

    /// Takes what is there: 0 at the end, `WouldBlock` when nothing is. Without TLS this is one
    /// system call. With TLS, a buffer that was filled to its end may have left something of which
    /// the socket knows nothing, so read again until it was not.
    ///
    /// # Errors
    /// What the socket or TLS says.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.transport {
            Transport::Plain(socket) => socket.read(buffer),
            Transport::Tls(tls) => tls.read(buffer),
        }
    }

    /// Sends some of `bytes`, or takes them over to send: how many. `WouldBlock` when there is no
    /// room. Without TLS this is one system call. With TLS look at [`Stream::wants_write`] after
    /// it.
    ///
    /// # Errors
    /// What the socket or TLS says.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.transport {
            Transport::Plain(socket) => socket.write(bytes),
            Transport::Tls(tls) => tls.write(bytes),
        }
    }

    /// Whether bytes that were taken over wait for the socket to have room:
    /// [`Stream::flush_pending`] is due when it has. Never without TLS.
    #[inline]
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match &self.transport {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.wants_write(),
        }
    }

    /// Sends what was taken over; whether nothing is left.
    ///
    /// # Errors
    /// What the socket says.
    #[inline]
    pub fn flush_pending(&mut self) -> io::Result<bool> {
        match &mut self.transport {
            Transport::Plain(_) => Ok(true),
            Transport::Tls(tls) => tls.flush_pending(),
        }
    }

    /// The socket, for its settings and its numbers; its bytes are the stream's.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match &self.transport {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => tls.socket(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

/// Waits until `fd` can be read, or written to where `or_written` says so; false where the
/// deadline came first.
pub(super) fn wait(fd: impl AsFd, or_written: bool, deadline: Instant) -> io::Result<bool> {
    let mut flags = PollFlags::IN;
    if or_written {
        flags |= PollFlags::OUT;
    }
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("deadlines are seconds away");
        match poll(&mut [PollFd::new(&fd, flags)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Tries every address that the host has.
fn connect(address: &Address, deadline: Instant) -> Result<TcpStream, Problem> {
    let found = (&*address.host, address.port)
        .to_socket_addrs()
        .map_err(|error| {
            Problem::new(format!(
                "the host of {address} is not known: {error}; check its name"
            ))
        })?;
    let mut last = None;
    for candidate in found {
        let left = deadline.saturating_duration_since(Instant::now());
        // The standard library panics at no time at all.
        let left = left.max(Duration::from_millis(1));
        let connected = TcpStream::connect_timeout(&candidate, left).and_then(|socket| {
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    let reason = last.map_or_else(
        || "it has no address".to_owned(),
        |error| match error.kind() {
            ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
            ErrorKind::TimedOut => format!("no answer within {OPEN_TIMEOUT:?}"),
            _ => error.to_string(),
        },
    );
    Err(Problem::new(format!(
        "no connection to {address}: {reason}; is the broker running, and is this its Kafka \
         address?"
    )))
}

fn shake_hands(tls: &mut TlsStream, address: &Address, deadline: Instant) -> Result<(), Problem> {
    let failed = |error: io::Error| Problem::new(told_handshake(&error, address));
    loop {
        tls.flush_pending().map_err(failed)?;
        if !tls.is_handshaking() {
            return Ok(());
        }
        let is_ready = tls.has_received()
            || wait(tls.socket(), tls.wants_write(), deadline).map_err(failed)?;
        if !is_ready {
            return Err(Problem::new(format!(
                "{address} did not finish the TLS handshake within {OPEN_TIMEOUT:?}; does this \
                 port speak TLS?"
            )));
        }
        match tls.receive() {
            Ok(false) => return Err(failed(ErrorKind::UnexpectedEof.into())),
            Ok(true) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

fn told_handshake(error: &io::Error, address: &Address) -> String {
    tls::told(error, address).unwrap_or_else(|| {
        format!("{address} hung up during the TLS handshake ({error}); does this port speak TLS?")
    })
}
