//! A core's epoll set and the loop that turns its events into wake-ups.

use crate::metrics::NetMetrics;
use crate::readiness;
use crate::registration::Readiness;
use crate::sys::{Epoll, Event, Events};
use crate::vigil::{Next, Vigil};
use felix_core::Clock;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Events taken from the set in one round: enough that a busy core asks seldom, few enough that
/// the tasks woken by one round run before the next.
const EVENTS_PER_ROUND_MAX: usize = 256;

/// How long the core waits where it cannot wait on the set, because no descriptor is left for it.
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// The sockets of one CPU core. Cheap to clone; every clone is the same reactor, on the same core.
///
/// Its life: make it, [`run`](Self::run) it as one task, in the same task queue as the tasks that
/// use its sockets; at the end [`stop`](Self::stop) it and await that task and all others. An
/// executor that exits with tasks pending leaks what they hold, so nothing here waits for ever:
/// once the reactor has stopped, all that still waits on a socket gets an error.
#[derive(Clone)]
pub struct Reactor {
    shared: Rc<Shared>,
}

struct Shared {
    /// `None` once stopped.
    epoll: RefCell<Option<Epoll>>,
    members: RefCell<Members>,
    metrics: Rc<NetMetrics>,
    running: Cell<bool>,
    stopping: Cell<bool>,
    /// Tasks that have used up their turn.
    turns_over: RefCell<Vec<Waker>>,
    /// The loop's, while it sleeps.
    parked: RefCell<Option<Waker>>,
    /// How a watchful core waits for work; `None`: it sleeps at once.
    vigil: Option<Vigil>,
    /// Something else than a socket has brought work since the loop last looked.
    stirred: Cell<bool>,
    /// Whether the last wait failed, so that a failure is logged when it begins only.
    failing: Cell<bool>,
}

impl Reactor {
    /// An empty set.
    ///
    /// # Errors
    /// The kernel has no descriptor or memory for it.
    pub fn new() -> io::Result<Self> {
        Self::with_vigil(None)
    }

