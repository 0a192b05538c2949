//! Answers of one connection that are still to be sent.

use super::frames::{self, Correlation};
use std::collections::VecDeque;

/// What one call is given at most, if one answer is not longer by itself.
const SEND_BYTES: usize = 256 << 10;

/// Answers owed, in the order of their requests, all of them copies of one template.
#[derive(Debug, Default)]
pub(super) struct Answers {
    owed: VecDeque<Correlation>,
    /// Bytes made and not all sent.
    made: Vec<u8>,
    sent_bytes: usize,
    /// What was asked to be sent is the template itself.
    is_template: bool,
}

impl Answers {
    /// One more, behind the others.
    pub(super) fn owe(&mut self, to: Correlation) {
        self.owed.push_back(to);
    }

    /// The bytes that are to be sent next: as many answers as go into one call. Nothing if none
    /// is owed. A single answer is not copied.
    pub(super) fn next<'a>(&'a mut self, template: &'a mut [u8]) -> &'a [u8] {
        if self.sent_bytes < self.made.len() {
            return &self.made[self.sent_bytes..];
        }
        self.made.clear();
        self.sent_bytes = 0;
        self.is_template = false;
        if let ([to], []) = self.owed.as_slices() {
            frames::address(template, *to);
            self.is_template = true;
            return template;
        }
        while self.made.is_empty() || self.made.len() + template.len() <= SEND_BYTES {
            let Some(to) = self.owed.pop_front() else {
                break;
            };
            frames::address(template, to);
            self.made.extend_from_slice(template);
        }
        &self.made
    }

    /// So many of the [`next`](Self::next) bytes have been sent.
    pub(super) fn sent(&mut self, bytes: usize, template: &[u8]) {
        if self.is_template {
            self.is_template = false;
            self.owed.clear();
            self.made.extend_from_slice(&template[bytes..]);
        } else {
            self.sent_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent if each call takes so many bytes, and the calls that it takes.
    fn sent(owed: &[u8], answer_bytes: usize, taken_bytes: usize) -> (Vec<u8>, usize) {
        let mut template = frames::answer(answer_bytes);
        let mut answers = Answers::default();
        owed.iter().for_each(|to| answers.owe([*to; 4]));
        let (mut sent, mut calls) = (Vec::new(), 0);
        loop {
            let next = answers.next(&mut template);
            if next.is_empty() {
                return (sent, calls);
            }
            let taken = taken_bytes.min(next.len());
            sent.extend_from_slice(&next[..taken]);
            answers.sent(taken, &template);
            calls += 1;
        }
    }

    fn expected(owed: &[u8], answer_bytes: usize) -> Vec<u8> {
        let mut answer = frames::answer(answer_bytes);
        let answers = owed.iter().map(|to| {
            frames::address(&mut answer, [*to; 4]);
            answer.clone()
        });
        answers.collect::<Vec<_>>().concat()
    }

    #[test]
    fn answers_go_out_whole_and_in_order_however_little_a_call_takes() {
        for owed in [&[][..], &[1], &[1, 2], &[1, 2, 3, 4, 5]] {
            for taken_bytes in [1, 7, 8, 30, usize::MAX] {
                let (sent, _) = sent(owed, 13, taken_bytes);
                assert_eq!(sent, expected(owed, 13));
            }
        }
    }

    #[test]
    fn small_answers_share_a_call_and_large_ones_do_not_pile_up() {
        assert_eq!(sent(&[1, 2, 3], 64, usize::MAX).1, 1);
        let large = SEND_BYTES / 2 + 1;
        let (sent, calls) = sent(&[1, 2, 3], large, usize::MAX);
        assert_eq!((sent, calls), (expected(&[1, 2, 3], large), 3));
    }
}
