//! A real broker process with a directory of its own.

use crate::metrics::Metrics;
use crate::process::{Process, SIGHUP, SIGKILL, SIGTERM};
use crate::stream::{self, Stream};
use crate::{binary, http, ports};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The tests run on two cores, and so does the broker.
pub(crate) const CORES: u16 = 2;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// A broker that listens. Killed and forgotten when dropped; its log is shown if the test failed.
/// With `FELIX_TESTS_HOLD=1` a failed test first waits until somebody ends the broker by hand.
#[derive(Debug)]
pub struct Broker {
    process: Process,
    home: TempDir,
    data: PathBuf,
    port: u16,
    settings: Vec<(&'static str, &'static str)>,
    files_max: Option<u64>,
}

impl Broker {
    /// Starts a broker with these streams and waits until it is ready.
    #[must_use]
    pub fn start(streams: &[Stream]) -> Self {
        Self::start_with(streams, &[])
    }

    /// The same with further `FELIX_*` settings.
    #[must_use]
    pub fn start_with(streams: &[Stream], settings: &[(&'static str, &'static str)]) -> Self {
        let home = home();
        let data = home.path().join("data");
        Self::start_in(home, data, streams, settings)
    }

    /// The same for clients that authenticate by the tokens of this token file, and for nobody
    /// else.
    #[must_use]
    pub fn start_with_tokens(
        streams: &[Stream],
        tokens: &str,
        settings: &[(&'static str, &'static str)],
    ) -> Self {
        let home = home();
        write_tokens(&home, tokens);
        let data = home.path().join("data");
        // An empty variable counts as unset.
        let own = [
            ("FELIX_KAFKA_TOKEN_FILE", TOKEN_FILE),
            ("FELIX_KAFKA_ANONYMOUS_TENANT", ""),
        ];
        Self::start_in(home, data, streams, &[&own, settings].concat())
    }

    /// Replaces the token file, as one does it: at once.
    pub fn set_tokens(&self, tokens: &str) {
        write_tokens(&self.home, tokens);
    }

    /// The same with its data in a directory of the test's, such as one on a
    /// [`HeldDisk`](crate::HeldDisk). It is left there.
    #[must_use]
    pub fn start_on(
        data: &Path,
        streams: &[Stream],
        settings: &[(&'static str, &'static str)],
    ) -> Self {
        Self::start_in(home(), data.to_owned(), streams, settings)
    }

    fn start_in(
        home: TempDir,
        data: PathBuf,
        streams: &[Stream],
        settings: &[(&'static str, &'static str)],
    ) -> Self {
        write_catalog(&home, streams);
        let port = ports::free(2 + CORES);
        let process = spawn(home.path(), &data, port, settings, None);
        let mut broker = Self {
            process,
            home,
            data,
            port,
            settings: settings.to_vec(),
            files_max: None,
        };
        broker.wait_until_ready();
        broker
    }

    /// The shared Kafka address.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The shared Kafka port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The Kafka port of one CPU core.
    #[must_use]
    pub fn core_port(&self, core: u16) -> u16 {
        assert!(core < CORES);
        self.port + 1 + core
    }