    /// An empty set on a core that, without work, looks for more so long before it sleeps. It
    /// takes its processor for itself meanwhile. Zero is [`new`](Self::new).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn watchful(length: Duration, clock: Rc<dyn Clock>) -> io::Result<Self> {
        Self::with_vigil((!length.is_zero()).then(|| Vigil::new(length, clock)))
    }

    fn with_vigil(vigil: Option<Vigil>) -> io::Result<Self> {
        let shared = Shared {
            epoll: RefCell::new(Some(Epoll::new()?)),
            members: RefCell::default(),
            metrics: Rc::default(),
            running: Cell::new(false),
            stopping: Cell::new(false),
            turns_over: RefCell::default(),
            parked: RefCell::new(None),
            vigil,
            stirred: Cell::new(false),
            failing: Cell::new(false),
        };
        Ok(Self {
            shared: Rc::new(shared),
        })
    }

    /// What the sockets of this core have done.
    #[must_use]
    pub fn metrics(&self) -> Rc<NetMetrics> {
        Rc::clone(&self.shared.metrics)
    }

    /// The core's loop: takes the set's events without waiting, wakes the tasks concerned, and
    /// waits for the next event in the executor, which first runs those tasks. Resolves after
    /// [`stop`](Self::stop). Dropping the future stops the reactor as well.
    ///
    /// It never wakes itself, because the executor looks at its own events only when no task can
    /// run. A watchful core goes on asking the set without waiting, and between some questions
    /// lets the executor have a turn, in which it sees lanes, timers and completed flushes. To
    /// look at sockets in any other way than by asking the kernel directly would gain nothing.
    ///
    /// Panics if the reactor runs already.
    pub fn run(&self) -> impl Future<Output = ()> + use<> {
        let guard = Running::new(&self.shared);
        async move {
            let shared = &guard.0;
            let mut events = Events::with_room(EVENTS_PER_ROUND_MAX);
            while !shared.stopping.get() {
                let found = shared.poll(&mut events);
                shared.dispatch(&events);
                if !shared.turns_over.borrow().is_empty() {
                    readiness::turn().await;
                    shared.begin_turns();
                    continue;
                }
                match shared.next(found > 0) {
                    Next::Ask => {}
                    Next::Turn => readiness::turn().await,
                    Next::Sleep => shared.park().await,
                }
            }
        }
    }

    /// Ends [`run`](Self::run) and takes every socket out of the set.
    pub fn stop(&self) {
        self.shared.stopping.set(true);
        if self.shared.running.get() {
            self.shared.unpark();
        } else {
            self.shared.close();
        }
    }

    /// Says that something else than a socket has brought work, so that a watchful core begins
    /// its vigil anew: more of the same may follow.
    pub fn stir(&self) {
        if self.shared.vigil.is_some() && !self.shared.stirred.replace(true) {
            self.shared.unpark();
        }
    }

    /// Wakes a task once every other has had its chance.
    pub(crate) fn wake_next_turn(&self, waker: &Waker) {
        self.shared.turns_over.borrow_mut().push(waker.clone());
        self.shared.unpark();
    }

    pub(crate) fn register(
        &self,
        member: BorrowedFd<'_>,
        readiness: Rc<Readiness>,
    ) -> io::Result<Token> {
        let epoll = self.shared.epoll.borrow();
        let epoll = epoll
            .as_ref()
            .ok_or_else(|| io::Error::other("the reactor has stopped"))?;
        let mut members = self.shared.members.borrow_mut();
        let token = members.insert(readiness);
        if let Err(error) = epoll.add(member, token.0) {
            members.remove(token);
            return Err(error);
        }
        Ok(token)
    }

    pub(crate) fn deregister(&self, member: BorrowedFd<'_>, token: Token) {
        self.shared.members.borrow_mut().remove(token);
        if let Some(epoll) = self.shared.epoll.borrow().as_ref() {
            epoll
                .delete(member)
                .expect("a registered socket is open and in the set");
        }
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor")
            .field("members", &self.shared.members.borrow().count())
            .field("stopped", &self.shared.epoll.borrow().is_none())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Asks the set, without waiting; how many events there are.
    fn poll(&self, events: &mut Events) -> usize {
        self.metrics.polls.increment();
        let epoll = self.epoll.borrow();
        let epoll = epoll
            .as_ref()
            .expect("the set is closed only after the loop has ended");
        match epoll.poll(events) {
            Ok(count) => count,
            // A signal came first. The next wait ends at once if there is something.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => panic!("the set and the room for its events are valid: {error}"),
        }
    }

    /// What the loop does now. Where there was work, the tasks it woke have their turn first.
    fn next(&self, found: bool) -> Next {
        let Some(vigil) = &self.vigil else {
            return Next::Sleep;
        };
        if self.stirred.take() || found {
            vigil.begin();
            return Next::Turn;
        }
        vigil.next()
    }

    fn dispatch(&self, events: &Events) {
        for Event {
            token,
            readable,
            writable,
            hung_up,
        } in events.iter()
        {
            // A member may have left since, and its place may have been given to another; the
            // token tells them apart.
            let member = self.members.borrow().find(Token(token));
            if let Some(readiness) = member {
                readiness.edge(readable, writable, hung_up);
            }
        }
    }

    fn begin_turns(&self) {
        for waker in self.turns_over.take() {
            waker.wake();
        }
    }

    /// Sleeps until the set has an event, a task's turn is over, or the reactor is to stop.
    async fn park(&self) {
        self.metrics.parks.increment();
        let wait = {
            let epoll = self.epoll.borrow();
            let epoll = epoll
                .as_ref()
                .expect("the set is closed only after the loop has ended");
            readiness::readable(epoll.as_fd())
        };
        let result = match wait {
            Ok(wait) => self.unless_unparked(wait).await,
            Err(error) => Err(error),
        };
        let failed = result.is_err();
        if let Err(error) = result {
            if !self.failing.get() {
                tracing::warn!(%error, "cannot wait on sockets; asking every millisecond instead");
            }
            readiness::pause(RETRY_AFTER).await;
        }
        self.failing.set(failed);
    }

    async fn unless_unparked(&self, wait: impl Future<Output = io::Result<()>>) -> io::Result<()> {
        let mut wait = pin!(wait);
        poll_fn(|cx| {
            let work = self.stirred.get() || !self.turns_over.borrow().is_empty();
            if self.stopping.get() || work {
                return Poll::Ready(Ok(()));
            }
            self.parked.replace(Some(cx.waker().clone()));
            wait.as_mut().poll(cx)
        })
        .await
    }

    fn unpark(&self) {
        let waker = self.parked.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn close(&self) {
        self.stopping.set(true);
        // Closing the set takes every member out of it at once.
        self.epoll.replace(None);
        let members = self.members.take();
        for readiness in members.into_iter() {
            readiness.stop();
        }
        self.begin_turns();
    }
}

/// Held by the loop, so that however the loop ends, nobody waits for it any more.
struct Running(Rc<Shared>);

impl Running {
    fn new(shared: &Rc<Shared>) -> Self {
        assert!(!shared.running.replace(true), "a reactor has one loop");
        Self(Rc::clone(shared))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Names a member for as long as it is one: its place, and how often that place was taken before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token(u64);

impl Token {
    fn new(place: u32, tenancy: u32) -> Self {
        Self(u64::from(tenancy) << 32 | u64::from(place))
    }

    fn parts(self) -> (usize, u32) {
        let place = u32::try_from(self.0 & u64::from(u32::MAX)).expect("masked to 32 bits");
        let tenancy = u32::try_from(self.0 >> 32).expect("shifted to 32 bits");
        (
            usize::try_from(place).expect("a place was an index"),
            tenancy,
        )
    }
}

/// Who is in the set.
#[derive(Default)]
struct Members {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Place {
    tenancy: u32,
    member: Option<Rc<Readiness>>,
}

impl Members {
    fn insert(&mut self, readiness: Rc<Readiness>) -> Token {
        let place = self.free.pop().unwrap_or_else(|| {
            let place = u32::try_from(self.places.len()).expect("fewer than 2^32 descriptors");
            self.places.push(Place::default());
            place
        });
        let index = usize::try_from(place).expect("a place was an index");
        let taken = self.places.get_mut(index).expect("a free place exists");
        taken.member = Some(readiness);
        Token::new(place, taken.tenancy)
    }

    /// Empties the member's place. Does nothing after the reactor has stopped.
    fn remove(&mut self, token: Token) {
        let (index, tenancy) = token.parts();
        if let Some(place) = self.places.get_mut(index) {
            assert_eq!(place.tenancy, tenancy, "a member leaves once");
            place.member = None;
            place.tenancy = tenancy.wrapping_add(1);
            self.free
                .push(u32::try_from(index).expect("a place has a 32-bit number"));
        }
    }

    fn find(&self, token: Token) -> Option<Rc<Readiness>> {
        let (index, tenancy) = token.parts();
        self.places
            .get(index)
            .filter(|place| place.tenancy == tenancy)
            .and_then(|place| place.member.clone())
    }

    fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn into_iter(self) -> impl Iterator<Item = Rc<Readiness>> {
        self.places.into_iter().filter_map(|place| place.member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_for_a_member_that_left_never_reaches_its_successor() {
        let mut members = Members::default();
        let first = members.insert(Rc::default());
        members.remove(first);
        let successor: Rc<Readiness> = Rc::default();
        let second = members.insert(Rc::clone(&successor));
        assert_eq!(first.parts().0, second.parts().0, "the place is used again");
        assert!(members.find(first).is_none());
        assert!(Rc::ptr_eq(&members.find(second).unwrap(), &successor));
        assert_eq!(members.count(), 1);
    }

    #[test]
    fn a_reactor_that_never_ran_can_be_stopped() {
        let reactor = Reactor::new().unwrap();
        reactor.stop();
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(reactor.register(ours.as_fd(), Rc::default()).is_err());
    }
}
