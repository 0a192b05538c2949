//! The programs of `tests/clients`, one for each Kafka client of the matrix, and what is expected of
//! them.

mod expected;
mod table;

use crate::process::Process;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub use expected::{Differs, Expected, State};
pub use table::{CLIENTS, Client};

/// Many cells end by a limit of their own; no program needs as long.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Where a client finds a broker, and who it is there.
#[derive(Clone, Debug)]
pub struct Access {
    /// A broker's shared address.
    pub bootstrap: String,
    /// A broker whose answers get lost, where there is one.
    pub lossy: Option<String>,
    /// A file with the certificate of who vouches for the broker, where it speaks TLS.
    pub ca: Option<PathBuf>,
    /// A user and a password, where it asks for them.
    pub user: Option<(String, String)>,
}

/// What a program told of one cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its name.
    pub cell: String,
    /// Whether it went as its name says.
    pub state: State,
    /// What the client saw or said.
    pub detail: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

impl Client {
    /// Whether its program is there: `scripts/setup-clients.sh` leaves out what a machine has no
    /// toolchain for.
    #[must_use]
    pub fn is_set_up(&self) -> bool {
        self.needs().iter().all(|path| path.exists())
    }

    /// Has its program try some cells; what it told of each, in their order.
    #[must_use]
    pub fn run(&self, access: &Access, cells: &[&str]) -> Vec<Line> {
        let mut command = self.command();
        let option = |name: &str, value: &str| format!("{name}={value}");
        command.arg(option("name", self.name));
        command.arg(option("bootstrap", &access.bootstrap));
        if let Some(lossy) = &access.lossy {
            command.arg(option("lossy", lossy));
        }
        if let Some(ca) = &access.ca {
            command.arg(option("ca", &ca.display().to_string()));
        }
        if let Some((user, password)) = &access.user {
            command.arg(option("user", user));
            command.arg(option("password", password));
        }
        command.args(cells);
        let finished = Process::start(self.name, &mut command, None).finish(TIMEOUT);
        let text = String::from_utf8_lossy(&finished.stdout);
        let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
        let told: Vec<&str> = lines.iter().map(|line| line.cell.as_str()).collect();
        assert_eq!(
            told, cells,
            "{} tells of each cell: {finished:?}",
            self.name
        );
        lines
    }

    fn command(&self) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }
}

impl Line {
    /// Other lines are what a client says by itself.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[cell, state, detail, took_ms] = fields.as_slice() else {
            return None;
        };
        Some(Self {
            cell: cell.to_owned(),
            state: State::parse(state)?,
            detail: detail.to_owned(),
            took_ms: took_ms.parse().ok()?,
        })
    }
}