    /// CPU cores the broker runs on.
    #[must_use]
    pub fn cores(&self) -> u16 {
        CORES
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// The processors that each run one of its cores, in the order of its cores.
    #[must_use]
    pub fn cpus(&self) -> Vec<u16> {
        cpus()
    }

    /// Name and processors allowed of each of its threads.
    #[must_use]
    pub fn threads(&self) -> Vec<(String, Vec<u16>)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs");
        let tasks = tasks.map(|task| task.expect("the folder can be read").path());
        // A thread may end while we look.
        let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.join("status")).ok());
        let field = |status: &str, name| {
            let found = status.lines().find_map(|line| line.strip_prefix(name));
            found.expect("the kernel says it").trim().to_owned()
        };
        statuses
            .map(|status| {
                let cpus = parse_cpus(&field(&status, "Cpus_allowed_list:"));
                (field(&status, "Name:"), cpus)
            })
            .collect()
    }

    /// Bytes of memory it has resident.
    #[must_use]
    pub fn resident_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kib: usize = kib
            .and_then(|kib| kib.parse().ok())
            .expect("the kernel says it");
        kib << 10
    }

    /// Where its data lies.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data.clone()
    }

    /// The directory of one shard's log.
    #[must_use]
    pub fn shard_dir(&self, topic: &str, partition: u32) -> PathBuf {
        let tenant = self.data_dir().join("streams/dev");
        let streams = std::fs::read_dir(&tenant).expect("there are streams");
        let wanted = format!("{topic}-{partition}");
        let mut found = streams
            .map(|stream| stream.expect("the folder can be read").path().join(&wanted))
            .filter(|path| path.is_dir());
        let path = found.next().expect("the stream has that shard");
        assert_eq!(found.next(), None, "no stream was made twice");
        path
    }

    /// Status and text of `/ready`.
    #[must_use]
    pub fn ready(&self) -> (u16, String) {
        http::get(self.http_port(), "/ready").expect("/ready answers")
    }

    /// Its numbers now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let (status, page) = http::get(self.http_port(), "/metrics").expect("/metrics answers");
        assert_eq!(status, 200, "{page}");
        Metrics::new(page)
    }

    /// One of its numbers, over all labels.
    ///
    /// Panics where there is none of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = self.metrics();
        metrics
            .sum(name)
            .unwrap_or_else(|| panic!("no {name} in {}", metrics.page()))
    }

    /// What it logged up to now.
    pub fn log(&mut self) -> String {
        let printed = String::from_utf8_lossy(self.process.stdout()).into_owned();
        printed + &self.process.stderr()
    }

    /// What it has printed once `enough` is content with that, or after a while in any case. Lines
    /// are written beside the cores, so an answer may overtake the line about it.
    pub fn logged(&mut self, enough: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LOG_TIMEOUT;
        loop {
            let log = self.log();
            if enough(&log) || Instant::now() >= deadline {
                return log;
            }
            // What another process prints can only be looked at.
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGHUP: it is to read its certificate and tokens anew.
    pub fn hang_up(&mut self) {
        self.process.signal(SIGHUP);
    }

    /// The directory it runs in, to which relative paths of its settings belong.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        !self.process.has_ended()
    }

    /// kill -9, and nothing else.
    pub fn kill(&mut self) {
        self.kill_and(|| {});
    }

    /// kill -9, and `meanwhile` before it waits for the end: a broker with a flush that a
    /// [`HeldDisk`](crate::HeldDisk) holds only ends with that flush.
    pub fn kill_and(&mut self, meanwhile: impl FnOnce()) {
        self.process.signal(SIGKILL);
        meanwhile();
        self.process.wait(STOP_TIMEOUT);
    }

    /// SIGTERM; how it ended.
    pub fn terminate(&mut self) -> ExitStatus {
        self.terminate_and(|_| {})
    }

    /// SIGTERM, and `meanwhile` before it waits for the end; how it ended.
    pub fn terminate_and(&mut self, meanwhile: impl FnOnce(&Self)) -> ExitStatus {
        self.process.signal(SIGTERM);
        meanwhile(self);
        self.process.wait(STOP_TIMEOUT)
    }

    /// Starts it again on the same ports and data, after [`Broker::kill`] or
    /// [`Broker::terminate`], and waits until it is ready.
    pub fn start_again(&mut self) {
        assert!(
            self.process.has_ended(),
            "two brokers never share a directory"
        );
        self.process = self.spawn_again();
        self.wait_until_ready();
    }

    /// How it ends by itself.
    pub fn await_end(&mut self) -> ExitStatus {
        self.process.wait(STOP_TIMEOUT)
    }

    /// Has this setting another value from its next start on, or none.
    pub fn set(&mut self, name: &'static str, value: Option<&'static str>) {
        self.settings.retain(|(known, _)| *known != name);
        self.settings.extend(value.map(|value| (name, value)));
    }

    /// Has it serve these streams from its next start on.
    pub fn set_streams(&mut self, streams: &[Stream]) {
        write_catalog(&self.home, streams);
    }

    /// From its next start on it may have so many files open (`ulimit -n`).
    pub fn set_files_max(&mut self, files_max: u64) {
        self.files_max = Some(files_max);
    }

    /// While it runs it may have no more than so many files open, until this is said again.
    pub fn limit_files(&self, files: u64) {
        self.limit(Resource::Nofile, Some(files));
    }

    /// While it runs no file of its may get larger than so many bytes; `None`: than is usual.
    pub fn limit_file_bytes(&self, bytes: Option<u64>) {
        self.limit(Resource::Fsize, bytes);
    }

    fn limit(&self, resource: Resource, current: Option<u64>) {
        let pid = Pid::from_raw(self.pid()).expect("it runs");
        let Rlimit { maximum, .. } = getrlimit(resource);
        let limit = Rlimit {
            current: current.or(maximum),
            maximum,
        };
        prlimit(Some(pid), resource, limit).expect("it is ours");
    }

    /// Starts it again as [`Broker::start_again`] does, and waits for it to end, as it is expected
    /// to; how it ended, and what it said.
    pub fn refuses_to_start_again(&mut self) -> (ExitStatus, String) {
        assert!(
            self.process.has_ended(),
            "two brokers never share a directory"
        );
        self.process = self.spawn_again();
        let status = self.process.wait(STOP_TIMEOUT);
        (status, self.log())
    }

    fn spawn_again(&self) -> Process {
        let (home, data) = (self.home.path(), &self.data);
        spawn(home, data, self.port, &self.settings, self.files_max)
    }

    fn http_port(&self) -> u16 {
        self.port + 1 + CORES
    }

    fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + START_TIMEOUT;
        while !http::get(self.http_port(), "/ready").is_ok_and(|(status, _)| status == 200) {
            assert!(
                self.is_running(),
                "the broker ended while starting:\n{}",
                self.log()
            );
            assert!(
                Instant::now() < deadline,
                "the broker is not ready:\n{}",
                self.log()
            );
            // Readiness can only be asked for, not awaited.
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        eprintln!("the broker said:\n{}", self.log());
        if std::env::var("FELIX_TESTS_HOLD").is_ok_and(|hold| hold == "1") && self.is_running() {
            let (pid, bootstrap) = (self.pid(), self.bootstrap());
            let (home, data) = (self.home.path().display(), self.data.display());
            eprintln!("held: process {pid}, Kafka at {bootstrap}, files in {home}, data in {data}");
            self.process.await_end();
        }
    }
}

