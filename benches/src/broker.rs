//! A Felix broker of our own: fresh, with the processors it is given, gone at the end.

use crate::child::{Child, Output};
use crate::pin;
use crate::problem::Problem;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a broker may take until it is ready, with thousands of shards to make.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How often it is asked whether it is, and how long each answer may take.
const ASK_INTERVAL: Duration = Duration::from_millis(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Ports are chosen before the broker takes them, so somebody else may be faster.
const STARTS_MAX: usize = 5;

const TENANT: &str = "dev";
const NAMESPACE: &str = "bench";

/// The broker's file name.
const BINARY: &str = "felix-broker";

/// A stream of a fresh broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FreshStream {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    /// How many shards (partitions) it has.
    pub shards: usize,
    /// `none`, `periodic` or `on_commit`.
    pub durability: String,
}

impl FreshStream {
    /// A stream.
    #[must_use]
    pub fn new(name: &str, shards: usize, durability: &str) -> Self {
        Self {
            name: name.to_owned(),
            shards,
            durability: durability.to_owned(),
        }
    }

    /// What Kafka clients call it.
    #[must_use]
    pub fn topic(&self) -> String {
        format!("{NAMESPACE}.{}", self.name)
    }

    fn check(&self) -> Result<(), Problem> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let (name, durability) = (&self.name, &self.durability);
        if name.is_empty() || !name.bytes().chain(durability.bytes()).all(is_plain) {
            return Err(Problem::new(format!(
                "a stream {name:?} with durability {durability:?} cannot be made: both are \
                 letters, digits, _ and -"
            )));
        }
        Ok(())
    }
}

/// A broker that is ready, on loopback, with its defaults where nothing else is said. Killed when
/// dropped, and its data removed.
#[derive(Debug)]
pub struct FreshBroker {
    // Dropped, and by that killed, before its directory goes.
    child: Child,
    port: u16,
    http_port: u16,
    _home: TempDir,
}

impl FreshBroker {
    /// Starts `binary` with its data in a new directory under `dir`, one core on each processor
    /// of `cores` (its own choice, if they are none), these streams, and settings (`FELIX_...`,
    /// value) over the defaults. Nothing of our own environment that begins with `FELIX_` reaches
    /// it. It lets in as many connections as by default, but all of them from one address.
    ///
    /// # Errors
    /// It is no broker, refuses its settings or is not ready in time: with its last words. A
    /// processor is not ours, or no directory can be made.
    pub fn start(
        binary: &Path,
        dir: &Path,
        cores: &[usize],
        streams: &[FreshStream],
        settings: &[(String, String)],
    ) -> Result<Self, Problem> {
        cores.iter().try_for_each(|cpu| pin::check(*cpu))?;
        streams.iter().try_for_each(FreshStream::check)?;
        let binary = binary.canonicalize().map_err(|error| {
            let binary = binary.display();
            Problem::new(format!("there is no broker at {binary}: {error}"))
        })?;
        let mut starts = 1;
        loop {
            match start(&binary, dir, cores, streams, settings) {
                Err(Failure::PortTaken(_)) if starts < STARTS_MAX => starts += 1,
                Err(Failure::PortTaken(problem) | Failure::Other(problem)) => return Err(problem),
                Ok(broker) => return Ok(broker),
            }
        }
    }

    /// Where Kafka clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The port of `/ready` and `/metrics`, on loopback.
    #[must_use]
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// A broker to start: the `felix-broker` beside this program, or else on the path.
///
/// # Errors
/// There is none.
pub fn find_binary() -> Result<PathBuf, Problem> {
    let beside = env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent);
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(beside, &path).ok_or_else(|| {
        Problem::new(
            "there is no felix-broker beside felix-bench or on the path; build it with \
             `cargo build --release -p felix-broker`, or name one with --broker",
        )
    })
}

fn find_in(first: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let first = first.map(Path::to_owned);
    let dirs = first.into_iter().chain(env::split_paths(path));
    let mut files = dirs.map(|dir| dir.join(BINARY));
    files.find(|file| file.is_file())
}

enum Failure {
    PortTaken(Problem),
    Other(Problem),
}

