//! An in-memory connection with a peer that can be slow, half closed or gone.

use bytes::BytesMut;
use felix_core::ByteStream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The peer's end.
#[derive(Clone, Default)]
pub(crate) struct Peer(Rc<RefCell<State>>);

/// The broker's end.
pub(crate) struct BrokerEnd(Rc<RefCell<State>>);

struct State {
    to_broker: VecDeque<u8>,
    peer_ended: bool,
    peer_gone: bool,
    /// Bytes the broker gets at most at a time.
    recv_bytes_max: usize,
    to_peer: Vec<u8>,
    /// Bytes the peer still takes before it lets the broker wait.
    window: usize,
    broker_ended: bool,
    broker_gone: bool,
    /// Bytes the broker has received in all.
    received: usize,
    recv_waker: Option<Waker>,
    send_waker: Option<Waker>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            to_broker: VecDeque::new(),
            peer_ended: false,
            peer_gone: false,
            recv_bytes_max: usize::MAX,
            to_peer: Vec::new(),
            window: usize::MAX,
            broker_ended: false,
            broker_gone: false,
            received: 0,
            recv_waker: None,
            send_waker: None,
        }
    }
}

impl State {
    fn wake(&mut self) {
        for waker in [self.recv_waker.take(), self.send_waker.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }
}

impl Peer {
    pub(crate) fn broker_end(&self) -> BrokerEnd {
        BrokerEnd(Rc::clone(&self.0))
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut state = self.0.borrow_mut();
        state.to_broker.extend(bytes);
        state.wake();
    }

    /// From now on the broker gets at most this many bytes at a time.
    pub(crate) fn trickle(&self, recv_bytes_max: usize) {
        self.0.borrow_mut().recv_bytes_max = recv_bytes_max;
    }

    /// From now on takes only this many bytes more.
    pub(crate) fn take_only(&self, window: usize) {
        let mut state = self.0.borrow_mut();
        state.window = window;
        state.wake();
    }

    /// A FIN.
    pub(crate) fn end(&self) {
        let mut state = self.0.borrow_mut();
        state.peer_ended = true;
        state.wake();
    }

    /// A reset.
    pub(crate) fn vanish(&self) {
        let mut state = self.0.borrow_mut();
        state.peer_gone = true;
        state.wake();
    }

    /// What the broker has sent since the last call.
    pub(crate) fn received(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().to_peer)
    }

    /// Bytes the broker has taken in all.
    pub(crate) fn taken_by_broker(&self) -> usize {
        self.0.borrow().received
    }

    /// Whether the broker has said that it sends no more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.borrow().broker_ended
    }

    /// Whether the broker has let go of the connection.
    pub(crate) fn is_dropped(&self) -> bool {
        self.0.borrow().broker_gone
    }
}

impl ByteStream for BrokerEnd {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        assert!(bytes_max > 0);
        if state.peer_gone {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.to_broker.is_empty() {
            if state.peer_ended {
                return Poll::Ready(Ok(0));
            }
            state.recv_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = bytes_max
            .min(state.recv_bytes_max)
            .min(state.to_broker.len());
        let bytes: Vec<u8> = state.to_broker.drain(..count).collect();
        state.received += count;
        into.extend_from_slice(&bytes);
        Poll::Ready(Ok(count))
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        assert!(!state.broker_ended, "nothing is sent after the end");
        if state.peer_gone {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if state.window == 0 {
            state.send_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut taken = 0;
        for piece in pieces {
            let take = piece.len().min(state.window);
            state.to_peer.extend_from_slice(&piece[..take]);
            state.window -= take;
            taken += take;
        }
        Poll::Ready(Ok(taken))
    }

    fn close_write(&mut self) {
        self.0.borrow_mut().broker_ended = true;
    }
}

impl Drop for BrokerEnd {
    fn drop(&mut self) {
        self.0.borrow_mut().broker_gone = true;
    }
}
