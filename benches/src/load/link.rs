//! A connection that sends what it can and takes what is there, frame by frame.

use crate::client::{Stream, answer};
use crate::problem::Problem;
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Room for what arrives; grows to the largest frame.
const ROOM_BYTES: usize = 256 << 10;
/// While so much waits to be sent, no more is made.
const UNSENT_BYTES_MAX: usize = 4 << 20;

/// A request that has no answer yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// When it should have been sent, from the start of the load.
    pub(crate) due: Duration,
    /// Records in it.
    pub(crate) records: u64,
    /// Bytes of its batch.
    pub(crate) bytes: u64,
    /// Which of the topic's partitions, by place.
    pub(crate) partition: usize,
    /// The number that its answer carries.
    pub(crate) correlation: i32,
}

/// A connection on which answers come in the order of the requests.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    unsent: Vec<u8>,
    sent: usize,
    taken: Vec<u8>,
    taken_from: usize,
    taken_to: usize,
    /// Requests without an answer, the oldest first.
    pub(crate) asked: VecDeque<Asked>,
    correlation: i32,
    /// Whether the set of sockets wakes for room to send.
    pub(crate) waits_for_room: bool,
}

impl Link {
    /// Over an open connection.
    #[must_use]
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            unsent: Vec::with_capacity(ROOM_BYTES),
            sent: 0,
            taken: vec![0; ROOM_BYTES],
            taken_from: 0,
            taken_to: 0,
            asked: VecDeque::new(),
            correlation: 0,
            waits_for_room: false,
        }
    }

    /// Puts a request behind what is not sent yet.
    /// The number that its answer will carry.
    pub(crate) fn queue(&mut self, encode: impl FnOnce(&mut Vec<u8>, i32)) -> i32 {
        self.correlation = self.correlation.wrapping_add(1) & i32::MAX;
        encode(&mut self.unsent, self.correlation);
        self.correlation
    }

    /// Whether more may be put behind.
    pub(crate) fn has_room(&self) -> bool {
        self.unsent.len() - self.sent < UNSENT_BYTES_MAX
    }

    /// Whether something is left to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len() || self.stream.wants_write()
    }

    /// Sends what the connection takes now.
    pub(crate) fn push(&mut self) -> Result<(), Problem> {
        while self.sent < self.unsent.len() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(0) => return Err(hung_up()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(broke(&error)),
            }
        }
        self.unsent.clear();
        self.sent = 0;
        match self.stream.flush_pending() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(broke(&error)),
            _ => Ok(()),
        }
    }

    /// Takes what is there. False: nothing was, or not a whole frame yet may be left.
    pub(crate) fn pull(&mut self) -> Result<bool, Problem> {
        if self.taken_from == self.taken_to {
            (self.taken_from, self.taken_to) = (0, 0);
        } else if self.taken_to == self.taken.len() {
            self.make_room()?;
        }
        match self.stream.read(&mut self.taken[self.taken_to..]) {
            Ok(0) => Err(hung_up()),
            Ok(bytes) => {
                self.taken_to += bytes;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(broke(&error)),
        }
    }

    /// Whether the last read filled all the room, so that more may be there.
    pub(crate) fn is_full(&self) -> bool {
        self.taken_to == self.taken.len()
    }

    /// Moves the beginning of a frame to the front, and grows to hold all of it.
    fn make_room(&mut self) -> Result<(), Problem> {
        self.taken.copy_within(self.taken_from..self.taken_to, 0);
        self.taken_to -= self.taken_from;
        self.taken_from = 0;
        let wanted = self.frame_bytes()?.unwrap_or(ROOM_BYTES);
        if wanted > self.taken.len() {
            self.taken.resize(wanted.next_power_of_two(), 0);
        }
        Ok(())
    }

    /// The length of the next frame with the four bytes in front, once those are there.
    fn frame_bytes(&self) -> Result<Option<usize>, Problem> {
        answer::size(&self.taken[self.taken_from..self.taken_to])
    }

    /// The next whole frame, without the length in front.
    pub(crate) fn frame(&mut self) -> Result<Option<&[u8]>, Problem> {
        let Some(bytes) = self.frame_bytes()? else {
            return Ok(None);
        };
        if self.taken_to - self.taken_from < bytes {
            return Ok(None);
        }
        let start = self.taken_from + 4;
        self.taken_from += bytes;
        Ok(Some(&self.taken[start..self.taken_from]))
    }

    /// Forgets what is there: how many bytes that was.
    pub(crate) fn drain(&mut self) -> usize {
        let bytes = self.taken_to - self.taken_from;
        self.taken_from = self.taken_to;
        bytes
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn hung_up() -> Problem {
    Problem::new("the server closed the connection; its log says why")
}

fn broke(error: &io::Error) -> Problem {
    Problem::new(format!("a connection broke: {error}"))
}
