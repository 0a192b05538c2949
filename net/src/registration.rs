//! One socket's membership in its core's epoll set, and what is known of its readiness.

use crate::reactor::{Reactor, Token};
use socket2::Socket;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What one direction of one socket may do before its task must let others run. A peer that is
/// always ready would otherwise hold the core for as long as it likes. Copying this much through
/// loopback takes some tens of microseconds, and into memory that is touched for the first time, as
/// that of a large request, a hundred more.
const TURN_BYTES: usize = 256 << 10;

/// The least an operation is charged, so that many small ones use up a turn as well.
pub(crate) const OPERATION_BYTES_MIN: usize = 16 << 10;

/// A way that bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// From the peer: also new connections of a listener.
    Read,
    /// To the peer: also the end of a connect.
    Write,
}

/// A socket in the epoll set. Lives on the core of its reactor; dropping it leaves the set, then
/// closes the socket.
#[derive(Debug)]
pub(crate) struct Registration {
    socket: Socket,
    readiness: Rc<Readiness>,
    token: Token,
    reactor: Reactor,
}

impl Registration {
    /// Adds a non-blocking socket to the set.
    pub(crate) fn new(socket: Socket, reactor: &Reactor) -> io::Result<Self> {
        let readiness = Rc::new(Readiness::default());
        let token = reactor.register(socket.as_fd(), Rc::clone(&readiness))?;
        Ok(Self {
            socket,
            readiness,
            token,
            reactor: reactor.clone(),
        })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// Runs `operate` as soon as the direction may be ready, again whenever it finds that it is
    /// not. Each direction keeps the last waker only.
    pub(crate) fn poll_io<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        mut operate: impl FnMut(&Socket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        if self.readiness.stopped.get() {
            return Poll::Ready(Err(stopped()));
        }
        let side = self.readiness.side(direction);
        if side.turn_is_over() {
            self.reactor.wake_next_turn(cx.waker());
            return Poll::Pending;
        }
        loop {
            if !side.ready.get() {
                side.wait(cx.waker());
                return Poll::Pending;
            }
            match operate(&self.socket) {
                // Edge-triggered: only a call that finds nothing, made after the last edge, may
                // say so. An edge that comes now is still in the set and will be dispatched.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => side.ready.set(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Charges `bytes` to the direction's turn.
    pub(crate) fn charge(&self, direction: Direction, bytes: usize) {
        let left = &self.readiness.side(direction).turn_bytes_left;
        left.set(left.get().saturating_sub(bytes.max(OPERATION_BYTES_MIN)));
    }

    /// Says that a receive returned less than it asked for, so nothing is left and the next call
    /// may wait for an edge first. After a hang-up no edge would come: then this changes nothing.
    /// (A read also stops short at urgent data, which no protocol of ours has; a peer that sends
    /// some delays only itself.)
    pub(crate) fn drained(&self) {
        if !self.readiness.hung_up.get() {
            self.readiness.read.ready.set(false);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.reactor.deregister(self.socket.as_fd(), self.token);
    }
}

/// Both directions of one socket, as told by the reactor.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    read: Side,
    write: Side,
    hung_up: Cell<bool>,
    stopped: Cell<bool>,
}

impl Readiness {
    /// Takes note of an edge and wakes who waits for it.
    pub(crate) fn edge(&self, readable: bool, writable: bool, hung_up: bool) {
        if hung_up {
            self.hung_up.set(true);
        }
        if readable {
            self.read.wake();
        }
        if writable {
            self.write.wake();
        }
    }

    /// No edge will ever come again: whoever waits or asks gets an error.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.read.wake();
        self.write.wake();
    }

    fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }
}

/// One direction.
#[derive(Debug)]
struct Side {
    /// Whether trying makes sense. It starts as "no", because joining the set gives an edge if
    /// there is something; so an idle connection costs neither a call nor a buffer.
    ready: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    turn_bytes_left: Cell<usize>,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            ready: Cell::new(false),
            waker: RefCell::new(None),
            turn_bytes_left: Cell::new(TURN_BYTES),
        }
    }
}

impl Side {
    /// Whether the turn is used up; if so, the next one begins.
    fn turn_is_over(&self) -> bool {
        let over = self.turn_bytes_left.get() == 0;
        if over {
            self.turn_bytes_left.set(TURN_BYTES);
        }
        over
    }

    fn wait(&self, waker: &Waker) {
        self.turn_bytes_left.set(TURN_BYTES);
        let mut kept = self.waker.borrow_mut();
        match kept.as_mut() {
            Some(kept) => kept.clone_from(waker),
            None => *kept = Some(waker.clone()),
        }
    }

    fn wake(&self) {
        self.ready.set(true);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the core's reactor has stopped")
}
