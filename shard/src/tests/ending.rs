//! How the cores of a mesh under test agree that all is done.

use crate::lane::{Doorbell, Incoming, Outgoing, Received, ring};
use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// One core's part: it hears from every other core how its scenario ended, and tells every other
/// core the same.
pub(super) struct Ending {
    bell: Arc<Doorbell>,
    out: Vec<Outgoing<Ended>>,
    awaited: RefCell<Vec<Incoming<Ended>>>,
}

#[derive(Clone, Copy)]
enum Ended {
    Well,
    InPanic,
}

impl Ending {
    /// The parts of `cores` cores.
    pub(super) fn of(cores: u16) -> Vec<Self> {
        let part = |_| Self {
            bell: Arc::new(Doorbell::default()),
            out: Vec::new(),
            awaited: RefCell::default(),
        };
        let mut parts: Vec<_> = (0..usize::from(cores)).map(part).collect();
        for from in 0..parts.len() {
            for to in (0..parts.len()).filter(|to| *to != from) {
                let (out, incoming) = ring(1, &parts[from].bell, &parts[to].bell);
                parts[from].out.push(out);
                parts[to].awaited.get_mut().push(incoming);
            }
        }
        parts
    }

    /// Tells the others that this core's scenario has ended.
    pub(super) fn tell(&self, well: bool) {
        for out in &self.out {
            out.send(if well { Ended::Well } else { Ended::InPanic });
        }
        if !well {
            self.awaited.borrow_mut().clear();
        }
    }

    /// Waits until every other core's scenario has ended, or one has panicked.
    pub(super) async fn come(&self) {
        poll_fn(|cx| {
            self.bell.register(cx.waker());
            let mut awaited = self.awaited.borrow_mut();
            let mut panicked = false;
            awaited.retain(|incoming| match incoming.receive() {
                Received::Empty => true,
                Received::Message(Ended::Well) => false,
                Received::Message(Ended::InPanic) | Received::Gone => {
                    panicked = true;
                    false
                }
            });
            if panicked || awaited.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        self.bell.silence();
    }
}
