//! Length-prefixed frames out of a stream of bytes.

use bytes::{Buf, BytesMut};
use std::fmt;

/// Bytes asked of the connection while no frame is under way: what every connection may hold, be
/// the core's memory as short as it may.
const RECV_BYTES: usize = 16 << 10;

/// Received bytes of a large frame from which on its whole length is paid for and reserved at once.
/// A peer that only claims one costs no more than what every connection may hold.
const RESERVE_FROM_BYTES: usize = RECV_BYTES;

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
    /// Where the length should be, another protocol begins.
    Other(OtherProtocol),
}

/// What clients speak that come by mistake. Whoever reads the log should not have to decode the
/// length that its beginning would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OtherProtocol {
    /// TLS 1.0 to 1.3.
    Tls,
    /// HTTP/1.
    Http,
}

impl OtherProtocol {
    /// The one that begins with these bytes, each of which is far too large a length.
    fn of(prefix: [u8; PREFIX_BYTES]) -> Option<Self> {
        match &prefix {
            // A handshake record (RFC 8446, section 5.1).
            [0x16, 0x03, ..] => Some(Self::Tls),
            b"GET " | b"PUT " | b"POST" | b"HEAD" | b"OPTI" | b"DELE" | b"CONN" => Some(Self::Http),
            _ => None,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative(length) => write!(f, "the request's length is {length}"),
            Self::TooLarge { bytes, bytes_max } => write!(
                f,
                "the request has {bytes} bytes; at most {bytes_max} are allowed"
            ),
            Self::Other(OtherProtocol::Tls) => f.write_str(
                "the client speaks TLS to a listener without it: these bytes begin a TLS \
                 handshake, not Kafka; set FELIX_KAFKA_TLS=true here, or security.protocol to \
                 PLAINTEXT or SASL_PLAINTEXT in the client",
            ),
            Self::Other(OtherProtocol::Http) => f.write_str(
                "the client speaks HTTP to a listener for Kafka: these bytes begin an HTTP \
                 request, not Kafka; /metrics and /ready are at FELIX_BROKER_METRICS_BIND",
            ),
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
            let error = match OtherProtocol::of(*prefix) {
                Some(other) => FrameError::Other(other),
                None => FrameError::TooLarge { bytes, bytes_max },
            };
            return Err(error);
        }
        Ok(Some(bytes))
    }

    /// The length of the frame under way where it is more than a connection may hold unasked, and
    /// as much as that has arrived.
    pub(crate) fn large_frame(&self, bytes_max: usize) -> Option<usize> {
        let bytes = self.frame_bytes(bytes_max).ok().flatten()?;
        (bytes > RECV_BYTES && self.bytes.len() >= RESERVE_FROM_BYTES).then_some(bytes)
    }

    /// Makes room for the rest of a large frame that is paid for, all at once, so that its buffer
    /// holds it and little else.
    pub(crate) fn reserve(&mut self, frame_bytes: usize) {
        let missing = (PREFIX_BYTES + frame_bytes).saturating_sub(self.bytes.len());
        self.bytes.reserve(missing);
    }

    /// Undoes [`reserve`](Self::reserve), if no more has arrived since than every connection may
    /// hold; whether it could.
    pub(crate) fn take_back(&mut self) -> bool {
        let is_little = self.bytes.len() <= RECV_BYTES;
        if is_little {
            self.bytes = BytesMut::from(&*self.bytes);
        }
        is_little
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
        // No frame shares memory with another, or a small batch kept would keep its neighbours. A
        // large one takes its buffer along, so that an idle connection does not hold on to it, and
        // the little behind it moves; a small one is copied, and its buffer is used again.
        if bytes > RECV_BYTES {
            let (_, behind) = self.bytes.split_at(bytes);
            let behind = BytesMut::from(behind);
            let mut frame = std::mem::replace(&mut self.bytes, behind);
            frame.truncate(bytes);
            return Ok(Some(frame));
        }
        let (frame, _) = self.bytes.split_at(bytes);
        let frame = BytesMut::from(frame);
        self.bytes.advance(bytes);
        Ok(Some(frame))
    }

