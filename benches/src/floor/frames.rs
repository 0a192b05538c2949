//! Requests and answers as Kafka frames them: a length, and so many bytes.

use std::ops::RangeInclusive;

/// The longest request or answer. Nothing here holds one whole without need, so this is only to
/// notice who does not speak so.
pub(super) const FRAME_BYTES_MAX: usize = 128 << 20;

/// The length and the request's number.
pub(super) const ANSWER_BYTES_MIN: usize = 8;

/// Length (4), API key (2), version (2), number of the request (4).
const HEAD_BYTES: usize = 12;
const LENGTH_BYTES: usize = 4;

/// What the length in front of a request may say.
const LENGTHS: RangeInclusive<usize> = HEAD_BYTES - LENGTH_BYTES..=FRAME_BYTES_MAX - LENGTH_BYTES;

/// The number of a request, which its answer carries.
pub(super) type Correlation = [u8; 4];

/// A length that no request has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadLength;

/// Finds where requests end in what a connection receives.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEAD_BYTES],
    /// Bytes of the current request that are here, up to its head.
    head_bytes: usize,
    /// Bytes of the current request that are still to come, once its head is here.
    missing_bytes: usize,
}

impl Frames {
    /// How many of the bytes belong to the current request, and its number if they complete it.
    /// All of them, if they do not.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Correlation>), BadLength> {
        let wanted = HEAD_BYTES - self.head_bytes;
        let (head, rest) = bytes.split_at(wanted.min(bytes.len()));
        self.head[self.head_bytes..self.head_bytes + head.len()].copy_from_slice(head);
        self.head_bytes += head.len();
        if wanted > 0 {
            self.check_length()?;
        }
        if self.head_bytes < HEAD_BYTES {
            return Ok((head.len(), None));
        }
        let body_bytes = self.missing_bytes.min(rest.len());
        self.missing_bytes -= body_bytes;
        let taken = head.len() + body_bytes;
        if self.missing_bytes > 0 {
            return Ok((taken, None));
        }
        let [.., a, b, c, d] = self.head;
        self.head_bytes = 0;
        Ok((taken, Some([a, b, c, d])))
    }

    /// As soon as the length is here, whether or not anything comes after it.
    fn check_length(&mut self) -> Result<(), BadLength> {
        if self.head_bytes < LENGTH_BYTES {
            return Ok(());
        }
        let [a, b, c, d, ..] = self.head;
        let length = usize::try_from(i32::from_be_bytes([a, b, c, d])).map_err(|_| BadLength)?;
        if !LENGTHS.contains(&length) {
            return Err(BadLength);
        }
        self.missing_bytes = length - (HEAD_BYTES - LENGTH_BYTES);
        Ok(())
    }
}

/// An answer of so many bytes, to no request yet.
pub(super) fn answer(bytes: usize) -> Vec<u8> {
    assert!((ANSWER_BYTES_MIN..=FRAME_BYTES_MAX).contains(&bytes));
    let length = u32::try_from(bytes - LENGTH_BYTES).expect("bounded above");
    let mut answer = vec![0; bytes];
    answer[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    answer
}

/// Makes it the answer to that request.
pub(super) fn address(answer: &mut [u8], to: Correlation) {
    answer[LENGTH_BYTES..ANSWER_BYTES_MIN].copy_from_slice(&to);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(correlation: u32, body_bytes: usize) -> Vec<u8> {
        let length = u32::try_from(8 + body_bytes).unwrap();
        let mut request = length.to_be_bytes().to_vec();
        request.extend([0, 0, 0, 9]);
        request.extend(correlation.to_be_bytes());
        request.resize(12 + body_bytes, 0xff);
        request
    }

    /// The numbers found when the bytes come in pieces of that size, with the bytes of each.
    fn found(bytes: &[u8], piece_bytes: usize) -> Result<Vec<(u32, usize)>, BadLength> {
        let mut frames = Frames::default();
        let (mut found, mut request_bytes) = (Vec::new(), 0);
        for mut piece in bytes.chunks(piece_bytes) {
            while !piece.is_empty() {
                let (taken, ended) = frames.take(piece)?;
                assert!(ended.is_some() || taken == piece.len());
                request_bytes += taken;
                if let Some(correlation) = ended {
                    found.push((u32::from_be_bytes(correlation), request_bytes));
                    request_bytes = 0;
                }
                piece = &piece[taken..];
            }
        }
        Ok(found)
    }

    #[test]
    fn requests_are_found_however_their_bytes_arrive() {
        let bytes = [request(7, 0), request(u32::MAX, 100), request(9, 1)].concat();
        for piece_bytes in 1..=bytes.len() {
            let found = found(&bytes, piece_bytes).unwrap();
            assert_eq!(found, [(7, 12), (u32::MAX, 112), (9, 13)]);
        }
    }

    #[test]
    fn a_length_that_no_request_has_is_refused_as_soon_as_it_is_there() {
        let longest = i32::try_from(FRAME_BYTES_MAX - 4).unwrap();
        for length in [0, 7, longest + 1, i32::MAX, i32::MIN, -1] {
            for piece_bytes in 1..=4 {
                assert_eq!(found(&length.to_be_bytes(), piece_bytes), Err(BadLength));
            }
        }
        for length in [8, longest] {
            assert_eq!(found(&length.to_be_bytes(), 1), Ok(vec![]));
        }
    }

    #[test]
    fn an_answer_has_its_length_and_the_number_of_its_request() {
        for bytes in [8, 9, 4096] {
            let mut answer = answer(bytes);
            address(&mut answer, [1, 2, 3, 4]);
            let length = u32::from_be_bytes(answer[..4].try_into().unwrap());
            assert_eq!(usize::try_from(length).unwrap() + 4, bytes);
            assert_eq!((answer.len(), &answer[4..8]), (bytes, &[1, 2, 3, 4][..]));
        }
    }
}
