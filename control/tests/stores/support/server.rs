//! A real Postgres, in a temporary folder and on a free port.

use super::Relay;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// Somebody else may take a port between when it was found free and when the server listens.
const ATTEMPTS: usize = 5;

/// A server, as long as this lives.
#[derive(Debug)]
pub(crate) struct Server {
    folder: TempDir,
    programs: PathBuf,
    user: Option<(u32, u32)>,
    port: u16,
}

/// One database of it.
#[derive(Debug)]
pub(crate) struct Database {
    server: Arc<Server>,
    name: String,
}

impl Server {
    /// A new one; `None`: Postgres is not installed, which is said, and which CI takes for a failure.
    pub(crate) fn start() -> Option<Arc<Self>> {
        Self::start_with(|_| String::new())
    }

    /// The same with lines of configuration, which may name files put into its folder.
    pub(crate) fn start_with(configure: impl FnOnce(&Path) -> String) -> Option<Arc<Self>> {
        let Some(programs) = programs() else {
            let missing = "Postgres is not installed; scripts/setup-postgres.sh installs it";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("skipped: {missing}");
            return None;
        };
        let mut server = Self {
            folder: TempDir::new().unwrap(),
            programs,
            user: unprivileged(),
            port: 0,
        };
        let own = configure(server.folder.path());
        server.own_folder();
        let data = server.data();
        let data = data.to_str().unwrap();
        server.run(
            "initdb",
            &["--auth=trust", "--username=felix", "--no-sync", "-D", data],
        );
        let settings = server.data().join("postgresql.conf");
        let had = fs::read_to_string(&settings).unwrap();
        // What this proves is about a process that ends, never about a device that forgets.
        let common = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\n";
        fs::write(settings, format!("{had}\n{common}{own}\n")).unwrap();
        for _ in 0..ATTEMPTS {
            server.port = free_port();
            if server.launch() {
                return Some(Arc::new(server));
            }
        }
        panic!("Postgres does not start: {}", server.log());
    }

    /// An empty database.
    pub(crate) async fn database(self: &Arc<Self>, name: &str) -> Database {
        let database = Database {
            server: Arc::clone(self),
            name: name.to_owned(),
        };
        let template = format!("postgres://felix@127.0.0.1:{}/postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&template, NoTls).await.unwrap();
        let driver = tokio::spawn(connection);
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        drop(client);
        driver.await.unwrap().unwrap();
        database
    }

    /// Ends it at once, with whatever is under way.
    pub(crate) fn stop(&self) {
        let stopped = self.stopping();
        let said = String::from_utf8_lossy(&stopped.stderr);
        assert!(stopped.status.success(), "Postgres does not stop: {said}");
    }

    fn stopping(&self) -> Output {
        let data = self.data();
        let data = data.to_str().unwrap();
        self.output("pg_ctl", &["stop", "-m", "immediate", "-w", "-D", data])
    }

    /// Starts it again, at the same port.
    pub(crate) fn start_again(&self) {
        assert!(
            self.launch(),
            "Postgres does not start again: {}",
            self.log()
        );
    }

    fn launch(&self) -> bool {
        let (data, log) = (self.data(), self.folder.path().join("log"));
        let port = format!("-p {}", self.port);
        let arguments = [
            "start",
            "-w",
            "-D",
            data.to_str().unwrap(),
            "-l",
            log.to_str().unwrap(),
            "-o",
            &port,
        ];
        self.output("pg_ctl", &arguments).status.success()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Postgres refuses to run as root.
    fn own_folder(&self) {
        let Some((user, group)) = self.user else {
            return;
        };
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            chown(entry.unwrap().path(), Some(user), Some(group)).unwrap();
        }
        chown(self.folder.path(), Some(user), Some(group)).unwrap();
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.output(program, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.programs.join(program));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        // The server inherits what pg_ctl has; a pipe would stay open as long as it runs.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let complaints = self.folder.path().join(format!("{program}.err"));
        command.stderr(fs::File::create(&complaints).unwrap());
        let status = command
            .status()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let stderr = fs::read(complaints).unwrap();
        Output {
            status,
            stdout: Vec::new(),
            stderr,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stopping());
    }
}

impl Database {
    /// Where it is.
    pub(crate) fn url(&self) -> String {
        format!(
            "postgres://felix@127.0.0.1:{}/{}",
            self.server.port, self.name
        )
    }

    /// The same, by way of a relay.
    pub(crate) async fn relay(&self) -> (Relay, String) {
        let relay = Relay::to(self.server.port).await;
        let own = format!(":{}/", self.server.port);
        let url = self.url().replace(&own, &format!(":{}/", relay.port));
        (relay, url)
    }

    /// The same under a name that a certificate can have.
    pub(crate) fn url_by_name(&self) -> String {
        self.url().replace("127.0.0.1", "localhost")
    }

    /// Runs statements in it.
    pub(crate) async fn execute(&self, statements: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        let driver = tokio::spawn(connection);
        client.batch_execute(statements).await.unwrap();
        drop(client);
        driver.await.unwrap().unwrap();
    }
}

/// Where Postgres is installed: Debian keeps its programs out of the way, by version.
fn programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut folders: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    let has = |folder: &PathBuf| folder.join("initdb").exists() && folder.join("pg_ctl").exists();
    folders.into_iter().find(has)
}

/// Whom to run it as, where we are root: its own user, or nobody.
fn unprivileged() -> Option<(u32, u32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let own = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    if own.split_whitespace().next() != Some("0") {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
