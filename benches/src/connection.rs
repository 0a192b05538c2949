//! A client's connection, which waits as it is told to.

use crate::produce;
use std::hint;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// What whoever has nothing to do does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// Sleeps in the kernel until there is something.
    Parked,
    /// Asks again and again.
    Spinning,
}

impl Waiting {
    /// The word in tables.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Spinning => "spinning",
        }
    }

    /// How long the broker and the floor ask again before they sleep, so that one of them leaves
    /// the processor to the other soon after its turn.
    pub(crate) const fn spin_us(self) -> u64 {
        match self {
            Self::Parked => 0,
            Self::Spinning => 1_000,
        }
    }
}

/// A connection over loopback.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    waiting: Waiting,
}

impl Connection {
    /// Panics if nobody listens.
    pub(crate) fn open(port: u16, waiting: Waiting) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
        stream.set_nodelay(true).expect("it is a socket");
        stream
            .set_nonblocking(waiting == Waiting::Spinning)
            .expect("it is a socket");
        Self { stream, waiting }
    }

    /// Sends all of it. Panics if the server hangs up.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let sent = (&self.stream).write(bytes);
            let sent = self.unless_not_yet(sent);
            bytes = &bytes[sent..];
        }
    }

    /// Fills the buffer. Panics if the server hangs up.
    pub(crate) fn receive(&mut self, mut room: &mut [u8]) {
        while !room.is_empty() {
            let received = (&self.stream).read(room);
            let received = self.unless_not_yet(received);
            room = &mut room[received..];
        }
    }

    /// Receives one answer of the broker, whatever its size, with its length in front.
    pub(crate) fn receive_answer(&mut self) -> Vec<u8> {
        let mut answer = vec![0; 4];
        self.receive(&mut answer);
        let length = answer[..].try_into().expect("four bytes");
        answer.resize(4 + u32::from_be_bytes(length) as usize, 0);
        self.receive(&mut answer[4..]);
        answer
    }

    /// One append, outside of any measurement: the answer.
    pub(crate) fn append(&mut self, request: &[u8]) -> Vec<u8> {
        self.send(request);
        let answer = self.receive_answer();
        produce::base_offset(&answer);
        answer
    }

    fn unless_not_yet(&self, moved: io::Result<usize>) -> usize {
        match moved {
            Ok(0) => panic!("the server hung up"),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert_eq!(self.waiting, Waiting::Spinning);
                hint::spin_loop();
                0
            }
            Err(error) => panic!("the connection broke: {error}"),
        }
    }
}
