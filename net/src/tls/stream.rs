//! An encrypted connection as a byte stream.

use super::session::{Outgoing, RECORD_BYTES_MAX, RECORD_OVERHEAD_MAX, Session};
use bytes::BytesMut;
use felix_core::ByteStream;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker, ready};

/// Ciphertext asked for at once, where more than a record is wanted.
const RECEIVE_BYTES_MAX: usize = 32 << 10;

/// Plain bytes encrypted at once. What has been encrypted is kept until it is sent, so this bounds
/// what a peer that does not read costs.
const SEND_BYTES_MAX: usize = 32 << 10;

/// Plain bytes of one direction after which others have their turn. A task that goes on with
/// something else may come back some times before it lets them, so this is little: 20 us of work
/// with AES in hardware.
const TURN_BYTES: usize = 32 << 10;

/// The least that a call is charged.
const CALL_BYTES_MIN: usize = 1 << 10;

/// A TLS connection over `S`, from the end of its handshake. Lives on one CPU core.
///
/// It holds up to 32 KiB of encrypted bytes that `S` does not take yet. They count as not
/// sent: [`poll_send`](ByteStream::poll_send) takes bytes only once all that they became is handed
/// to `S`, and until then it is to be offered the same bytes first.
///
/// A peer that ends without TLS's farewell counts as one that has ended, unless it does so in the
/// midst of a record: most clients do, and who cuts a connection of frames that tell their length
/// can only cut off the last one.
#[derive(Debug)]
pub struct TlsStream<S> {
    stream: S,
    session: Session,
    /// Bytes that were encrypted, and that the caller has not been told are taken.
    owed_bytes: usize,
    farewell: Farewell,
    /// The underlying stream has ended.
    ended: bool,
    recv_turn: Turn,
    send_turn: Turn,
}

/// Our own farewell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Farewell {
    /// Not said.
    Unsaid,
    /// Said, and still to be sent.
    OnItsWay,
    /// Sent, and the writing side closed.
    Done,
}

impl<S: ByteStream> TlsStream<S> {
    pub(super) fn new(stream: S, session: Session) -> Self {
        Self {
            stream,
            session,
            owed_bytes: 0,
            farewell: Farewell::Unsaid,
            ended: false,
            recv_turn: Turn::default(),
            send_turn: Turn::default(),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(poll_flush(&mut self.stream, &mut self.session.outgoing, cx))?;
        if self.farewell == Farewell::OnItsWay {
            self.farewell = Farewell::Done;
            self.stream.close_write();
        }
        Poll::Ready(Ok(()))
    }

    /// What the session refuses, once what the peer is told of it is on its way.
    fn broken(&mut self, cx: &mut Context<'_>, error: rustls::Error) -> io::Error {
        // The peer broke it, so it need not be heard to the end.
        drop(self.poll_flush(cx));
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// Hands what is to be sent to the stream.
pub(super) fn poll_flush<S: ByteStream>(
    stream: &mut S,
    outgoing: &mut Outgoing,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !outgoing.bytes().is_empty() {
        let sent = ready!(stream.poll_send(cx, &[IoSlice::new(outgoing.bytes())]))?;
        if sent == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        outgoing.sent(sent);
    }
    Poll::Ready(Ok(()))
}

impl<S: ByteStream> ByteStream for TlsStream<S> {
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
        // Tickets and the farewell have nobody else to send them.
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        if self.recv_turn.is_over(cx) {
            return Poll::Pending;
        }
        loop {
            match self.session.read(into, bytes_max) {
                Ok(0) => {}
                Ok(count) => {
                    self.recv_turn.charge(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(self.broken(cx, error))),
            }
            if self.session.is_peer_closed() {
                return Poll::Ready(Ok(0));
            }
            if self.session.has_whole_record() {
                // It has looked at as many as it does in one go, and nothing in them was for us.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.ended {
                let whole = self.session.incoming.is_empty();
                let cut =
                    || io::Error::new(io::ErrorKind::UnexpectedEof, "a TLS record is cut off");
                return Poll::Ready(if whole { Ok(0) } else { Err(cut()) });
            }
            let one_record = RECORD_BYTES_MAX + RECORD_OVERHEAD_MAX;
            let room = bytes_max.clamp(one_record, RECEIVE_BYTES_MAX);
            let incoming = &mut self.session.incoming;
            let Poll::Ready(received) = self.stream.poll_recv(cx, incoming, room) else {
                self.recv_turn = Turn::default();
                return Poll::Pending;
            };
            self.ended = received? == 0;
        }
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.farewell != Farewell::Unsaid {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let Poll::Ready(flushed) = self.poll_flush(cx) else {
            self.send_turn = Turn::default();
            return Poll::Pending;
        };
        flushed?;
        if self.owed_bytes == 0 {
            if self.send_turn.is_over(cx) {
                return Poll::Pending;
            }
            let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
            match self.session.write(pieces, offered.min(SEND_BYTES_MAX)) {
                Ok(count) => self.owed_bytes = count,
                Err(error) => return Poll::Ready(Err(self.broken(cx, error))),
            }
            self.send_turn.charge(self.owed_bytes);
            ready!(self.poll_flush(cx))?;
        }
        Poll::Ready(Ok(std::mem::take(&mut self.owed_bytes)))
    }

    fn close_write(&mut self) {
        if self.farewell != Farewell::Unsaid {
            return;
        }
        self.farewell = Farewell::OnItsWay;
        // A broken connection has nobody to say farewell to, and is closed all the same.
        if let Err(error) = self.session.close() {
            tracing::debug!(%error, "no TLS farewell");
        }
        // Where there is no room for it now, the next call that receives sends it.
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(Err(error)) = self.poll_flush(&mut cx) {
            tracing::debug!(%error, "the TLS farewell cannot be sent");
        }
    }
}

/// What one direction may still do before its task lets others run.
#[derive(Debug)]
struct Turn {
    bytes_left: usize,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            bytes_left: TURN_BYTES,
        }
    }
}

impl Turn {
    fn charge(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes.max(CALL_BYTES_MIN));
    }

    /// Whether the turn is used up; if so, the next one begins when the task is woken, which it is.
    fn is_over(&mut self, cx: &Context<'_>) -> bool {
        let over = self.bytes_left == 0;
        if over {
            *self = Self::default();
            cx.waker().wake_by_ref();
        }
        over
    }
}
