//! A TCP connection as a byte stream.

use crate::metrics::NetMetrics;
use crate::reactor::Reactor;
use crate::registration::{Direction, Registration};
use crate::sys;
use bytes::BytesMut;
use felix_core::ByteStream;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A peer that vanished without a word is asked after a minute of silence, and given up half a
/// minute later.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// The room that a receive makes where there is less than [`RECV_ROOM_BYTES_MIN`].
const RECV_ROOM_BYTES: usize = 32 << 10;

/// Less room than this is not worth a call, unless the caller wants no more.
const RECV_ROOM_BYTES_MIN: usize = 4 << 10;

/// Bytes of one call. A large request has room for all of it, and the kernel may have megabytes of it:
/// the copy, into pages that are touched for the first time, would hold the core for milliseconds.
const RECV_BYTES_MAX: usize = 128 << 10;

/// Pieces of one call (IOV_MAX on Linux; more is an error).
const SEND_PIECES_MAX: usize = 1024;

/// Bytes of one call. The copy happens on the core; through loopback the receiving half as well.
const SEND_BYTES_MAX: usize = 256 << 10;

/// One TCP connection, on one CPU core. Dropping it closes it: what was sent is still delivered,
/// unless something received was never read, in which case the peer gets a reset. To be sure that
/// a last word arrives, close the writing side and read until the peer closes.
#[derive(Debug)]
pub struct TcpStream {
    registration: Registration,
    peer: SocketAddr,
    open: OpenConnection,
}

impl TcpStream {
    /// Connects. May be dropped at any time, which gives the attempt up.
    ///
    /// # Errors
    /// The peer refuses or cannot be reached, or no descriptor is left.
    pub async fn connect(addr: SocketAddr, reactor: &Reactor) -> io::Result<Self> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new_raw(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
        set_options(&socket)?;
        match socket.connect(&SockAddr::from(addr)) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            Err(_) | Ok(()) => {}
        }
        let stream = Self::accepted(socket, addr, reactor)?;
        poll_fn(|cx| {
            stream.registration.poll_io(Direction::Write, cx, |socket| {
                if let Some(error) = socket.take_error()? {
                    return Err(error);
                }
                match socket.peer_addr() {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                        Err(io::ErrorKind::WouldBlock.into())
                    }
                    result => result,
                }
            })
        })
        .await?;
        Ok(stream)
    }

    /// The peer's address. An IPv4 peer of a dual-stack listener shows as IPv4.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn accepted(
        socket: Socket,
        peer: SocketAddr,
        reactor: &Reactor,
    ) -> io::Result<Self> {
        let registration = Registration::new(socket, reactor)?;
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        Ok(Self {
            registration,
            peer,
            open: OpenConnection::new(reactor.metrics()),
        })
    }

    fn metrics(&self) -> &NetMetrics {
        &self.open.0
    }
}

impl ByteStream for TcpStream {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        assert!(
            bytes_max > 0,
            "receiving nothing would look like the peer's end"
        );
        let metrics = self.metrics();
        self.registration.poll_io(Direction::Read, cx, |socket| {
            // Only now: a connection that has nothing to say holds no buffer.
            let room = make_room(into, bytes_max);
            metrics.recv_calls.increment();
            let count = sys::recv(socket, into, room)?;
            metrics
                .received_bytes
                .add(u64::try_from(count).expect("a length fits 64 bits"));
            self.registration.charge(Direction::Read, count);
            if count > 0 && count < room {
                self.registration.drained();
            }
            Ok(count)
        })
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let metrics = self.metrics();
        self.registration.poll_io(Direction::Write, cx, |socket| {
            metrics.send_calls.increment();
            let count = send(socket, pieces)?;
            metrics
                .sent_bytes
                .add(u64::try_from(count).expect("a length fits 64 bits"));
            self.registration.charge(Direction::Write, count);
            Ok(count)
        })
    }

    fn close_write(&mut self) {
        if let Err(error) = self.registration.socket().shutdown(Shutdown::Write) {
            // The peer has reset the connection; whoever receives next learns of it.
            tracing::debug!(peer = %self.peer, %error, "cannot close the writing side");
        }
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.registration.socket().as_fd()
    }
}

