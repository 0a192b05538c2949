//! What is known of the log without reading it.

use super::error::{Fault, LogError};
use super::table;
use crate::disk::{Calls, Dir};
use bytes::{Buf, BufMut};
use felix_core::{Offset, Timestamp};
use std::path::Path;

/// The file's name.
pub(super) const NAME: &str = "checkpoint";
pub(super) const MAGIC: [u8; 4] = *b"FLXC";
/// What every checkpoint has.
const PAYLOAD_BYTES: usize = 32;
/// When the first batch was appended: earlier versions left it out.
const BEGUN_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;

/// What is known of the log without reading it: atomically replaced by each upkeep, at the end of an
/// opening, and on closing.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// When the first batch was appended of the segment that the recovery point lies in, or ends,
    /// where it is the last one.
    pub(super) begun: Option<Timestamp>,
    /// Base offsets of segments, rising, and when the last batch of each was appended: only of those
    /// whose records carry no time, or a later one.
    pub(super) appended: Vec<(Offset, Timestamp)>,
}

impl Checkpoint {
    pub(super) fn check(&self) -> bool {
        self.start <= self.visible_end && self.visible_end <= self.recovery_point
    }

    /// The one in the directory; `None` where there is none.
    pub(super) fn load(calls: &Calls<'_>) -> Result<Option<Self>, LogError> {
        let Some(payload) = table::load(calls, NAME, MAGIC)? else {
            return Ok(None);
        };
        match Self::decode(&payload) {
            Some(checkpoint) if checkpoint.check() => Ok(Some(checkpoint)),
            Some(_) | None => Err(Self::damaged(calls.path(), Fault::Layout)),
        }
    }

    /// When the last batch of the segment at `base` was appended, where that counts.
    pub(super) fn appended(&self, base: Offset) -> Option<Timestamp> {
        let found = self.appended.binary_search_by_key(&base, |entry| entry.0);
        let (_, appended) = found.ok().and_then(|at| self.appended.get(at))?;
        Some(*appended)
    }

    /// When the first batch of the last segment, which begins at `base`, was appended, if it says
    /// so.
    pub(super) fn begun(&self, base: Offset) -> Option<Timestamp> {
        self.begun.filter(|_| base < self.recovery_point)
    }

    /// What it says cannot be.
    pub(super) fn damaged(dir: &Path, fault: Fault) -> LogError {
        LogError::Damaged {
            dir: dir.to_owned(),
            file: NAME.to_owned(),
            position: 8,
            fault,
        }
    }

    pub(super) fn decode(mut payload: &[u8]) -> Option<Self> {
        let mut entries = payload.len().checked_sub(PAYLOAD_BYTES)?;
        let has_begun = entries % ENTRY_BYTES == BEGUN_BYTES;
        if has_begun {
            entries -= BEGUN_BYTES;
        }
        if !entries.is_multiple_of(ENTRY_BYTES) {
            return None;
        }
        let mut checkpoint = Self {
            recovery_point: Offset::from_wire(payload.get_i64())?,
            start: Offset::from_wire(payload.get_i64())?,
            visible_end: Offset::from_wire(payload.get_i64())?,
            append_time: Timestamp(payload.get_i64()),
            begun: None,
            appended: Vec::with_capacity(entries / ENTRY_BYTES),
        };
        if has_begun {
            checkpoint.begun = Some(Timestamp(payload.get_i64())).filter(|begun| begun.0 >= 0);
        }
        while payload.has_remaining() {
            let base = Offset::from_wire(payload.get_i64())?;
            checkpoint
                .appended
                .push((base, Timestamp(payload.get_i64())));
        }
        let rises = checkpoint.appended.is_sorted_by(|a, b| a.0 < b.0);
        rises.then_some(checkpoint)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES + self.appended.len() * ENTRY_BYTES);
        payload.put_i64(self.recovery_point.to_wire());
        payload.put_i64(self.start.to_wire());
        payload.put_i64(self.visible_end.to_wire());
        payload.put_i64(self.append_time.0);
        payload.put_i64(self.begun.map_or(-1, |begun| begun.0));
        for (base, appended) in &self.appended {
            payload.put_i64(base.to_wire());
            payload.put_i64(appended.0);
        }
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
            begun: Some(Timestamp(2)),
            appended: vec![
                (Offset::new(3), Timestamp(4)),
                (Offset::new(5), Timestamp(6)),
            ],
        };
        let bytes = checkpoint.encode();
        let mut expected = b"FLXC\0\0\0\x01".to_vec();
        expected.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 1]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 6]);
        expected.extend([0, 0, 0, 0, 0, 0, 1, 2]);
        for number in 2..7 {
            expected.extend([0, 0, 0, 0, 0, 0, 0, number]);
        }
        assert_eq!(&bytes[..80], &expected[..]);
        assert_eq!(&bytes[80..], crc32c::crc32c(&expected).to_be_bytes());
        assert_eq!(checkpoint.appended(Offset::new(5)), Some(Timestamp(6)));
        assert_eq!(checkpoint.appended(Offset::new(4)), None);
        assert_eq!(Checkpoint::decode(&bytes[8..80]), Some(checkpoint));
    }

    #[test]
    fn one_of_an_earlier_version_does_not_say_when_the_last_segment_began() {
        let number = |number: u8| [0, 0, 0, 0, 0, 0, 0, number];
        let earlier = [7, 1, 6, 0, 3, 4].map(number).concat();
        let decoded = Checkpoint::decode(&earlier).unwrap();
        assert_eq!(decoded.begun(Offset::new(3)), None);
        assert_eq!(decoded.appended(Offset::new(3)), Some(Timestamp(4)));
        let now = [7, 1, 6, 0, 9, 3, 4].map(number).concat();
        let decoded = Checkpoint::decode(&now).unwrap();
        assert_eq!(decoded.begun(Offset::new(3)), Some(Timestamp(9)));
        assert_eq!(
            decoded.begun(Offset::new(7)),
            None,
            "that one is of another"
        );
        assert_eq!(decoded.appended(Offset::new(3)), Some(Timestamp(4)));
    }

    #[test]
    fn entries_that_are_cut_or_do_not_rise_are_refused() {
        let number = |number: u8| [0, 0, 0, 0, 0, 0, 0, number];
        let marks = [7, 1, 6, 0, 0].map(number).concat();
        let decode = |entries: &[u8]| {
            let entries: Vec<u8> = entries.iter().flat_map(|entry| number(*entry)).collect();
            Checkpoint::decode(&[&marks[..], &entries[..]].concat())
        };
        assert!(decode(&[]).is_some());
        assert!(decode(&[3, 0, 5, 0]).is_some());
        assert!(decode(&[3, 0, 5]).is_none());
        assert!(Checkpoint::decode(&[0; 39]).is_none());
        assert!(decode(&[3, 0, 3, 0]).is_none());
    }
}