fn start(
    binary: &Path,
    dir: &Path,
    cores: &[usize],
    streams: &[FreshStream],
    settings: &[(String, String)],
) -> Result<FreshBroker, Failure> {
    let no_home = |error: io::Error| {
        let dir = dir.display();
        Failure::Other(Problem::new(format!(
            "no directory for the broker's data can be made in {dir}: {error}"
        )))
    };
    let home = tempfile::Builder::new()
        .prefix("felix-bench-")
        .tempdir_in(dir)
        .and_then(|home| {
            std::fs::write(home.path().join("streams.toml"), catalog(streams))?;
            Ok(home)
        })
        .map_err(no_home)?;
    let [port, http_port] = free_ports().map_err(|error| {
        Failure::Other(Problem::new(format!(
            "no port on loopback is free: {error}"
        )))
    })?;
    let child = Child::of(binary, Output::Kept, |command| {
        without_ours(command);
        command
            .current_dir(home.path())
            .envs(surroundings(home.path(), cores, port, http_port))
            .envs(settings.iter().map(|(name, value)| (name, value)));
    });
    let mut broker = FreshBroker {
        child: child.map_err(Failure::Other)?,
        port,
        http_port,
        _home: home,
    };
    await_ready(&mut broker)?;
    Ok(broker)
}

fn without_ours(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        // RUST_LOG is what the broker logs by if it is told nothing else.
        if text.starts_with("FELIX_") || text == "RUST_LOG" {
            command.env_remove(name);
        }
    }
}

fn surroundings(
    home: &Path,
    cores: &[usize],
    port: u16,
    http_port: u16,
) -> Vec<(&'static str, OsString)> {
    let listen = |port: u16| format!("127.0.0.1:{port}").into();
    let mut surroundings = vec![
        ("FELIX_KAFKA_LISTEN", listen(port)),
        ("FELIX_BROKER_METRICS_BIND", listen(http_port)),
        ("FELIX_KAFKA_TLS", "false".into()),
        ("FELIX_KAFKA_ANONYMOUS_TENANT", TENANT.into()),
        ("FELIX_DURABLE_STORAGE_DIR", home.join("data").into()),
        ("FELIX_CATALOG_FILE", home.join("streams.toml").into()),
        // All of them come from one address: ours.
        ("FELIX_KAFKA_MAX_CONNECTIONS_PER_IP", "0".into()),
    ];
    if !cores.is_empty() {
        let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
        surroundings.push(("FELIX_CORES", cores.join(",").into()));
    }
    surroundings
}

fn catalog(streams: &[FreshStream]) -> String {
    let mut text = String::new();
    for stream in streams {
        let (name, shards, durability) = (&stream.name, stream.shards, &stream.durability);
        write!(
            text,
            "[[stream]]\ntenant = \"{TENANT}\"\nnamespace = \"{NAMESPACE}\"\nname = \"{name}\"\n\
             shards = {shards}\ndurability = \"{durability}\"\n\n"
        )
        .expect("a string takes everything");
    }
    text
}

/// Two ports that nobody listens on just now.
fn free_ports() -> io::Result<[u16; 2]> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let held = [TcpListener::bind(any)?, TcpListener::bind(any)?];
    let [one, other] = &held;
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

fn await_ready(broker: &mut FreshBroker) -> Result<(), Failure> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let is_ready = is_ready(broker.http_port).unwrap_or(false);
        // Asked second: if it has ended, whoever is ready is somebody else.
        if broker.child.has_ended() {
            let problem = broker.child.problem("ended before it was ready");
            let is_taken = problem.to_string().contains("Address already in use");
            return Err(if is_taken {
                Failure::PortTaken(problem)
            } else {
                Failure::Other(problem)
            });
        }
        if is_ready {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let what = format!("is not ready after {START_TIMEOUT:?}");
            return Err(Failure::Other(broker.child.problem(&what)));
        }
        thread::sleep(ASK_INTERVAL);
    }
}

fn is_ready(http_port: u16) -> io::Result<bool> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, http_port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    Ok(answer == *b"HTTP/1.1 200")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broker_beside_us_comes_before_those_on_the_path() {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [beside, empty, on_path] = dirs.each_ref().map(|dir| dir.path());
        let path = env::join_paths([empty, on_path]).unwrap();
        assert_eq!(find_in(Some(beside), &path), None);
        // What is no file is no broker.
        std::fs::create_dir(empty.join(BINARY)).unwrap();
        std::fs::write(on_path.join(BINARY), "").unwrap();
        assert_eq!(find_in(Some(beside), &path), Some(on_path.join(BINARY)));
        assert_eq!(find_in(None, &path), Some(on_path.join(BINARY)));
        std::fs::write(beside.join(BINARY), "").unwrap();
        assert_eq!(find_in(Some(beside), &path), Some(beside.join(BINARY)));
    }
}
