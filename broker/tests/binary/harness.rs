//! A broker process, its log lines, and what can be asked of it.

use crate::wire::{base_offset, call, produce};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// How long anything here may take before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A broker that is killed when its test ends.
pub(crate) struct Broker {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

/// A broker that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The command, without any setting from the environment of the test.
pub(crate) fn command(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_felix-broker"));
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("FELIX_") || name == "RUST_LOG"
    }) {
        command.env_remove(name);
    }
    command
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a broker that is expected to refuse, and waits for its end.
pub(crate) fn refused(flags: &[&str]) -> Ended {
    let mut child = command(flags).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let (send, ended) = channel();
    thread::spawn(move || {
        let (mut out, mut err) = (String::new(), String::new());
        stdout.read_to_string(&mut out).unwrap();
        stderr.read_to_string(&mut err).unwrap();
        send.send((out, err)).unwrap();
    });
    let Ok((stdout, stderr)) = ended.recv_timeout(PATIENCE) else {
        child.kill().unwrap();
        panic!("a broker with {flags:?} did not refuse to run");
    };
    Ended {
        status: child.wait().unwrap(),
        stdout,
        stderr,
    }
}

impl Broker {
    /// Starts a development broker on free ports, with its data in `data`, and waits until it is
    /// ready.
    pub(crate) fn start(data: &Path, flags: &[&str]) -> Self {
        Self::start_with(&[&dev(data)[..], flags].concat())
    }

    /// Starts a broker with these flags alone, and waits until it is ready.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        let mut broker = Self::spawn(flags);
        broker.line("ready");
        broker
    }

    fn spawn(flags: &[&str]) -> Self {
        let mut command = command(flags);
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                // Nobody listens once the test has ended.
                if send.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// The first log line with this message, once it is there.
    pub(crate) fn line(&mut self, message: &str) -> String {
        let wanted = format!("\"message\":\"{message}\"");
        let found = self
            .seen
            .iter()
            .find(|line| line.contains(&wanted))
            .cloned();
        if let Some(line) = found {
            return line;
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let Ok(line) = line else {
                panic!("no line {message:?} among {:#?}", self.seen)
            };
            self.seen.push(line.clone());
            if line.contains(&wanted) {
                return line;
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kafka(&mut self) -> SocketAddr {
        field(&self.line("Kafka listener"), "address")
            .parse()
            .unwrap()
    }

    pub(crate) fn http(&mut self) -> SocketAddr {
        field(&self.line("HTTP listener"), "address")
            .parse()
            .unwrap()
    }

    /// Status and body of a GET.
    pub(crate) fn get(&mut self, path: &str) -> (u16, String) {
        request(self.http(), "GET", path)
    }

    /// The number of a metric, by its name with its label.
    pub(crate) fn metric(&mut self, name: &str) -> Option<f64> {
        let (_, page) = self.get("/metrics");
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        page.lines().find_map(value)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits for its end. One that does not end in time is killed, which its status shows.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<String>) {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        // Its output has ended, and so has it; a broker that still runs is given up.
        drop(self.child.kill());
        let status = self.child.wait().unwrap();
        (status, std::mem::take(&mut self.seen))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The flags of a development broker on free ports.
pub(crate) fn dev(data: &Path) -> [&str; 12] {
    [
        "--dev",
        "--durable-storage-dir",
        data.to_str().unwrap(),
        "--kafka-listen=127.0.0.1:0",
        "--kafka-core-port-base=0",
        "--broker-metrics-bind=127.0.0.1:0",
        "--log-format=json",
        "--log=debug",
        "--tail-cache-bytes=1048576",
        "--durable-segment-bytes=16777216",
        "--shutdown-drain-timeout-ms=5000",
        "--durable-fsync-interval-ms=10",
    ]
}

/// What [`write`] writes.
pub(crate) const VALUE: &[u8] = b"written before";

/// A broker's stream, and the generation of the first of its shards that is open.
pub(crate) fn opened(broker: &mut Broker) -> (String, u32) {
    let id = field(&broker.line("stream"), "id");
    let generation = field(&broker.line("open"), "generation").parse().unwrap();
    (id, generation)
}

/// Ends a broker, cleanly.
pub(crate) fn end(broker: Broker) {
    broker.signal(Signal::TERM);
    let (status, lines) = broker.wait();
    assert_eq!(status.code(), Some(0), "{lines:#?}");
}

/// A broker has written a record and ended; its stream.
pub(crate) fn write(data: &Path) -> (String, u32) {
    let mut broker = Broker::start(data, &[]);
    let opened = opened(&mut broker);
    assert_eq!(base_offset(&call(broker.kafka(), &produce(VALUE))), 0);
    end(broker);
    opened
}

/// The text of a field of a JSON log line.
pub(crate) fn field(line: &str, name: &str) -> String {
    let start = format!("\"{name}\":\"");
    let rest = line
        .split_once(&start)
        .unwrap_or_else(|| panic!("no {name} in {line}"))
        .1;
    rest.split_once('"').unwrap().0.to_owned()
}

/// Status and body of a request.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}
