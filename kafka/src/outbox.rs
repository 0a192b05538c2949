//! Answers on their way to a peer that may read slowly.

use bytes::{Buf, Bytes};
use felix_core::ByteStream;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

/// Pieces handed to the connection in one go. The kernel takes at most 1024.
const PIECES_PER_SEND_MAX: usize = 64;

/// Bytes to be sent, in order, without being copied together. Lives with its connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes taken of the first piece, which keeps its memory until its last byte is taken.
    taken_of_first: usize,
}

/// What came of sending.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Sent {
    /// Bytes taken by the connection.
    pub(crate) bytes: usize,
    /// Bytes of the pieces that were taken whole: those whose memory is given back.
    pub(crate) freed_bytes: usize,
}

impl Outbox {
    /// Bytes not yet taken by the connection.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the pieces that are kept.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes + self.taken_of_first
    }

    /// Whether everything has been sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece behind the others.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Sends until everything is gone or the connection takes no more.
    pub(crate) fn poll_flush(
        &mut self,
        stream: &mut impl ByteStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Sent>> {
        let mut sent = Sent::default();
        while !self.is_empty() {
            match self.poll_send_once(stream, cx) {
                Poll::Ready(Ok(now)) => {
                    sent.bytes += now.bytes;
                    sent.freed_bytes += now.freed_bytes;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if sent.bytes == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(sent))
    }

    fn poll_send_once(
        &mut self,
        stream: &mut impl ByteStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Sent>> {
        let mut slices = [IoSlice::new(&[]); PIECES_PER_SEND_MAX];
        let count = self.pieces.len().min(PIECES_PER_SEND_MAX);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
        }
        let slices = slices
            .get(..count)
            .expect("count is at most the array's length");
        match stream.poll_send(cx, slices) {
            // A connection that takes nothing and does not wait would be asked for ever.
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(bytes)) => {
                let freed_bytes = self.remove(bytes);
                Poll::Ready(Ok(Sent { bytes, freed_bytes }))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Removes what was taken; the bytes of the pieces that are gone.
    fn remove(&mut self, mut taken: usize) -> usize {
        assert!(
            taken <= self.bytes,
            "a connection takes no more than it is given"
        );
        self.bytes -= taken;
        let mut freed = 0;
        while taken > 0 {
            let first = self
                .pieces
                .front_mut()
                .expect("the pieces hold all bytes counted");
            if taken < first.len() {
                first.advance(taken);
                self.taken_of_first += taken;
                break;
            }
            taken -= first.len();
            freed += first.len() + std::mem::take(&mut self.taken_of_first);
            self.pieces.pop_front();
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use proptest::prelude::*;

    /// Takes as many bytes at a time as the script says, then waits.
    struct Sink {
        takes: VecDeque<usize>,
        got: Vec<u8>,
    }

    impl ByteStream for Sink {
        fn poll_recv(
            &mut self,
            _cx: &mut Context<'_>,
            _into: &mut BytesMut,
            _bytes_max: usize,
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_send(
            &mut self,
            _cx: &mut Context<'_>,
            pieces: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let Some(take) = self.takes.pop_front() else {
                return Poll::Pending;
            };
            let before = self.got.len();
            self.got
                .extend(pieces.iter().flat_map(|piece| piece.iter()).take(take));
            Poll::Ready(Ok(self.got.len() - before))
        }

        fn close_write(&mut self) {}
    }

    proptest! {
        #[test]
        fn every_byte_is_sent_once_and_in_order_however_little_is_taken(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..200),
            takes in prop::collection::vec(1_usize..90, 0..60),
        ) {
            let mut outbox = Outbox::default();
            for piece in &pieces {
                outbox.push(Bytes::copy_from_slice(piece));
            }
            let whole = pieces.concat();
            let mut sink = Sink { takes: takes.into(), got: Vec::new() };
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let mut freed = match outbox.poll_flush(&mut sink, &mut cx) {
                Poll::Ready(sent) => sent.unwrap().freed_bytes,
                Poll::Pending => 0,
            };
            prop_assert_eq!(outbox.bytes(), whole.len() - sink.got.len());
            // A piece that is not gone is held whole.
            let ends = pieces.iter().scan(0, |end, piece| {
                *end += piece.len();
                Some(*end)
            });
            let gone = ends.take_while(|end| *end <= sink.got.len()).last().unwrap_or(0);
            prop_assert_eq!(freed, gone);
            prop_assert_eq!(outbox.held_bytes(), whole.len() - gone);
            sink.takes = vec![usize::MAX; 10].into();
            if let Poll::Ready(sent) = outbox.poll_flush(&mut sink, &mut cx) {
                freed += sent.unwrap().freed_bytes;
            }
            prop_assert!(outbox.is_empty());
            prop_assert_eq!((outbox.bytes(), outbox.held_bytes()), (0, 0));
            prop_assert_eq!(freed, whole.len());
            prop_assert_eq!(sink.got, whole);
        }
    }

    #[test]
    fn a_connection_that_takes_nothing_is_broken_not_spun_on() {
        let mut outbox = Outbox::default();
        outbox.push(Bytes::from_static(b"x"));
        let mut sink = Sink {
            takes: vec![0].into(),
            got: Vec::new(),
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let sent = outbox.poll_flush(&mut sink, &mut cx);
        assert!(
            matches!(sent, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::WriteZero)
        );
    }
}