/// What every connection has, accepted or made.
///
/// TCP_USER_TIMEOUT is left alone on purpose: it would also end a connection whose living peer
/// keeps its window closed, and a paused consumer does just that for minutes. A peer that is gone
/// while bytes are on their way is given up by the kernel's retransmission limit.
pub(crate) fn set_options(socket: &Socket) -> io::Result<()> {
    // Answers go out in one piece; waiting for more would only add latency.
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)
}

/// Makes spare capacity if there is hardly any; how much may be received into it.
fn make_room(into: &mut BytesMut, bytes_max: usize) -> usize {
    let spare = into.capacity() - into.len();
    if spare < bytes_max.min(RECV_ROOM_BYTES_MIN) {
        into.reserve(bytes_max.min(RECV_ROOM_BYTES));
    }
    (into.capacity() - into.len())
        .min(bytes_max)
        .min(RECV_BYTES_MAX)
}

fn send(socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // A broken connection is an error to return, not a signal to die from.
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    match window(pieces) {
        Window::All => socket.send_vectored_with_flags(pieces, flags),
        Window::Cut(pieces) => socket.send_vectored_with_flags(&pieces, flags),
    }
}

/// What of the pieces goes into one call.
enum Window<'a> {
    All,
    Cut(Vec<IoSlice<'a>>),
}

/// Cuts the pieces to what one call may carry: a start of them, in order, nothing between left
/// out, and not empty unless all are.
fn window<'a>(pieces: &'a [IoSlice<'_>]) -> Window<'a> {
    let mut bytes = 0_usize;
    let fits = pieces.len() <= SEND_PIECES_MAX
        && pieces.iter().all(|piece| {
            bytes = bytes.saturating_add(piece.len());
            bytes <= SEND_BYTES_MAX
        });
    if fits {
        return Window::All;
    }
    // One allocation per quarter of a megabyte, or per thousand pieces.
    let mut left = SEND_BYTES_MAX;
    let filled = pieces
        .iter()
        .filter(|piece| !piece.is_empty())
        .take(SEND_PIECES_MAX);
    let cut = filled.map_while(|piece| {
        let (part, _) = piece.split_at(piece.len().min(left));
        left -= part.len();
        (!part.is_empty()).then(|| IoSlice::new(part))
    });
    Window::Cut(cut.collect())
}

/// Counts a connection as open for as long as it lives.
#[derive(Debug)]
struct OpenConnection(Rc<NetMetrics>);

impl OpenConnection {
    fn new(metrics: Rc<NetMetrics>) -> Self {
        metrics.open.add(1);
        Self(metrics)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn one_call_carries_a_bounded_start_of_the_pieces(
            lengths in prop::collection::vec(prop_oneof![0_usize..3, 0_usize..300_000], 0..10),
            many in any::<bool>(),
        ) {
            let data: Vec<u8> = (0..=250).collect::<Vec<u8>>().repeat(1200);
            let mut pieces: Vec<IoSlice<'_>> =
                lengths.iter().map(|length| IoSlice::new(&data[..*length])).collect();
            if many {
                pieces.extend((0..1100).map(|index| IoSlice::new(&data[..index % 3])));
            }
            let all = pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>().concat();
            let sent: Vec<u8> = match window(&pieces) {
                Window::All => {
                    prop_assert!(pieces.len() <= SEND_PIECES_MAX);
                    all.clone()
                }
                Window::Cut(cut) => {
                    prop_assert!(cut.len() <= SEND_PIECES_MAX);
                    cut.iter().map(|piece| &piece[..]).collect::<Vec<_>>().concat()
                }
            };
            prop_assert!(sent.len() <= SEND_BYTES_MAX);
            prop_assert!(all.starts_with(&sent));
            prop_assert_eq!(sent.is_empty(), all.is_empty());
        }

        #[test]
        fn room_is_bounded_by_what_the_caller_wants(
            held in 0_usize..9000, capacity in 0_usize..9000, bytes_max in 1_usize..100_000,
        ) {
            let mut into = BytesMut::with_capacity(capacity);
            into.resize(held, 7);
            let room = make_room(&mut into, bytes_max);
            prop_assert!((1..=bytes_max).contains(&room));
            prop_assert!(room >= bytes_max.min(RECV_ROOM_BYTES_MIN));
            prop_assert_eq!(into.len(), held);
        }
    }
}
