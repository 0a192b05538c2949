//! Processes started for a run, which end with it however it ends.
//!
//! The kernel kills them when we die, even by SIGKILL: each asks for that itself, so whatever is
//! not ours is started by way of this program, which asks and then becomes it. The kernel means
//! the thread that started the process, not its process, so all are started by one thread that
//! stays.

use crate::floor;
use crate::pin;
use crate::problem::Problem;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdout, Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The hidden first argument that makes this program another one.
const BECOME: &str = "child:become";
/// The hidden first argument that makes this program a floor.
const SERVE: &str = "child:floor";

/// What of a child's last words is shown.
const LAST_BYTES: usize = 4 << 10;
const LAST_LINES: usize = 12;

/// The longest line that a child may answer with.
const LINE_BYTES_MAX: usize = 4 << 10;

/// What is started to become a child.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Makes `program`, a `felix-bench`, the one that children are started by way of. Without it, it
/// is the running program. Only the first call counts.
pub fn start_with(program: &Path) {
    PROGRAM.get_or_init(|| program.to_owned());
}

/// Does the work of a child if these arguments, without the program's name, say that this process
/// is one; returns when that has failed, with the code to exit with. Call it first.
pub fn role(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter();
    let word = arguments.next()?;
    let run = match word.to_str()? {
        BECOME => become_another,
        SERVE => serve_floor,
        _ => return None,
    };
    let arguments: Vec<OsString> = arguments.collect();
    let Err(problem) = run(&arguments);
    // Whoever started us keeps what we say. If nobody does any more, nobody needs it.
    drop(writeln!(io::stderr(), "felix-bench: {problem}"));
    Some(ExitCode::FAILURE)
}

fn become_another(arguments: &[OsString]) -> Result<Infallible, Problem> {
    let [parent, program, arguments @ ..] = arguments else {
        return Err(misused());
    };
    die_with(parent)?;
    let error = Command::new(program).args(arguments).exec();
    let program = Path::new(program).display();
    Err(Problem::new(format!("{program} does not start: {error}")))
}

fn serve_floor(arguments: &[OsString]) -> Result<Infallible, Problem> {
    let [parent, kind, settings] = arguments else {
        return Err(misused());
    };
    die_with(parent)?;
    let kind = kind.to_str().and_then(floor::FloorKind::of);
    let settings = settings
        .to_str()
        .and_then(|text| serde_json::from_str(text).ok());
    let (Some(kind), Some(settings)) = (kind, settings) else {
        return Err(misused());
    };
    floor::serve(kind, &settings)
}

fn misused() -> Problem {
    Problem::new("the arguments that begin with child: are for this program itself")
}

/// From here on this process is killed when the thread that started it ends.
fn die_with(parent: &OsStr) -> Result<(), Problem> {
    let refused = |error| Problem::new(format!("cannot end together with felix-bench: {error}"));
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(refused)?;
    // It may have ended before it was asked for.
    let now = getppid().map(|pid| Pid::as_raw(Some(pid)).to_string());
    if now.as_deref().map(OsStr::new) == Some(parent) {
        return Ok(());
    }
    Err(Problem::new("felix-bench has ended meanwhile"))
}

/// Where the standard output of a child goes. Standard error is always kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// To [`Child::line`].
    Awaited,
    /// To [`Child::last_words`].
    Kept,
}

/// A running process, in a process group of its own, so that Ctrl-C in a terminal reaches only
/// us. Killed when dropped.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: process::Child,
    stdout: Option<ChildStdout>,
    said: File,
}

