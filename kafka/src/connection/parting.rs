//! The end of a connection whose peer was refused: not on the heels of the answer, which some clients
//! drop where both come together.

use super::Connection;
use bytes::BytesMut;
use felix_core::limits::REFUSED_PARTING_MAX;
use felix_core::{ByteStream, Shards};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use std::task::{Context, Poll, ready};

/// Whether a connection that has sent all it owes waits for its peer before it ends.
#[derive(Default)]
pub(super) enum Parting {
    /// It does not.
    #[default]
    AtOnce,
    /// It will.
    Due,
    /// It does, until then.
    Waiting(LocalBoxFuture<'static, ()>),
}

impl<S: Shards, B: ByteStream> Connection<S, B> {
    /// Ready when the connection is to end. What the peer does meanwhile ends the wait: it has heard
    /// and closes, or does not listen and sends on.
    pub(super) fn poll_parting(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Parting::Due = self.parting {
            let wait = self.context.timer.sleep(REFUSED_PARTING_MAX);
            self.parting = Parting::Waiting(wait);
        }
        if let Parting::Waiting(wait) = &mut self.parting {
            let mut dropped = BytesMut::new();
            if self.stream.poll_recv(cx, &mut dropped, 1).is_pending() {
                ready!(wait.poll_unpin(cx));
            }
        }
        Poll::Ready(())
    }
}
