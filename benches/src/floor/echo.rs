//! The bare epoll set: nothing that serves requests one by one over TCP can do less.

use super::connection::{Connection, Progress, Shared};
use super::{FloorKind, FloorSettings, announce, no_socket};
use crate::pin;
use crate::problem::Problem;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Events taken at a time.
const EVENTS_MAX: usize = 256;

/// Times that a single connection is asked directly between two looks at the others.
const ASKS_PER_LOOK: usize = 64;

/// The event of the listener; those of connections are their places.
const LISTENER: u64 = u64::MAX;

/// Serves on the calling thread, which it pins.
pub(super) fn serve(kind: FloorKind, settings: &FloorSettings) -> Result<Infallible, Problem> {
    pin::to(settings.cpu)?;
    let shared = Shared::new(settings, kind == FloorKind::WriteEcho)?;
    let listener =
        TcpListener::bind(settings.listen).map_err(|error| no_socket(settings.listen, &error))?;
    let address = listener.local_addr();
    let mut server = Server::new(listener, shared, settings.spin())
        .map_err(|error| Problem::new(format!("no epoll set: {error}")))?;
    announce(address)?;
    let Err(error) = server.run();
    Err(Problem::new(format!("the epoll set broke: {error}")))
}

/// The set, and those in it.
#[derive(Debug)]
struct Server {
    set: OwnedFd,
    listener: TcpListener,
    places: Vec<Option<Connection>>,
    /// Empty places.
    free: Vec<usize>,
    shared: Shared,
    /// How long it looks for more before it sleeps; zero sleeps at once.
    spin: Duration,
    awake_until: Instant,
}

impl Server {
    fn new(listener: TcpListener, shared: Shared, spin: Duration) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&set, &listener, data, epoll::EventFlags::IN)?;
        Ok(Self {
            set,
            listener,
            places: Vec::new(),
            free: Vec::new(),
            shared,
            spin,
            awake_until: Instant::now(),
        })
    }

    fn run(&mut self) -> io::Result<Infallible> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let is_awake = !self.spin.is_zero() && Instant::now() < self.awake_until;
            if is_awake {
                self.ask_directly();
            }
            let timeout = is_awake.then(Timespec::default);
            events.clear();
            match epoll::wait(&self.set, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if events.is_empty() {
                continue;
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    place => self.serve(usize::try_from(place).expect("a place was an index")),
                }
            }
            self.stay_awake();
        }
    }

    /// Asks a connection that is the only one, without the set, a number of times: few enough that
    /// whoever else connects is seen soon.
    fn ask_directly(&mut self) {
        if self.places.len() - self.free.len() != 1 {
            return;
        }
        let Some(place) = self.places.iter().position(Option::is_some) else {
            return;
        };
        for _ in 0..ASKS_PER_LOOK {
            let Some(connection) = self.places[place].as_mut() else {
                return;
            };
            if connection.is_blocked() {
                return;
            }
            let progress = connection.serve(&mut self.shared);
            if progress != Progress::None {
                self.settle(place, false, progress);
                self.stay_awake();
            }
        }
    }

    fn stay_awake(&mut self) {
        if !self.spin.is_zero() {
            self.awake_until = Instant::now() + self.spin;
        }
    }

    /// The connection in that place is ready, if it is still there.
    fn serve(&mut self, place: usize) {
        if let Some(connection) = self.places.get_mut(place).and_then(Option::as_mut) {
            let was_blocked = connection.is_blocked();
            let progress = connection.serve(&mut self.shared);
            self.settle(place, was_blocked, progress);
        }
    }

    /// Waits for what the connection now waits for, or lets it go.
    fn settle(&mut self, place: usize, was_blocked: bool, progress: Progress) {
        let Some(connection) = self.places[place].as_ref() else {
            return;
        };
        let is_blocked = progress == Progress::Blocked;
        let mut ended = progress == Progress::Ended;
        if !ended && is_blocked != was_blocked {
            let flags = if is_blocked {
                epoll::EventFlags::OUT
            } else {
                epoll::EventFlags::IN
            };
            let data = event_of(place);
            ended = epoll::modify(&self.set, connection.stream(), data, flags).is_err();
        }
        if ended {
            // Closing it takes it out of the set.
            self.places[place] = None;
            self.free.push(place);
        }
    }

    /// Takes one connection; the set speaks again of those that still wait.
    fn accept(&mut self) -> io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let connection = Connection::new(stream).and_then(|connection| {
            let flags = epoll::EventFlags::IN;
            epoll::add(&self.set, connection.stream(), event_of(place), flags)?;
            Ok(connection)
        });
        match connection {
            Ok(connection) => self.places[place] = Some(connection),
            Err(_) => self.free.push(place),
        }
        Ok(())
    }
}

fn event_of(place: usize) -> epoll::EventData {
    epoll::EventData::new_u64(u64::try_from(place).expect("an index fits 64 bits"))
}

/// Whether a failed accept concerns one connection, or none.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock)
}
