//! The broker that is measured: one pinned core, a directory of its own, killed at the end.

use crate::plan::BROKER_CPU;
use crate::usage::Usage;
use felix_tests::{Policy, Process};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The first argument that makes this program the broker.
pub const WORD: &str = "broker";

/// Becomes the broker at the path in the first argument, which then dies with whoever started it,
/// however that ends.
///
/// # Panics
/// There is no such broker.
pub fn become_broker(arguments: &[String]) {
    let [binary] = arguments else {
        panic!("one path");
    };
    set_parent_process_death_signal(Some(Signal::KILL)).expect("the signal is valid");
    let error = Command::new(binary).exec();
    panic!("{binary} does not start: {error}");
}

/// The most that any of our figures opens. Each takes a descriptor that the broker asks for when it
/// starts.
pub(crate) const CONNECTIONS_MAX: usize = 5_000;

/// A stream of the broker: `bench.<name>`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) name: &'static str,
    pub(crate) shards: usize,
    pub(crate) policy: Policy,
}

impl Stream {
    /// A stream of one shard, named after its policy.
    pub(crate) const fn of(policy: Policy) -> Self {
        Self {
            name: word(policy),
            shards: 1,
            policy,
        }
    }

    /// What Kafka clients call it.
    pub(crate) fn topic(&self) -> String {
        format!("bench.{}", self.name)
    }
}

/// The policy as settings and tables call it.
pub(crate) const fn word(policy: Policy) -> &'static str {
    match policy {
        Policy::None => "none",
        Policy::Periodic => "periodic",
        Policy::OnCommit => "on_commit",
    }
}

/// A broker that is ready.
#[derive(Debug)]
pub(crate) struct Broker {
    // Dropped, and by that killed, before its directory goes.
    process: Process,
    port: u16,
    _home: TempDir,
}

impl Broker {
    /// Starts `binary` with these streams and settings over the defaults, its data under `dir`.
    pub(crate) fn start(
        binary: &Path,
        dir: &Path,
        streams: &[Stream],
        settings: &[(&str, String)],
    ) -> Self {
        let home = tempfile::tempdir_in(dir).expect("a directory can be made there");
        let catalog = home.path().join("streams.toml");
        std::fs::write(&catalog, catalog_text(streams)).expect("the directory is ours");
        let [port, http_port] = free_ports();
        let figures = std::env::current_exe().expect("a running program has a path");
        let mut command = Command::new(figures);
        command.arg(WORD).arg(binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FELIX_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(home.path())
            .env("FELIX_CORES", BROKER_CPU.to_string())
            .env("FELIX_KAFKA_LISTEN", format!("127.0.0.1:{port}"))
            .env(
                "FELIX_BROKER_METRICS_BIND",
                format!("127.0.0.1:{http_port}"),
            )
            .env("FELIX_KAFKA_TLS", "false")
            .env("FELIX_KAFKA_ANONYMOUS_TENANT", "dev")
            .env("FELIX_DURABLE_STORAGE_DIR", home.path().join("data"))
            .env("FELIX_CATALOG_FILE", catalog)
            .env("FELIX_KAFKA_MAX_CONNECTIONS", CONNECTIONS_MAX.to_string())
            .env("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0")
            .envs(settings.iter().map(|(name, value)| (name, value)));
        let mut process = Process::start("felix-broker", &mut command, None);
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_ready(http_port) {
            let said = String::from_utf8_lossy(process.stdout()).into_owned();
            assert!(!process.has_ended(), "the broker ended: {said}");
            assert!(Instant::now() < deadline, "the broker is not ready: {said}");
            thread::sleep(Duration::from_millis(10));
        }
        Self {
            process,
            port,
            _home: home,
        }
    }

    /// Its Kafka port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What it uses.
    pub(crate) fn usage(&self) -> Usage {
        Usage::of(self.process.pid())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.process.signal(felix_tests::SIGKILL);
        self.process.wait(Duration::from_secs(30));
    }
}

fn catalog_text(streams: &[Stream]) -> String {
    let mut text = String::new();
    for stream in streams {
        let (name, shards, durability) = (stream.name, stream.shards, word(stream.policy));
        write!(
            text,
            "[[stream]]\ntenant = \"dev\"\nnamespace = \"bench\"\nname = \"{name}\"\n\
             shards = {shards}\ndurability = \"{durability}\"\n\n"
        )
        .expect("a string takes everything");
    }
    text
}

/// Two ports that nobody listens on.
fn free_ports() -> [u16; 2] {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let held = [(); 2].map(|()| TcpListener::bind(any).expect("a port is free"));
    held.map(|listener| listener.local_addr().expect("it listens").port())
}

fn is_ready(http_port: u16) -> bool {
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, http_port))?;
        stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
}
