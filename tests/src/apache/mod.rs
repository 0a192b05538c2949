//! A real Apache Kafka broker of a single node, for what ours does not serve, and to see that
//! clients of ours get along with it as well.

mod certificates;
mod properties;

use crate::java;
use crate::ports;
use crate::process::Process;
use certificates::Certificates;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FORMAT_TIMEOUT: Duration = Duration::from_secs(60);
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Long enough for an answer, and short enough to ask again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Two users and their passwords, as [`Apache::sasl`] and [`Apache::sasl_tls`] know them.
pub const USERS: [(&str, &str); 2] = [("alice", "in wonderland"), ("bob", "builds")];

/// A broker that answers. Killed and forgotten when dropped.
///
/// It makes no topics by itself, and knows no limits but its own defaults. Tests may share it: it
/// takes seconds to start.
#[derive(Debug)]
pub struct Apache {
    pid: i32,
    home: TempDir,
    certificates: Certificates,
    port: u16,
    /// Killed when dropped.
    #[expect(
        clippy::disallowed_types,
        reason = "never locked; threads share what they cannot reach"
    )]
    _process: std::sync::Mutex<Process>,
}

/// Its listeners, by the place of their ports.
#[derive(Clone, Copy, Debug)]
enum Listener {
    Plain,
    Tls,
    MutualTls,
    Sasl,
    SaslTls,
    Controller,
}

impl Listener {
    const ALL: [Self; 6] = [
        Self::Plain,
        Self::Tls,
        Self::MutualTls,
        Self::Sasl,
        Self::SaslTls,
        Self::Controller,
    ];

    fn place(self) -> u16 {
        match self {
            Self::Plain => 0,
            Self::Tls => 1,
            Self::MutualTls => 2,
            Self::Sasl => 3,
            Self::SaslTls => 4,
            Self::Controller => 5,
        }
    }
}

impl Apache {
    /// Starts a broker on fresh directories and waits until it answers.
    #[must_use]
    pub fn start() -> Self {
        let home = tempfile::tempdir().expect("a temporary directory can be made");
        let certificates = Certificates::make(home.path());
        let count = u16::try_from(Listener::ALL.len()).expect("they are few");
        let port = ports::free(count);
        let settings = home.path().join("server.properties");
        let text = properties::text(home.path(), &certificates, port);
        std::fs::write(&settings, text).expect("it is ours");
        let format = ["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"];
        let mut command = java("kafka.tools.StorageTool");
        command.args(format).arg(&settings);
        let formatted = Process::start("kafka-storage", &mut command, None).finish(FORMAT_TIMEOUT);
        drop(formatted.ok());
        let mut command = java("kafka.Kafka");
        command.arg(&settings).current_dir(home.path());
        let mut process = Process::start("kafka", &mut command, None);
        wait_until_ready(&mut process, port + Listener::Plain.place());
        Self {
            pid: process.pid(),
            home,
            certificates,
            port,
            _process: process.into(),
        }
    }

    /// `host:port` without TLS and without users.
    #[must_use]
    pub fn plain(&self) -> String {
        self.address(Listener::Plain)
    }

    /// `host:port` with TLS, and without users.
    #[must_use]
    pub fn tls(&self) -> String {
        self.address(Listener::Tls)
    }

    /// `host:port` with TLS that asks for a certificate of the client's.
    #[must_use]
    pub fn mutual_tls(&self) -> String {
        self.address(Listener::MutualTls)
    }

    /// `host:port` without TLS, for [`USERS`] (SASL/PLAIN).
    #[must_use]
    pub fn sasl(&self) -> String {
        self.address(Listener::Sasl)
    }

    /// `host:port` with TLS, for [`USERS`] (SASL/PLAIN).
    #[must_use]
    pub fn sasl_tls(&self) -> String {
        self.address(Listener::SaslTls)
    }

    /// A PEM file with the certificate of who vouches for the broker.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.certificates.authority
    }

    /// The same of somebody else.
    #[must_use]
    pub fn other_authority(&self) -> &Path {
        &self.certificates.other_authority
    }

    /// PEM files of a client that the broker trusts: its certificate and its key.
    #[must_use]
    pub fn client(&self) -> (&Path, &Path) {
        let Certificates {
            client_certificate,
            client_key,
            ..
        } = &self.certificates;
        (client_certificate, client_key)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Where the files of one partition lie.
    #[must_use]
    pub fn partition_dir(&self, topic: &str, partition: u32) -> PathBuf {
        properties::data(self.home.path()).join(format!("{topic}-{partition}"))
    }

    fn address(&self, listener: Listener) -> String {
        format!("127.0.0.1:{}", self.port + listener.place())
    }
}

/// It accepts connections some time before it serves them, so it is asked for an answer.
fn wait_until_ready(process: &mut Process, port: u16) {
    let deadline = Instant::now() + START_TIMEOUT;
    while !answers(port) {
        let is_lost = process.has_ended() || Instant::now() >= deadline;
        if is_lost {
            let said = String::from_utf8_lossy(process.stdout()).into_owned();
            panic!("kafka does not start:\n{said}{}", process.stderr());
        }
        // Readiness can only be asked for, not awaited.
        thread::sleep(Duration::from_millis(50));
    }
}

/// Whether somebody serves ApiVersions there.
fn answers(port: u16) -> bool {
    // Ten bytes: key 18, version 0, correlation id 7, and no name of ours.
    let request = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
    let ask = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(&request)?;
        // A length, the correlation id, an error code.
        let mut head = [0; 10];
        stream.read_exact(&mut head).map(|()| head)
    };
    ask().is_ok_and(|head: [u8; 10]| head[4..] == [0, 0, 0, 7, 0, 0])
}

/// A program of Kafka's, on a small heap.
fn java(class: &str) -> Command {
    let mut command = java::command(&["-Xmx256m", "-cp"]);
    command.arg(java::jars()).arg(class);
    command
}
