//! An in-memory connection that hands out bytes in whatever portions it is told.

use bytes::BytesMut;
use felix_core::ByteStream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll};

/// The server's end.
#[derive(Debug)]
pub(super) struct ServerEnd(pub(super) Rc<RefCell<State>>);

/// What is on its way.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) to_server: VecDeque<u8>,
    pub(super) to_client: VecDeque<u8>,
    pub(super) client_ended: bool,
    pub(super) server_closed: bool,
    pub(super) sent_by_server: usize,
    /// Bytes that the client still takes.
    pub(super) window: usize,
    /// Portions, in turn; 0: not now.
    pub(super) chops: Vec<usize>,
    pub(super) calls: usize,
}

impl State {
    fn portion(&mut self, cx: &Context<'_>) -> Poll<usize> {
        if self.chops.is_empty() {
            return Poll::Ready(usize::MAX);
        }
        let portion = self.chops[self.calls % self.chops.len()];
        self.calls += 1;
        if portion == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(portion)
    }
}

impl ByteStream for ServerEnd {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        if state.to_server.is_empty() {
            return if state.client_ended {
                Poll::Ready(Ok(0))
            } else {
                Poll::Pending
            };
        }
        let Poll::Ready(portion) = state.portion(cx) else {
            return Poll::Pending;
        };
        let count = portion.min(bytes_max).min(state.to_server.len());
        into.extend(state.to_server.drain(..count));
        Poll::Ready(Ok(count))
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        assert!(!state.server_closed, "nothing is sent after the end");
        if state.window == 0 {
            return Poll::Pending;
        }
        let Poll::Ready(portion) = state.portion(cx) else {
            return Poll::Pending;
        };
        let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
        let count = portion.min(state.window).min(offered);
        state.window -= count;
        state.sent_by_server += count;
        let bytes = pieces.iter().flat_map(|piece| piece.iter());
        state.to_client.extend(bytes.take(count));
        Poll::Ready(Ok(count))
    }

    fn close_write(&mut self) {
        self.0.borrow_mut().server_closed = true;
    }
}