impl Child {
    /// Starts `program`; `prepare` adds arguments and surroundings. A program that cannot be
    /// started is a child that ends soon and says so.
    ///
    /// # Errors
    /// No process can be had.
    pub fn of(
        program: &Path,
        output: Output,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, Problem> {
        let name = program.file_name().unwrap_or(program.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let mut command = ours(BECOME);
        prepare(command.arg(program));
        Self::start(name, command, output)
    }

    /// Starts a floor, which prints where it listens.
    pub(crate) fn of_floor(
        kind: floor::FloorKind,
        settings: &floor::FloorSettings,
    ) -> Result<Self, Problem> {
        let text = serde_json::to_string(settings)
            .map_err(|error| Problem::new(format!("the settings cannot be passed on: {error}")))?;
        let mut command = ours(SERVE);
        command.arg(kind.word()).arg(text);
        Self::start(kind.word().to_owned(), command, Output::Awaited)
    }

    fn start(name: String, mut command: Command, output: Output) -> Result<Self, Problem> {
        let failed = |error: io::Error| Problem::new(format!("{name} cannot be started: {error}"));
        // A file, not a pipe: nobody has to empty it, and no thread wakes for it.
        let said = tempfile::tempfile().map_err(failed)?;
        let kept = || said.try_clone().map(Stdio::from).map_err(failed);
        let stdout = match output {
            Output::Awaited => Stdio::piped(),
            Output::Kept => kept()?,
        };
        command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(kept()?)
            .process_group(0);
        let mut process = start_by_keeper(command).map_err(failed)?;
        Ok(Self {
            stdout: process.stdout.take(),
            process,
            said,
            name,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        // Whoever cannot be waited for is not ours any more.
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// The next line that it prints, without the end of the line.
    ///
    /// # Errors
    /// It ends before, or prints none within `timeout`.
    ///
    /// # Panics
    /// Its output is not [`Output::Awaited`].
    pub fn line(&mut self, timeout: Duration) -> Result<String, Problem> {
        let deadline = Instant::now() + timeout;
        let stdout = self.stdout.as_mut().expect("the output is awaited");
        let mut line = Vec::new();
        loop {
            match read_byte(stdout, deadline) {
                Ok(Some(b'\n')) => return Ok(String::from_utf8_lossy(&line).into_owned()),
                Ok(Some(byte)) if line.len() < LINE_BYTES_MAX => line.push(byte),
                Ok(Some(_)) => return Err(self.problem("prints no line that ends")),
                Ok(None) => return Err(self.problem("has ended early")),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(self.problem(&format!("is not ready after {timeout:?}")));
                }
                Err(error) => return Err(self.problem(&format!("cannot be heard: {error}"))),
            }
        }
    }

    /// Its last lines, as far as they are kept; possibly none.
    #[must_use]
    pub fn last_words(&self) -> String {
        let length = self.said.metadata().map_or(0, |metadata| metadata.len());
        let mut last = [0; LAST_BYTES];
        let from = length.saturating_sub(u64::try_from(LAST_BYTES).expect("small"));
        let count = self.said.read_at(&mut last, from).unwrap_or(0);
        let text = String::from_utf8_lossy(&last[..count]);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }

    /// A problem that the child has, with its last words.
    #[must_use]
    pub fn problem(&self, what: &str) -> Problem {
        let (name, words) = (&self.name, self.last_words());
        Problem::new(match words.as_str() {
            "" => format!("{name} {what}, and it says nothing"),
            words => format!("{name} {what}; its last words:\n{words}"),
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only for a process that has been waited for already.
        if let Some(group) = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw)
        {
            // Its group is its own, so whatever it started goes with it.
            // It may have ended already.
            let _gone = kill_process_group(group, Signal::KILL);
        }
        drop(self.process.wait());
    }
}

/// This program in that role.
fn ours(role: &str) -> Command {
    // The link stays right even if the file is replaced while we run.
    let running = || PathBuf::from("/proc/self/exe");
    let mut command = Command::new(PROGRAM.get_or_init(running));
    command
        .arg0("felix-bench")
        .arg(role)
        .arg(process::id().to_string());
    command
}

fn read_byte(stdout: &mut ChildStdout, deadline: Instant) -> io::Result<Option<u8>> {
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    let ready = poll(&mut [PollFd::new(&*stdout, PollFlags::IN)], Some(&left))?;
    if ready == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut byte = [0];
    Ok((stdout.read(&mut byte)? == 1).then_some(byte[0]))
}

struct Order {
    command: Command,
    reply: Sender<io::Result<process::Child>>,
}

/// Starts the process from the thread that lives as long as we do.
fn start_by_keeper(command: Command) -> io::Result<process::Child> {
    static KEEPER: OnceLock<Sender<Order>> = OnceLock::new();
    let (reply, answer) = channel();
    let keeper = KEEPER.get_or_init(keeper);
    let gone = || io::Error::other("no thread can be had to start it");
    keeper.send(Order { command, reply }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn keeper() -> Sender<Order> {
    let (orders, next) = channel::<Order>();
    let keep = move || {
        // Whoever asked for the first child may be pinned, which children must not inherit. A
        // kernel that refuses leaves them where we are.
        drop(pin::free());
        for mut order in next {
            // If nobody waits for it any more, it is not a child but an orphan.
            if let Err(unwanted) = order.reply.send(order.command.spawn()) {
                drop(unwanted.0.map(|mut process| process.kill()));
            }
        }
    };
    // Without the thread the channel is closed, and whoever sends is told.
    drop(thread::Builder::new().name("children".into()).spawn(keep));
    orders
}
