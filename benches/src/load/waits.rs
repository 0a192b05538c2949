//! How a client's thread waits for its sockets.

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::time::Duration;

/// What whoever has nothing to do does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Sleeps in the kernel until there is something.
    Parked,
    /// Asks again and again, and never leaves its processor.
    Spinning,
}

impl Waiting {
    /// The word in tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Spinning => "spinning",
        }
    }
}

/// A parked thread wakes so long before something is due and looks at the clock until it is: a
/// timer of the kernel is late by as long as it takes to wake a processor.
pub(crate) const EARLY: Duration = Duration::from_micros(60);

/// So many events are taken at once.
const EVENTS_MAX: usize = 256;
/// So few sockets are asked one by one while spinning, which costs less than asking the set.
const ASKED_DIRECTLY_MAX: usize = 4;

/// The sockets of one thread, each with its number.
pub(crate) struct Waits {
    set: OwnedFd,
    sockets: usize,
    events: Vec<epoll::Event>,
}

impl Waits {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            set: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sockets: 0,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Numbers are given in the order of the calls, from zero.
    pub(crate) fn add(&mut self, socket: impl AsFd) -> io::Result<()> {
        let number = epoll::EventData::new_u64(self.sockets as u64);
        epoll::add(&self.set, socket, number, epoll::EventFlags::IN)?;
        self.sockets += 1;
        Ok(())
    }

    /// Whether the socket also wakes when it takes bytes again.
    pub(crate) fn wake_for_room(
        &self,
        number: usize,
        socket: impl AsFd,
        wake: bool,
    ) -> io::Result<()> {
        let flags = match wake {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        epoll::modify(
            &self.set,
            socket,
            epoll::EventData::new_u64(number as u64),
            flags,
        )?;
        Ok(())
    }

    /// The sockets that may have something, after at most so long.
    pub(crate) fn ready(&mut self, timeout: Duration, ready: &mut Vec<usize>) -> io::Result<()> {
        ready.clear();
        if timeout.is_zero() && self.sockets <= ASKED_DIRECTLY_MAX {
            ready.extend(0..self.sockets);
            return Ok(());
        }
        let timeout = Timespec::try_from(timeout).expect("timeouts are short");
        self.events.clear();
        match epoll::wait(&self.set, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) => {}
            // A signal; whoever waits looks whether it should stop.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let numbers = self.events.iter().map(|event| event.data.u64());
        ready.extend(numbers.map(|number| usize::try_from(number).expect("we gave it")));
        Ok(())
    }
}
