//! Java: Apache Kafka's own programs, and ours over Apache Kafka's own client (`tests/java`).

use crate::binary::root;
use crate::process::Process;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const COMPILING_TIMEOUT: Duration = Duration::from_secs(120);

/// A Java that has what `scripts/setup-java.sh` fetches, to be told which class to run.
pub(crate) fn command(options: &[&str]) -> Command {
    let mut command = Command::new("java");
    command
        // Starting is most of what it does, and compiling more than it must does not pay.
        .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
        .args(options);
    command
}

/// Where all that was fetched is, as Java takes it.
pub(crate) fn jars() -> PathBuf {
    let jars = root().join("tests/java/jars");
    assert!(
        jars.is_dir(),
        "{} is missing; `make test`, or scripts/setup-java.sh alone, sets it up",
        jars.display()
    );
    jars.join("*")
}

/// Starts a program of Apache Kafka's own, by the name of its class, and does not wait for it.
#[must_use]
pub fn start(class: &str, args: &[&str], input: Option<Vec<u8>>) -> Process {
    let mut command = command(&["-Xmx256m", "-cp"]);
    command.arg(jars()).arg(class).args(args);
    Process::start(&format!("{class} {}", args.join(" ")), &mut command, input)
}

/// A program of ours, compiled for one test.
#[derive(Debug)]
pub struct Program {
    class: &'static str,
    classes: TempDir,
}

impl Program {
    /// Compiles `tests/java/<class>.java`.
    #[must_use]
    pub fn compile(class: &'static str) -> Self {
        let classes = tempfile::tempdir().expect("a temporary directory can be made");
        let mut command = Command::new("javac");
        command
            // It knows the ways of signals, which no public class does.
            .arg("-XDignore.symbol.file")
            .arg("-cp")
            .arg(jars())
            .arg("-d")
            .arg(classes.path())
            .arg(root().join(format!("tests/java/{class}.java")));
        let compiling = Process::start(&format!("javac {class}"), &mut command, None);
        drop(compiling.finish(COMPILING_TIMEOUT).ok());
        Self { class, classes }
    }

    /// Starts it and does not wait for it.
    #[must_use]
    pub fn start(&self, args: &[&str]) -> Process {
        let path = [self.classes.path().to_owned(), jars()];
        let path = std::env::join_paths(path).expect("no colon is in them");
        let mut command = command(&["-Xmx128m", "-cp"]);
        command.arg(path).arg(self.class).args(args);
        let name = format!("{} {}", self.class, args.join(" "));
        Process::start(&name, &mut command, None)
    }
}
