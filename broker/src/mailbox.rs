//! How anyone reaches a core: a channel, and a waker for the one task that empties it.

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The sending end, on any thread. Clones send to the same box.
#[derive(Debug)]
pub(crate) struct Outside<M> {
    messages: Sender<M>,
    bell: Arc<Bell>,
}

/// The receiving end, on its core.
#[derive(Debug)]
pub(crate) struct Inside<M> {
    messages: Receiver<M>,
    bell: Arc<Bell>,
}

/// The task to wake: an atomic, since the threads that ring share it with the core.
#[derive(Debug, Default)]
struct Bell(AtomicWaker);

/// A mailbox. It has no bound of its own, so that saying a connection has closed can neither fail
/// nor wait; each sort of message is bounded by what it stands for (see `core_task::Message`).
#[must_use]
pub(crate) fn mailbox<M>() -> (Outside<M>, Inside<M>) {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let bell = Arc::new(Bell::default());
    (
        Outside {
            messages: sender,
            bell: Arc::clone(&bell),
        },
        Inside {
            messages: receiver,
            bell,
        },
    )
}

impl<M> Clone for Outside<M> {
    fn clone(&self) -> Self {
        Self {
            messages: self.messages.clone(),
            bell: Arc::clone(&self.bell),
        }
    }
}

impl<M> Outside<M> {
    /// Sends; whether the core still takes messages.
    pub(crate) fn send(&self, message: M) -> bool {
        let sent = self.messages.send(message).is_ok();
        if sent {
            self.bell.0.wake();
        }
        sent
    }
}

impl<M> Inside<M> {
    /// The next message; `None` once nobody can send any more.
    pub(crate) async fn next(&mut self) -> Option<M> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<M>> {
        // Register first and look after: whoever sends between the two rings a bell that is heard.
        self.bell.0.register(cx.waker());
        match self.messages.try_recv() {
            Ok(message) => Poll::Ready(Some(message)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            Err(TryRecvError::Empty) => Poll::Pending,
        }
    }
}

impl<M> Drop for Inside<M> {
    fn drop(&mut self) {
        // On its own core: the waker must not outlive the executor it belongs to.
        drop(self.bell.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn messages_arrive_in_order_and_an_empty_box_waits() {
        let (outside, mut inside) = mailbox();
        assert!(inside.next().now_or_never().is_none());
        let other = outside.clone();
        assert!(outside.send(1));
        assert!(other.send(2));
        assert_eq!(inside.next().now_or_never(), Some(Some(1)));
        assert_eq!(inside.next().now_or_never(), Some(Some(2)));
        drop((outside, other));
        assert_eq!(inside.next().now_or_never(), Some(None));
    }

    #[test]
    fn a_box_whose_core_is_gone_says_so() {
        let (outside, inside) = mailbox();
        drop(inside);
        assert!(!outside.send(1));
    }
}
