//! What every client tries.

/// Of groups.
pub(crate) const NO_GROUPS: &str = "Felix has no Kafka consumer groups; assign partitions instead. See docs/kafka-compatibility.md";
/// Of transactions.
pub(crate) const NO_TRANSACTIONS: &str = "Felix does not support Kafka transactions; unset transactional.id. See docs/kafka-compatibility.md";

/// One thing to try.
#[derive(Debug)]
pub(crate) struct Cell {
    /// What the programs know it as.
    pub(crate) name: &'static str,
    /// The column of the page that it belongs to.
    pub(crate) column: &'static str,
    /// What a client tells that can do it.
    ordinary: Ordinary,
    /// It goes through a relay that loses answers.
    pub(crate) loses: bool,
    /// It is told that this is not to be had, and must end by itself.
    pub(crate) refuses: bool,
}

#[derive(Debug)]
enum Ordinary {
    /// What it wrote is looked at instead.
    Anything,
    Exactly(&'static str),
    Containing(&'static str),
}

impl Cell {
    /// Whether a client that can do it would tell this.
    pub(crate) fn is_ordinary(&self, detail: &str) -> bool {
        match self.ordinary {
            Ordinary::Anything => true,
            Ordinary::Exactly(text) => detail == text,
            Ordinary::Containing(text) => detail.contains(text),
        }
    }
}

/// In the order in which they are tried and shown.
pub(crate) const CELLS: &[Cell] = &[
    read("list", "list", "given.read:2"),
    write("acks-0", "acks 0, 1, all"),
    write("acks-1", "acks 0, 1, all"),
    write("acks-all", "acks 0, 1, all"),
    write("none", "codecs"),
    write("gzip", "codecs"),
    write("snappy", "codecs"),
    write("lz4", "codecs"),
    write("zstd", "codecs"),
    write("idempotent", "idempotent"),
    read("earliest", "assign", "0:given-0 1:given-1 2:given-2"),
    read("latest", "assign", "latest-0"),
    read("offset", "assign", "40:given-40 41:given-41 42:given-42"),
    read("timestamp", "assign", "56:given-56 57:given-57 58:given-58"),
    read("headers", "headers", "a=1 a=2 b=null c="),
    read(
        "nulls",
        "null, empty",
        "null-value=null empty-value= null=null-key =empty-key",
    ),
    read("large", "900 KB", "900000"),
    read("huge", "5 MB", "5000000"),
    read(
        "seek",
        "seek",
        "10:given-10 11:given-11 12:given-12 90:given-90 91:given-91 92:given-92",
    ),
    read("tail", "tail", "tail-0 tail-1 tail-2"),
    read("ends", "ends", "0 100"),
    refused("group", "group", NO_GROUPS),
    refused("transaction", "transaction", NO_TRANSACTIONS),
    Cell {
        refuses: true,
        ..cell(
            "group-assign",
            "group.id, assign",
            Ordinary::Containing(NO_GROUPS),
        )
    },
    Cell {
        loses: true,
        ..write("lost", "lost answers")
    },
    Cell {
        loses: true,
        ..write("lost-idempotent", "lost, idempotent")
    },
];

const fn cell(name: &'static str, column: &'static str, ordinary: Ordinary) -> Cell {
    Cell {
        name,
        column,
        ordinary,
        loses: false,
        refuses: false,
    }
}

const fn write(name: &'static str, column: &'static str) -> Cell {
    cell(name, column, Ordinary::Anything)
}

const fn read(name: &'static str, column: &'static str, detail: &'static str) -> Cell {
    cell(name, column, Ordinary::Exactly(detail))
}

const fn refused(name: &'static str, column: &'static str, sentence: &'static str) -> Cell {
    Cell {
        refuses: true,
        ..cell(name, column, Ordinary::Containing(sentence))
    }
}
