//! A peer at work on a thread of its own.

use super::peer::{Peer, Place};
use super::priority;
use crate::pin;
use crate::problem::Problem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Ends when it is told to.
#[derive(Debug)]
pub(super) struct Pressing {
    thread: JoinHandle<Result<(), Problem>>,
    end: Arc<AtomicBool>,
}

impl Pressing {
    /// Lets it loose.
    pub(super) fn start(peer: Peer, place: &Place) -> Result<Self, Problem> {
        let end: Arc<AtomicBool> = Arc::default();
        let (place, told) = (place.clone(), Arc::clone(&end));
        let thread = thread::Builder::new().name(peer.name().to_owned());
        let thread = thread.spawn(move || {
            pin::to(place.cpu)?;
            // The client whose time is measured runs there as well.
            priority::last_of_all()?;
            peer.press(&place, &told)
        });
        let thread = thread.map_err(|error| Problem::new(format!("no thread: {error}")))?;
        Ok(Self { thread, end })
    }

    /// Ends it; what went wrong with it.
    pub(super) fn end(self) -> Result<(), Problem> {
        self.end.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
