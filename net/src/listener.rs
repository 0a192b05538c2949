//! Listening sockets: bound before any core runs, accepting on one core each.

use crate::metrics::NetMetrics;
use crate::reactor::Reactor;
use crate::readiness;
use crate::registration::{Direction, OPERATION_BYTES_MIN, Registration};
use crate::tcp::{self, TcpStream};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

/// Connections that may wait to be accepted, per listening socket. Kafka clients reconnect all at
/// once after a restart, and what does not fit waits a second for its retransmission. The kernel
/// lowers it to `net.core.somaxconn`, 4096 by default.
const BACKLOG: i32 = 4096;

/// How long accepting rests when descriptors or memory are short. Long enough to cost nothing,
/// short enough that a connection waiting in the backlog does not notice much.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(20);

/// A socket that listens and has no core yet, so that an address in use is known at start-up,
/// before any thread runs.
///
/// The kernel spreads new connections over all sockets bound to one port from the moment they
/// listen. What comes before [`adopt`](Self::adopt) waits in the backlog; dropping a `Bound` resets
/// what waits there.
#[derive(Debug)]
pub struct Bound {
    socket: Socket,
    addr: SocketAddr,
}

impl Bound {
    /// Binds and listens. Port 0 takes a free one. `[::]` takes IPv4 as well.
    ///
    /// Others of the same user may bind the same address so too (SO_REUSEPORT), and then share
    /// its connections. [`group`](Self::group) is for that.
    ///
    /// # Errors
    /// The address cannot be listened on; the error names it.
    pub fn new(addr: SocketAddr) -> io::Result<Self> {
        Self::listen(addr).map_err(|error| naming(addr, &error))
    }

    /// As many sockets as cores, all on one port. Unlike [`new`](Self::new) this refuses a port
    /// that something else listens on already: SO_REUSEPORT would let a second broker, started by
    /// mistake, silently take half of the connections of the first.
    ///
    /// # Errors
    /// The address cannot be listened on or is in use; the error names it.
    pub fn group(addr: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        if addr.port() != 0 {
            let probe = socket(addr).and_then(|probe| probe.bind(&SockAddr::from(addr)));
            probe.map_err(|error| naming(addr, &error))?;
        }
        let mut group: Vec<Self> = Vec::with_capacity(count);
        for _ in 0..count {
            let addr = group.first().map_or(addr, |first| first.addr);
            group.push(Self::new(addr)?);
        }
        Ok(group)
    }

    /// The address bound to, with the port that was chosen for port 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Makes it the listener of the calling core.
    ///
    /// # Errors
    /// The reactor has stopped, or the kernel has no memory left.
    pub fn adopt(self, reactor: &Reactor) -> io::Result<TcpListener> {
        Ok(TcpListener {
            registration: Registration::new(self.socket, reactor)?,
            addr: self.addr,
            metrics: reactor.metrics(),
            short: false,
        })
    }

    fn listen(addr: SocketAddr) -> io::Result<Self> {
        let socket = socket(addr)?;
        socket.set_reuse_port(true)?;
        // Accepted sockets inherit these, which saves five calls a connection.
        tcp::set_options(&socket)?;
        socket.bind(&SockAddr::from(addr))?;
        socket.listen(BACKLOG)?;
        let addr = socket
            .local_addr()?
            .as_socket()
            .expect("an internet socket");
        Ok(Self { socket, addr })
    }
}

