//! A connection as a protocol sees it: bytes in, bytes out, nothing about sockets.

use bytes::BytesMut;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

/// An ordered, reliable stream of bytes with one peer. Lives on one CPU core.
///
/// Both polls may be pending at once; each keeps only its own last waker.
pub trait ByteStream {
    /// Appends what has arrived to `into`, up to `bytes_max`. `Ok(0)`: the peer will send no more.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>>;

    /// Sends as much of `pieces` as the connection takes now; the number of bytes taken. Where it
    /// is pending, the next call is to offer the same bytes first: an encrypted connection may
    /// have some of them under way.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Says that we will send no more (a FIN), once everything before is sent.
    fn close_write(&mut self);
}