fn home() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

/// In the broker's home.
const TOKEN_FILE: &str = "tokens.toml";

fn write_tokens(home: &TempDir, tokens: &str) {
    let new = home.path().join("tokens.new");
    std::fs::write(&new, tokens).expect("it is ours");
    std::fs::rename(&new, home.path().join(TOKEN_FILE)).expect("it is ours");
}

fn write_catalog(home: &TempDir, streams: &[Stream]) {
    let file = home.path().join("streams.toml");
    std::fs::write(file, stream::catalog(streams)).expect("it is ours");
}

/// The broker's program, with as many files as it may have open.
fn program(files_max: Option<u64>) -> Command {
    let binary = binary::broker();
    let Some(files_max) = files_max else {
        return Command::new(binary);
    };
    let mut command = Command::new("sh");
    // The shell becomes the broker.
    let text = "ulimit -n \"$0\" && exec \"$1\"";
    command.args(["-c", text, &files_max.to_string()]);
    command.arg(binary);
    command
}

/// Every setting is given, so that nothing in the developer's environment counts.
fn spawn(
    home: &Path,
    data: &Path,
    port: u16,
    settings: &[(&str, &str)],
    files_max: Option<u64>,
) -> Process {
    let mut command = program(files_max);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FELIX_") {
            command.env_remove(name);
        }
    }
    command
        .current_dir(home)
        .env(
            "FELIX_CORES",
            cpus()
                .iter()
                .map(u16::to_string)
                .collect::<Vec<_>>()
                .join(","),
        )
        .env("FELIX_KAFKA_LISTEN", format!("127.0.0.1:{port}"))
        .env("FELIX_KAFKA_CORE_PORTS", "true")
        .env(
            "FELIX_BROKER_METRICS_BIND",
            format!("127.0.0.1:{}", port + 1 + CORES),
        )
        .env("FELIX_KAFKA_TLS", "false")
        .env("FELIX_KAFKA_ANONYMOUS_TENANT", "dev")
        .env("FELIX_DURABLE_STORAGE_DIR", data)
        .env("FELIX_CATALOG_FILE", home.join("streams.toml"))
        .envs(settings.iter().copied());
    Process::start("felix-broker", &mut command, None)
}

/// The first processors this test may use, by the kernel's numbers.
fn cpus() -> Vec<u16> {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut cpus = parse_cpus(list.expect("the kernel says it").trim());
    cpus.truncate(CORES.into());
    assert_eq!(
        cpus.len(),
        usize::from(CORES),
        "whole-broker tests need two processors"
    );
    cpus
}

/// `0,2-3` as numbers.
fn parse_cpus(list: &str) -> Vec<u16> {
    let number = |text: &str| text.parse::<u16>().expect("the kernel writes numbers");
    let ranges = list
        .split(',')
        .map(|range| range.split_once('-').unwrap_or((range, range)));
    ranges
        .flat_map(|(first, last)| number(first)..=number(last))
        .collect()
}