/// A non-blocking socket that can be bound again at once after a restart, although connections of
/// the one before are still in TIME_WAIT.
fn socket(addr: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new_raw(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        // Whatever net.ipv6.bindv6only says.
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

fn naming(addr: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}"))
}

/// A listening socket of one CPU core. Dropping it resets what still waits to be accepted.
#[derive(Debug)]
pub struct TcpListener {
    registration: Registration,
    addr: SocketAddr,
    metrics: Rc<NetMetrics>,
    /// Descriptors or memory were short at the last try; said once, not at each try.
    short: bool,
}

impl TcpListener {
    /// Binds, listens and accepts on the calling core: [`Bound::new`] and [`Bound::adopt`].
    ///
    /// # Errors
    /// As those two.
    pub fn bind(addr: SocketAddr, reactor: &Reactor) -> io::Result<Self> {
        Bound::new(addr)?.adopt(reactor)
    }

    /// The address bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The next connection. May be dropped at any time and asked again: a connection is either
    /// returned or still in the backlog.
    ///
    /// When descriptors or memory are short, it waits a little and tries again: the connection
    /// stays in the backlog, and the edge-triggered set will not speak of it a second time.
    ///
    /// # Errors
    /// The listener itself is unusable, or the reactor has stopped.
    pub async fn accept(&mut self) -> io::Result<TcpStream> {
        loop {
            let error = match self.accept_one().await {
                Ok(stream) => {
                    if self.short {
                        self.short = false;
                        tracing::info!(addr = %self.addr, "accepts connections again");
                    }
                    return Ok(stream);
                }
                Err(error) => error,
            };
            self.metrics.accept_errors.increment();
            match Fault::of(&error) {
                Fault::Connection => {}
                Fault::Shortage => {
                    if !self.short {
                        self.short = true;
                        tracing::warn!(addr = %self.addr, %error, "connections wait to be accepted");
                    }
                    readiness::pause(SHORTAGE_PAUSE).await;
                }
                Fault::Listener => return Err(error),
            }
        }
    }

    async fn accept_one(&self) -> io::Result<TcpStream> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let (socket, peer) = poll_fn(|cx| {
            self.registration.poll_io(Direction::Read, cx, |socket| {
                self.registration.charge(Direction::Read, ACCEPT_BYTES);
                socket.accept4(flags)
            })
        })
        .await?;
        // No await from here on: what was taken from the backlog is returned.
        let peer = peer
            .as_socket()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTO))?;
        let stream = TcpStream::accepted(socket, peer, self.registration.reactor())?;
        self.metrics.accepted.increment();
        Ok(stream)
    }
}

/// What accepting one connection is charged: sixteen fill a turn, at some microseconds each.
const ACCEPT_BYTES: usize = 2 * OPERATION_BYTES_MIN;

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.registration.socket().as_fd()
    }
}

/// Whose fault a failed accept is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// This one connection's, which is gone: take the next.
    Connection,
    /// The process's or the machine's, which have run out of something: try again later.
    Shortage,
    /// The listener's: it will not get better.
    Listener,
}

impl Fault {
    /// accept(2): network errors pending on the new connection are reported by accept and should
    /// be treated like "try again".
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(
                libc::ECONNABORTED
                | libc::EPERM
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
                | libc::ETIMEDOUT,
            ) => Self::Connection,
            // ENOSPC: no more members may join an epoll set (fs.epoll.max_user_watches).
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC) => {
                Self::Shortage
            }
            Some(_) | None => Self::Listener,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_socket_can_be_handed_to_a_core() {
        fn is_send<T: Send>() {}
        is_send::<Bound>();
    }

    #[test]
    fn a_port_in_use_is_refused_to_a_group_and_named() {
        let first = Bound::group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let addr = first.first().unwrap().local_addr();
        assert!(first.iter().all(|bound| bound.local_addr() == addr));
        assert_ne!(addr.port(), 0);
        let error = Bound::group(addr, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
        drop(first);
        Bound::group(addr, 2).unwrap();
    }

    #[test]
    fn no_failed_accept_but_a_broken_listener_ends_accepting() {
        let fault = |code| Fault::of(&io::Error::from_raw_os_error(code));
        assert_eq!(fault(libc::ECONNABORTED), Fault::Connection);
        assert_eq!(fault(libc::EMFILE), Fault::Shortage);
        assert_eq!(fault(libc::ENFILE), Fault::Shortage);
        assert_eq!(fault(libc::EBADF), Fault::Listener);
        assert_eq!(Fault::of(&io::Error::other("stopped")), Fault::Listener);
    }
}
