//! What is known of the log without reading it.

use super::error::{Fault, LogError};
use super::table;
use crate::disk::Dir;
use bytes::{Buf, BufMut};
use felix_core::{Offset, Timestamp};

/// The file's name.
pub(super) const NAME: &str = "checkpoint";
const MAGIC: [u8; 4] = *b"FLXC";
const PAYLOAD_BYTES: usize = 32;

/// What is known of the log without reading it: atomically replaced when a full segment has been
/// flushed, at the end of an opening, and on closing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Checkpoint {
    /// Everything below this is on the device; a fault there is fatal.
    pub(super) recovery_point: Offset,
    /// The lowest offset that can be read.
    pub(super) start: Offset,
    /// The offset after the last data record below the recovery point: between the two lie only
    /// control batches.
    pub(super) visible_end: Offset,
    /// No append time given out so far is above this.
    pub(super) append_time: Timestamp,
}

impl Checkpoint {
    fn check(&self) -> bool {
        self.start <= self.visible_end && self.visible_end <= self.recovery_point
    }

    /// The one in `dir`; `None` where there is none.
    pub(super) fn load(dir: &Dir) -> Result<Option<Self>, LogError> {
        let Some(payload) = table::load(dir, NAME, MAGIC)? else {
            return Ok(None);
        };
        match Self::decode(&payload) {
            Some(checkpoint) if checkpoint.check() => Ok(Some(checkpoint)),
            Some(_) | None => Err(Self::damaged(dir, Fault::Layout)),
        }
    }

    /// What it says cannot be.
    pub(super) fn damaged(dir: &Dir, fault: Fault) -> LogError {
        LogError::Damaged {
            dir: dir.path().to_owned(),
            file: NAME.to_owned(),
            position: 8,
            fault,
        }
    }

    fn decode(mut payload: &[u8]) -> Option<Self> {
        if payload.len() != PAYLOAD_BYTES {
            return None;
        }
        Some(Self {
            recovery_point: Offset::from_wire(payload.get_i64())?,
            start: Offset::from_wire(payload.get_i64())?,
            visible_end: Offset::from_wire(payload.get_i64())?,
            append_time: Timestamp(payload.get_i64()),
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        payload.put_i64(self.recovery_point.to_wire());
        payload.put_i64(self.start.to_wire());
        payload.put_i64(self.visible_end.to_wire());
        payload.put_i64(self.append_time.0);
        table::frame(MAGIC, &payload)
    }

    /// Puts it in the place of the one in `dir`. Everything it claims must be durable.
    pub(super) async fn save(&self, dir: &Dir) -> Result<(), LogError> {
        assert!(self.check());
        table::replace(dir, NAME, self.encode()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_bytes_are_those_of_the_format_page() {
        let checkpoint = Checkpoint {
            recovery_point: Offset::new(7),
            start: Offset::new(1),
            visible_end: Offset::new(6),
            append_time: Timestamp(258),
        };
        let bytes = checkpoint.encode();
        let mut expected = b"FLXC\0\0\0\x01".to_vec();
        expected.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 1]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 6]);
        expected.extend([0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(&bytes[..40], &expected[..]);
        assert_eq!(&bytes[40..], crc32c::crc32c(&expected).to_be_bytes());
        assert_eq!(Checkpoint::decode(&bytes[8..40]), Some(checkpoint));
    }
}
