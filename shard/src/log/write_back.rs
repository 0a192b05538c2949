//! Having the kernel write to the device before the flush: of what is flushed every interval, or
//! never, most is then there already, and the flush is short. `docs/decisions/0009-flushes.md` has the
//! measurement.

use super::Log;
use super::segment::Segment;
use std::rc::Rc;

/// Unflushed bytes that are sent ahead together. What is not is handed to the device by the flush, on
/// the core's own processor; and each time costs the core a few microseconds.
const BYTES_MIN: u64 = 128 << 10;

/// A part of a segment that the kernel is to write, without holding the log.
#[derive(Debug)]
#[must_use]
pub struct WriteBack {
    segment: Rc<Segment>,
    from: u64,
    bytes: u64,
}

impl WriteBack {
    /// Does it, on a blocking thread. Nothing is durable because of it, and whatever goes wrong is
    /// told to the next flush.
    pub async fn run(self) {
        self.segment
            .log()
            .begin_write_back(self.from, self.bytes)
            .await;
    }
}

impl Log {
    /// Whether there is enough to be sent ahead. Asked after each append.
    #[must_use]
    pub fn wants_write_back(&self) -> bool {
        self.unsent() >= BYTES_MIN
    }

    /// What is to be sent ahead; `None` where that is little.
    #[must_use]
    pub fn write_back(&mut self) -> Option<WriteBack> {
        if !self.wants_write_back() {
            return None;
        }
        let unsent = self.unsent();
        self.sent = self.written;
        let segment = Rc::clone(self.last());
        // What lies in a segment that is full is left to its flush, which has begun or soon will.
        let bytes = unsent.min(segment.bytes());
        Some(WriteBack {
            from: segment.bytes() - bytes,
            bytes,
            segment,
        })
    }

    fn unsent(&self) -> u64 {
        self.written - self.flushed.max(self.sent)
    }
}
