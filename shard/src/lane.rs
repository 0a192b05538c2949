//! One direction between two CPU cores: a bounded ring, a doorbell at the receiving core, and an
//! outbox at the sending core for what the ring has no room for.
//!
//! The only atomics of this crate live here: the doorbell's waker and the ring's `starved` mark.

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};
use futures_util::task::AtomicWaker;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Waker;

/// Wakes the one task of a core that drains its lanes. Shared by all cores.
#[derive(Debug, Default)]
pub(crate) struct Doorbell(AtomicWaker);

impl Doorbell {
    /// The task to wake. Whoever registers looks at the rings afterwards, never before.
    pub(crate) fn register(&self, waker: &Waker) {
        self.0.register(waker);
    }

    /// There is something to look at. Many rings between two looks cost one wake.
    pub(crate) fn ring(&self) {
        self.0.wake();
    }

    /// The task has ended. Called on its own core: the waker must not outlive its executor.
    pub(crate) fn silence(&self) {
        drop(self.0.take());
    }
}

/// The sending end. Lives on the sending core.
#[derive(Debug)]
pub(crate) struct Outgoing<M> {
    ring: Sender<M>,
    to: Arc<Doorbell>,
    starved: Arc<AtomicBool>,
    /// Bounded by what its messages stand for: requests by credits; watches, cancels and commits by
    /// the requests that connections may have in flight.
    outbox: RefCell<VecDeque<M>>,
}

/// The receiving end. Lives on the receiving core.
#[derive(Debug)]
pub(crate) struct Incoming<M> {
    ring: Receiver<M>,
    from: Arc<Doorbell>,
    starved: Arc<AtomicBool>,
}

/// What a receiving end found.
#[derive(Debug)]
pub(crate) enum Received<M> {
    /// A message.
    Message(M),
    /// None for now.
    Empty,
    /// None ever: the sending core is gone.
    Gone,
}

/// A ring for `capacity` messages from the core of `from` to the core of `to`.
pub(crate) fn ring<M>(
    capacity: usize,
    from: &Arc<Doorbell>,
    to: &Arc<Doorbell>,
) -> (Outgoing<M>, Incoming<M>) {
    let (sender, receiver) = crossbeam_channel::bounded(capacity);
    let starved = Arc::new(AtomicBool::new(false));
    (
        Outgoing {
            ring: sender,
            to: Arc::clone(to),
            starved: Arc::clone(&starved),
            outbox: RefCell::default(),
        },
        Incoming {
            ring: receiver,
            from: Arc::clone(from),
            starved,
        },
    )
}

impl<M> Outgoing<M> {
    /// Sends, or keeps until the ring has room. Never waits, never reorders.
    pub(crate) fn send(&self, message: M) {
        self.outbox.borrow_mut().push_back(message);
        self.flush();
    }

    /// Sends what the ring has room for. The receiving core rings back when it has made some.
    pub(crate) fn flush(&self) {
        let mut outbox = self.outbox.borrow_mut();
        let mut sent = false;
        let mut marked = false;
        while let Some(message) = outbox.pop_front() {
            match self.ring.try_send(message) {
                Ok(()) => sent = true,
                Err(TrySendError::Full(message)) => {
                    outbox.push_front(message);
                    if marked {
                        break;
                    }
                    // Mark first, look again after: either this look finds room, or the receiver,
                    // which takes messages first and looks at the mark after, finds the mark.
                    marked = true;
                    self.starved.store(true, Ordering::SeqCst);
                    fence(Ordering::SeqCst);
                }
                Err(TrySendError::Disconnected(_)) => outbox.clear(),
            }
        }
        if sent {
            self.to.ring();
        }
    }

    /// Messages that wait for room.
    pub(crate) fn kept(&self) -> usize {
        self.outbox.borrow().len()
    }
}

impl<M> Incoming<M> {
    /// The next message.
    pub(crate) fn receive(&self) -> Received<M> {
        match self.ring.try_recv() {
            Ok(message) => Received::Message(message),
            Err(TryRecvError::Empty) => Received::Empty,
            Err(TryRecvError::Disconnected) => Received::Gone,
        }
    }

    /// To be called after a run of [`Incoming::receive`]: tells a starved sender of the room.
    pub(crate) fn made_room(&self) {
        fence(Ordering::SeqCst);
        if self.starved.load(Ordering::SeqCst) && self.starved.swap(false, Ordering::SeqCst) {
            self.from.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_full_ring_refuses_follows_in_order_once_there_is_room() {
        let (near, far) = (Arc::new(Doorbell::default()), Arc::new(Doorbell::default()));
        let (out, incoming) = ring(2, &near, &far);
        for number in 0..5 {
            out.send(number);
        }
        assert_eq!(out.kept(), 3);
        let mut seen = Vec::new();
        while seen.len() < 5 {
            while let Received::Message(number) = incoming.receive() {
                seen.push(number);
            }
            incoming.made_room();
            out.flush();
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!(out.kept(), 0);
        drop(out);
        assert!(matches!(incoming.receive(), Received::Gone));
    }

    #[test]
    fn a_starved_sender_is_rung_by_the_receiver_and_only_then() {
        let (near, far) = (Arc::new(Doorbell::default()), Arc::new(Doorbell::default()));
        let (out, incoming) = ring(1, &near, &far);
        let (waker, count) = futures_test_waker();
        near.register(&waker);
        out.send(1);
        assert!(matches!(incoming.receive(), Received::Message(1)));
        incoming.made_room();
        assert_eq!(count.load(Ordering::SeqCst), 0);
        out.send(2);
        out.send(3);
        assert!(matches!(incoming.receive(), Received::Message(2)));
        incoming.made_room();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    fn futures_test_waker() -> (Waker, Arc<std::sync::atomic::AtomicUsize>) {
        struct Count(Arc<std::sync::atomic::AtomicUsize>);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        (Waker::from(Arc::new(Count(Arc::clone(&count)))), count)
    }
}