    /// How many bytes to ask of the connection: little while idle, and of a large frame what shows
    /// that it is on its way, then the rest and nothing beyond it, for which its buffer would grow.
    pub(crate) fn recv_bytes(&self, bytes_max: usize) -> usize {
        let received = self.bytes.len();
        match self.frame_bytes(bytes_max) {
            Ok(Some(bytes)) if bytes > RECV_BYTES => {
                if received < RESERVE_FROM_BYTES {
                    RESERVE_FROM_BYTES - received
                } else {
                    (PREFIX_BYTES + bytes).saturating_sub(received)
                }
            }
            Ok(_) | Err(_) => RECV_BYTES,
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

    #[test]
    fn room_is_taken_back_whole_unless_much_has_arrived() {
        let large = framed(&[vec![7; 1 << 20]]);
        for (received, is_little) in [(RECV_BYTES, true), (RECV_BYTES + 1, false)] {
            let mut inbox = Inbox::default();
            let (begin, rest) = large.split_at(received);
            inbox.buffer().extend_from_slice(begin);
            inbox.reserve(1 << 20);
            assert_eq!(inbox.take_back(), is_little);
            assert_eq!(inbox.bytes.capacity() <= RECV_BYTES, is_little);
            inbox.buffer().extend_from_slice(rest);
            let frame = inbox.next(1 << 20).unwrap().unwrap();
            assert!(large.ends_with(&frame) && frame.len() == 1 << 20);
        }
    }

    #[test]
    fn a_client_of_another_protocol_is_recognised_by_its_first_bytes() {
        for (bytes, protocol) in [
            (&b"GET / HTTP/1.1"[..], OtherProtocol::Http),
            (b"POST", OtherProtocol::Http),
            (&[0x16, 0x03, 0x01, 0x02, 0x00], OtherProtocol::Tls),
        ] {
            let mut inbox = Inbox::default();
            inbox.buffer().extend_from_slice(bytes);
            assert_eq!(inbox.next(1 << 20), Err(FrameError::Other(protocol)));
        }
        // What may be a length is one.
        let mut inbox = Inbox::default();
        inbox.buffer().extend_from_slice(&[0, 0x16, 0x03, 0x01]);
        assert_eq!(inbox.next(8 << 20), Ok(None));
        inbox.buffer().clear();
        inbox.buffer().extend_from_slice(&[0x17, 0x16, 0x03, 0x01]);
        let error = inbox.next(8 << 20).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { .. }), "{error}");
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
        let missing = RESERVE_FROM_BYTES - PREFIX_BYTES;
        assert_eq!(inbox.recv_bytes(8 << 20), missing);
        inbox.buffer().resize(RESERVE_FROM_BYTES - 1, 0);
        assert_eq!(inbox.recv_bytes(8 << 20), 1);
        assert_eq!(inbox.large_frame(8 << 20), None);
        inbox.buffer().resize(RESERVE_FROM_BYTES, 0);
        assert_eq!(inbox.large_frame(8 << 20), Some(8 << 20));
        assert_eq!(inbox.recv_bytes(8 << 20), (8 << 20) - missing);
        inbox.reserve(8 << 20);
        assert!(inbox.buffer().capacity() <= (8 << 20) + RECV_BYTES);
    }

    #[test]
    fn no_frame_shares_its_memory_with_another_or_with_what_follows() {
        let frames = [vec![1; 10], vec![2; 1 << 20], vec![3; 20], vec![4; 30]];
        let mut inbox = Inbox::default();
        inbox.buffer().extend_from_slice(&framed(&frames));
        for frame in frames {
            let got = inbox.next(1 << 20).unwrap().unwrap();
            assert_eq!(got, frame);
            let memory = got.capacity();
            assert!(memory <= 2 * frame.len().max(RECV_BYTES), "{memory} bytes");
            assert!(got.freeze().is_unique());
        }
    }

    #[test]
    fn a_large_frame_leaves_no_buffer_behind_and_a_small_one_does() {
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
