//! Length-prefixed frames out of a stream of bytes.

use bytes::{Buf, BytesMut};
use std::fmt;

/// Bytes asked of the connection while no frame is under way: what every connection may hold, be
/// the core's memory as short as it may.
const RECV_BYTES: usize = 16 << 10;

/// Received bytes of a frame from which on its whole length is reserved at once. A peer that only
/// claims a large frame costs no more memory than this.
const RESERVE_FROM_BYTES: usize = 256 << 10;

/// Bytes of the length prefix.
const PREFIX_BYTES: usize = 4;

/// Why the stream of frames is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameError {
    /// The length is negative.
    Negative(i32),
    /// The length is above the bound in force.
    TooLarge {
        /// As the peer gave it.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative(length) => write!(f, "the request's length is {length}"),
            Self::TooLarge { bytes, bytes_max } => {
                write!(
                    f,
                    "the request has {bytes} bytes; at most {bytes_max} are allowed"
                )
            }
        }
    }
}

/// Bytes received and not yet consumed. Lives with its connection.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: BytesMut,
}

impl Inbox {
    /// Where received bytes go.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// The length of the frame under way, once its prefix is here.
    fn frame_bytes(&self, bytes_max: usize) -> Result<Option<usize>, FrameError> {
        let Some(prefix) = self.bytes.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*prefix);
        let Ok(bytes) = usize::try_from(length) else {
            return Err(FrameError::Negative(length));
        };
        if bytes > bytes_max {
            return Err(FrameError::TooLarge { bytes, bytes_max });
        }
        Ok(Some(bytes))
    }

    /// The length of the frame under way where it is more than a connection may hold unasked.
    pub(crate) fn large_frame(&self, bytes_max: usize) -> Option<usize> {
        let bytes = self.frame_bytes(bytes_max).ok().flatten()?;
        (bytes > RECV_BYTES).then_some(bytes)
    }

    /// Whether a whole frame, or a broken one, is here: its bytes, 0 for a broken one.
    pub(crate) fn whole_frame(&self, bytes_max: usize) -> Option<usize> {
        match self.frame_bytes(bytes_max) {
            Ok(Some(bytes)) => (self.bytes.len() >= PREFIX_BYTES + bytes).then_some(bytes),
            Ok(None) => None,
            Err(_) => Some(0),
        }
    }

    /// The next whole frame, its prefix removed; `None`: more bytes are needed.
    pub(crate) fn next(&mut self, bytes_max: usize) -> Result<Option<BytesMut>, FrameError> {
        let Some(bytes) = self.frame_bytes(bytes_max)? else {
            return Ok(None);
        };
        if self.bytes.len() < PREFIX_BYTES + bytes {
            return Ok(None);
        }
        self.bytes.advance(PREFIX_BYTES);
        if bytes == self.bytes.len() && bytes > RECV_BYTES {
            // The frame takes its buffer along, so that an idle connection does not hold on to it.
            // Small frames share one, or each small batch kept in memory would keep a whole one.
            return Ok(Some(std::mem::take(&mut self.bytes)));
        }
        Ok(Some(self.bytes.split_to(bytes)))
    }

    /// How many bytes to ask of the connection: little while idle, the rest of a frame that has
    /// shown itself to be large.
    pub(crate) fn recv_bytes(&self, bytes_max: usize) -> usize {
        let received = self.bytes.len();
        match self.frame_bytes(bytes_max) {
            Ok(Some(bytes)) => {
                let missing = (PREFIX_BYTES + bytes).saturating_sub(received);
                if received >= RESERVE_FROM_BYTES {
                    missing.max(RECV_BYTES)
                } else {
                    missing.clamp(RECV_BYTES, (2 * received).max(RECV_BYTES))
                }
            }
            Ok(None) | Err(_) => RECV_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut all = Vec::new();
        for frame in frames {
            all.extend_from_slice(&u32::try_from(frame.len()).unwrap().to_be_bytes());
            all.extend_from_slice(frame);
        }
        all
    }

    proptest! {
        #[test]
        fn frames_come_out_whole_however_the_bytes_arrive(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            cuts in prop::collection::vec(1_usize..50, 1..50),
        ) {
            let all = framed(&frames);
            let mut inbox = Inbox::default();
            let mut got = Vec::new();
            let mut rest = all.as_slice();
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                inbox.buffer().extend_from_slice(now);
                rest = later;
                loop {
                    let whole = inbox.whole_frame(1000).is_some();
                    let Some(frame) = inbox.next(1000).unwrap() else {
                        prop_assert!(!whole);
                        break;
                    };
                    prop_assert!(whole);
                    got.push(frame.to_vec());
                }
            }
            prop_assert_eq!(inbox.buffer().len(), 0);
            prop_assert_eq!(got, frames);
        }
    }

    #[test]
    fn negative_and_oversized_lengths_are_refused_before_their_bytes_arrive() {
        let mut inbox = Inbox::default();
        inbox.buffer().extend_from_slice(&(-1_i32).to_be_bytes());
        assert!(inbox.whole_frame(100).is_some());
        assert_eq!(inbox.next(100), Err(FrameError::Negative(-1)));

        let mut inbox = Inbox::default();
        inbox.buffer().extend_from_slice(&101_i32.to_be_bytes());
        assert_eq!(
            inbox.next(100),
            Err(FrameError::TooLarge {
                bytes: 101,
                bytes_max: 100
            })
        );
        inbox.buffer().clear();
        inbox.buffer().extend_from_slice(&100_i32.to_be_bytes());
        assert_eq!(inbox.next(100), Ok(None));
    }

    #[test]
    fn a_claimed_length_reserves_nothing_until_bytes_arrive() {
        let mut inbox = Inbox::default();
        inbox
            .buffer()
            .extend_from_slice(&(8_i32 << 20).to_be_bytes());
        assert_eq!(inbox.recv_bytes(8 << 20), RECV_BYTES);
        inbox.buffer().extend_from_slice(&[0; RESERVE_FROM_BYTES]);
        assert_eq!(inbox.recv_bytes(8 << 20), (8 << 20) - RESERVE_FROM_BYTES);
    }
    #[test]
    fn a_large_frame_leaves_no_buffer_behind_and_small_ones_share_theirs() {
        let mut inbox = Inbox::default();
        inbox
            .buffer()
            .extend_from_slice(&framed(&[vec![0; RECV_BYTES + 1]]));
        assert!(inbox.next(1 << 20).unwrap().is_some());
        assert_eq!(inbox.buffer().capacity(), 0);

        inbox.buffer().reserve(RECV_BYTES);
        inbox.buffer().extend_from_slice(&framed(&[vec![0; 10]]));
        assert!(inbox.next(1 << 20).unwrap().is_some());
        assert!(inbox.buffer().capacity() > 0);
    }
}
