//! The floors: what this machine does at least for the work that a broker is asked for.
//!
//! Most are servers in processes of their own, on the processor that the broker has in its turn,
//! which take requests as Kafka frames them and answer so many bytes with the request's number in
//! them, and do nothing else. [`Flusher`] is no server: it writes and flushes on the spot.

mod answers;
mod connection;
mod echo;
mod flush;
mod frames;
mod loop_echo;
mod send;
mod store;

pub use flush::Flusher;

use crate::child::Child;
use crate::open_files;
use crate::pin;
use crate::problem::Problem;
use frames::{ANSWER_BYTES_MIN, FRAME_BYTES_MAX};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Preparing the file that requests are written to takes longest.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Which floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloorKind {
    /// A bare epoll set: for each request one wait, one receive and one send.
    Echo,
    /// The same, served on the loop that a broker's core runs.
    LoopEcho,
    /// As [`Echo`](Self::Echo), each request written to a file before it is answered.
    WriteEcho,
    /// After a first request, sends blocks of memory flat out.
    Send,
}

impl FloorKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Echo, Self::LoopEcho, Self::WriteEcho, Self::Send];

    /// What the command line and reports call it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::LoopEcho => "loop-echo",
            Self::WriteEcho => "write-echo",
            Self::Send => "send",
        }
    }

    /// The floor of that [`word`](Self::word).
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// How a floor serves. Each kind looks only at what concerns it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FloorSettings {
    /// The processor it stays on.
    pub cpu: usize,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Bytes of an answer, the length in front included.
    pub answer_bytes: usize,
    /// How long it looks for more work before it sleeps, in microseconds; 0 sleeps at once.
    pub spin_us: u64,
    /// A deliberate stall: `Echo` and `WriteEcho`.
    pub pause: Option<Pause>,
    /// Where `WriteEcho` makes its file, which it must be given.
    pub dir: Option<PathBuf>,
    /// Bytes of that file, after which it begins again.
    pub file_bytes: u64,
    /// Whether `WriteEcho` flushes before it answers.
    pub is_flushed: bool,
    /// Bytes of a block of `Send`.
    pub block_bytes: usize,
}

impl Default for FloorSettings {
    fn default() -> Self {
        Self {
            cpu: 0,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            answer_bytes: 64,
            spin_us: 0,
            pause: None,
            dir: None,
            file_bytes: 256 << 20,
            is_flushed: false,
            block_bytes: 1 << 20,
        }
    }
}

impl FloorSettings {
    fn check(&self, kind: FloorKind) -> Result<(), Problem> {
        pin::check(self.cpu)?;
        if !(ANSWER_BYTES_MIN..=FRAME_BYTES_MAX).contains(&self.answer_bytes) {
            return Err(Problem::new(format!(
                "an answer has {ANSWER_BYTES_MIN} to {FRAME_BYTES_MAX} bytes, not {}",
                self.answer_bytes
            )));
        }
        if !(1..=FRAME_BYTES_MAX).contains(&self.block_bytes) {
            return Err(Problem::new(format!(
                "a block has 1 to {FRAME_BYTES_MAX} bytes, not {}",
                self.block_bytes
            )));
        }
        if kind == FloorKind::WriteEcho && self.dir.is_none() {
            return Err(Problem::new(
                "write-echo needs a directory to write to; give it --dir",
            ));
        }
        Ok(())
    }

    fn spin(&self) -> Duration {
        Duration::from_micros(self.spin_us)
    }
}

/// A deliberate stall, as of a server that is elsewhere: nobody is served meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pause {
    /// It comes before this request is answered, counted from one over all connections.
    pub after: u64,
    /// How long it is, in milliseconds.
    pub ms: u64,
    /// Whether it comes again whenever as many more have arrived.
    pub is_repeated: bool,
}

/// A floor that runs in a process of its own. Killed when dropped.
#[derive(Debug)]
pub struct Floor {
    child: Child,
    address: SocketAddr,
}

impl Floor {
    /// Starts one and waits until it listens.
    ///
    /// # Errors
    /// The settings make no sense, the processor is not ours, or the system refuses a process, a
    /// socket or a file.
    pub fn start(kind: FloorKind, settings: &FloorSettings) -> Result<Self, Problem> {
        settings.check(kind)?;
        let mut child = Child::of_floor(kind, settings)?;
        let line = child.line(START_TIMEOUT)?;
        let address = line.strip_prefix(LISTENING).and_then(|at| at.parse().ok());
        let Some(address) = address else {
            return Err(child.problem(&format!("says {line:?} instead of where it listens")));
        };
        Ok(Self { child, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// What is printed before the address.
const LISTENING: &str = "listening on ";

/// Is the floor from here on, on the calling thread: prints a line that says where it listens,
/// and serves until the process is killed.
///
/// # Errors
/// The settings make no sense, the processor is not ours, or the system refuses a socket or a
/// file.
pub fn serve(kind: FloorKind, settings: &FloorSettings) -> Result<Infallible, Problem> {
    settings.check(kind)?;
    open_files::raise(0)?;
    match kind {
        FloorKind::Echo | FloorKind::WriteEcho => echo::serve(kind, settings),
        FloorKind::LoopEcho => loop_echo::serve(settings),
        FloorKind::Send => send::serve(settings),
    }
}

/// Says where it listens, once it does.
fn announce(address: io::Result<SocketAddr>) -> Result<(), Problem> {
    let said = address.and_then(|address| {
        let mut stdout = io::stdout();
        writeln!(stdout, "{LISTENING}{address}")?;
        stdout.flush()
    });
    said.map_err(|error| Problem::new(format!("nobody hears where the floor listens: {error}")))
}

fn no_socket(address: SocketAddr, error: &io::Error) -> Problem {
    Problem::new(format!("cannot listen on {address}: {error}"))
}
