//! One connection of the echo.

use super::answers::Answers;
use super::frames::{self, Frames};
use super::store::Store;
use super::{FloorSettings, Pause};
use crate::problem::Problem;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Received at a time.
const RECEIVE_BYTES: usize = 256 << 10;

/// What all connections of the server share.
#[derive(Debug)]
pub(super) struct Shared {
    received: Vec<u8>,
    template: Vec<u8>,
    store: Option<Store>,
    is_flushed: bool,
    pause: Option<Pause>,
    /// Requests until the pause; zero if none comes any more.
    until_pause: u64,
}

impl Shared {
    /// As the settings say, with a file to write to where that is asked.
    pub(super) fn new(settings: &FloorSettings, is_written: bool) -> Result<Self, Problem> {
        let dir = settings.dir.as_deref().filter(|_| is_written);
        let store = dir.map(|dir| Store::new(dir, settings.file_bytes));
        Ok(Self {
            received: vec![0; RECEIVE_BYTES],
            template: frames::answer(settings.answer_bytes),
            store: store.transpose()?,
            is_flushed: settings.is_flushed,
            pause: settings.pause,
            until_pause: settings.pause.map_or(0, |pause| pause.after),
        })
    }

    /// A request has arrived.
    fn pause_if_due(&mut self) {
        let Some(pause) = self.pause.filter(|_| self.until_pause > 0) else {
            return;
        };
        self.until_pause -= 1;
        if self.until_pause == 0 {
            thread::sleep(Duration::from_millis(pause.ms));
            self.until_pause = if pause.is_repeated { pause.after } else { 0 };
        }
    }
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// There was nothing to receive.
    None,
    /// Something was received, and all answers are sent.
    Some,
    /// Answers wait until the peer takes more.
    Blocked,
    /// It has ended, or sent what is no request.
    Ended,
}

/// A connection that is never waited on.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    frames: Frames,
    answers: Answers,
    /// The beginning of a request that is to be written and is not complete.
    held: Vec<u8>,
    is_blocked: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            frames: Frames::default(),
            answers: Answers::default(),
            held: Vec::new(),
            is_blocked: false,
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether answers wait until the peer takes more.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Receives once and sends once, if the peer has asked something and takes the answers.
    pub(super) fn serve(&mut self, shared: &mut Shared) -> Progress {
        if self.is_blocked {
            return self.answer(shared);
        }
        let bytes = loop {
            match recv(&self.stream, &mut shared.received[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Progress::Ended,
                Ok((bytes, _)) => break bytes,
                Err(Errno::AGAIN) => return Progress::None,
                Err(Errno::INTR) => {}
                Err(_) => return Progress::Ended,
            }
        };
        if self.take(bytes, shared) {
            self.answer(shared)
        } else {
            Progress::Ended
        }
    }

    /// Whether what was received are requests, and written where they are to be.
    fn take(&mut self, bytes: usize, shared: &mut Shared) -> bool {
        let (mut from, mut is_any_whole) = (0, false);
        while from < bytes {
            let Ok((taken, whole)) = self.frames.take(&shared.received[from..bytes]) else {
                return false;
            };
            if let Some(store) = &mut shared.store {
                let part = &shared.received[from..from + taken];
                if !has_done("write", self.write(part, whole.is_some(), store)) {
                    return false;
                }
            }
            if let Some(correlation) = whole {
                self.answers.owe(correlation);
                shared.pause_if_due();
                is_any_whole = true;
            }
            from += taken;
        }
        match &shared.store {
            Some(store) if is_any_whole && shared.is_flushed => has_done("flush", store.flush()),
            Some(_) | None => true,
        }
    }

    /// Writes a request in one piece, once it is whole.
    fn write(&mut self, part: &[u8], is_whole: bool, store: &mut Store) -> io::Result<()> {
        if is_whole && self.held.is_empty() {
            return store.write(part);
        }
        self.held.extend_from_slice(part);
        if is_whole {
            store.write(&self.held)?;
            self.held.clear();
        }
        Ok(())
    }

    /// Sends what is owed, as far as the peer takes it.
    fn answer(&mut self, shared: &mut Shared) -> Progress {
        loop {
            let next = self.answers.next(&mut shared.template);
            if next.is_empty() {
                self.is_blocked = false;
                return Progress::Some;
            }
            match send(
                &self.stream,
                next,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(bytes) => self.answers.sent(bytes, &shared.template),
                Err(Errno::AGAIN) => {
                    self.is_blocked = true;
                    return Progress::Blocked;
                }
                Err(Errno::INTR) => {}
                Err(_) => return Progress::Ended,
            }
        }
    }
}

/// Whether it went well; says so if not, since the peer sees only that the connection ends.
fn has_done(what: &str, done: io::Result<()>) -> bool {
    let Err(error) = done else { return true };
    drop(writeln!(
        io::stderr(),
        "felix-bench: a {what} failed: {error}"
    ));
    false
}
