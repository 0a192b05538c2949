//! A child process whose output is kept, whose waits are bounded, and which never outlives its
//! test.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// End at once.
pub const SIGKILL: i32 = libc::SIGKILL;
/// Read your files anew.
pub(crate) const SIGHUP: i32 = libc::SIGHUP;
/// End in order.
pub const SIGTERM: i32 = libc::SIGTERM;
/// What Ctrl-C sends.
pub const SIGINT: i32 = libc::SIGINT;

enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Closed,
    Exit(ExitStatus),
}

/// A running child.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: i32,
    events: Receiver<Event>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    pipes_open: u8,
    status: Option<ExitStatus>,
}

/// A child that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All it printed.
    pub stdout: Vec<u8>,
    /// All it complained of.
    pub stderr: String,
}

impl Finished {
    /// Standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("the output is text")
    }

    /// Panics with the complaints unless the child exited with 0.
    #[must_use]
    pub fn ok(self) -> Self {
        assert!(self.status.success(), "{}: {}", self.status, self.stderr);
        self
    }
}

impl Process {
    /// Starts `command`, with `input` as its standard input.
    #[must_use]
    pub fn start(name: &str, command: &mut Command, input: Option<Vec<u8>>) -> Self {
        let stdin = if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let pid = i32::try_from(child.id()).expect("a process id is positive and 31 bits wide");
        let (send, events) = channel();
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // A child that ends early closes the pipe; its exit status tells the story.
            thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let stdout = child.stdout.take().expect("piped above");
        let stderr = child.stderr.take().expect("piped above");
        read(stdout, send.clone(), Event::Stdout);
        read(stderr, send.clone(), Event::Stderr);
        thread::spawn(move || reap(child, &send));
        let (name, stdout, stderr) = (name.to_owned(), Vec::new(), Vec::new());
        Self {
            name,
            pid,
            events,
            stdout,
            stderr,
            pipes_open: 2,
            status: None,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What it printed up to now.
    pub fn stdout(&mut self) -> &[u8] {
        while self.take(Duration::ZERO) {}
        &self.stdout
    }

    /// What it complained of up to now.
    pub fn stderr(&mut self) -> String {
        while self.take(Duration::ZERO) {}
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        while self.take(Duration::ZERO) {}
        self.status.is_some()
    }

    /// Waits until it has printed and complained what `enough` looks for.
    ///
    /// Panics when it ends before, or after `timeout`.
    pub fn wait_until(
        &mut self,
        what: &str,
        timeout: Duration,
        mut enough: impl FnMut(&[u8], &[u8]) -> bool,
    ) {
        let deadline = Instant::now() + timeout;
        while !enough(&self.stdout, &self.stderr) {
            if self.is_over() || !self.take(deadline.saturating_duration_since(Instant::now())) {
                panic!(
                    "{}: no {what} within {timeout:?}: {}",
                    self.name,
                    self.told()
                );
            }
        }
    }

    /// Sends a signal. Nothing, if it has ended.
    pub fn signal(&mut self, signal: i32) {
        if !self.has_ended() {
            send_signal(self.pid, signal);
        }
    }

    /// Waits for its end and its last words. Kills it and panics after `timeout`.
    #[must_use]
    pub fn finish(mut self, timeout: Duration) -> Finished {
        let status = self.wait(timeout);
        Finished {
            status,
            stdout: std::mem::take(&mut self.stdout),
            stderr: String::from_utf8_lossy(&self.stderr).into_owned(),
        }
    }

    /// Waits for its end. Kills it and panics after `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let deadline = Instant::now() + timeout;
        while !self.is_over() {
            if !self.take(deadline.saturating_duration_since(Instant::now())) {
                self.signal(SIGKILL);
                panic!(
                    "{}: still running after {timeout:?}: {}",
                    self.name,
                    self.told()
                );
            }
        }
        self.status.expect("it is over")
    }

    /// Waits for its end, however long that takes.
    pub(crate) fn await_end(&mut self) {
        while !self.is_over() && self.take(Duration::from_secs(3600)) {}
    }

    fn is_over(&self) -> bool {
        self.status.is_some() && self.pipes_open == 0
    }

    fn told(&self) -> String {
        let (stdout, stderr) = (&self.stdout, &self.stderr);
        let tail = |bytes: &[u8]| {
            let from = bytes.len().saturating_sub(8000);
            String::from_utf8_lossy(&bytes[from..]).into_owned()
        };
        format!(
            "{:?}\nstdout:\n{}\nstderr:\n{}",
            self.status,
            tail(stdout),
            tail(stderr)
        )
    }

    /// Takes one event; false if there was none in time, or there will be no more.
    fn take(&mut self, wait: Duration) -> bool {
        match self.events.recv_timeout(wait) {
            Ok(Event::Stdout(bytes)) => self.stdout.extend_from_slice(&bytes),
            Ok(Event::Stderr(bytes)) => self.stderr.extend_from_slice(&bytes),
            Ok(Event::Closed) => self.pipes_open -= 1,
            Ok(Event::Exit(status)) => self.status = Some(status),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(SIGKILL);
    }
}

fn read(mut pipe: impl Read + Send + 'static, send: Sender<Event>, wrap: fn(Vec<u8>) -> Event) {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            if send.send(wrap(buffer[..count].to_vec())).is_err() {
                return;
            }
        }
        drop(send.send(Event::Closed));
    });
}

fn reap(mut child: Child, send: &Sender<Event>) {
    let status = child
        .wait()
        .expect("the child is ours and was not reaped before");
    drop(send.send(Event::Exit(status)));
}

#[expect(
    unsafe_code,
    reason = "the standard library can only kill, and only what it owns"
)]
fn send_signal(pid: i32, signal: i32) {
    assert!(pid > 0, "0 and below address groups of processes");
    // SAFETY: kill takes two integers and touches no memory of ours. The process is a child that
    // has not been reaped as far as we know, so the number is not another's.
    unsafe { libc::kill(pid, signal) };
}
