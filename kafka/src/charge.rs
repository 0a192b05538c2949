//! Memory that belongs to something and is given back with it, however it ends.

use felix_core::memory::Share;
use std::rc::Rc;

/// Bytes that a share holds for one thing. Lives with its connection.
#[derive(Debug)]
pub(crate) struct Charge {
    share: Rc<Share>,
    bytes: usize,
}

impl Charge {
    /// Of bytes that the share holds already.
    pub(crate) fn of_held(share: &Rc<Share>, bytes: usize) -> Self {
        Self {
            share: Rc::clone(share),
            bytes,
        }
    }

    /// Of bytes that the share takes now, whether or not there are so many.
    pub(crate) fn overdrawn(share: &Rc<Share>, bytes: usize) -> Self {
        share.overdraw(bytes);
        Self::of_held(share, bytes)
    }

    /// Whoever has the share gives them back from here on.
    pub(crate) fn hand_over(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.share.release(self.bytes);
    }
}
