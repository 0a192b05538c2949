//! What every client tries.

/// Of groups.
pub(crate) const NO_GROUPS: &str = "Felix has no Kafka consumer groups; assign partitions instead. See docs/kafka-compatibility.md";
/// Of transactions.
pub(crate) const NO_TRANSACTIONS: &str = "Felix does not support Kafka transactions; unset transactional.id. See docs/kafka-compatibility.md";

/// One thing to try.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Its name, which programs know it as unless [`Cell::program`] says another.
    pub(crate) name: &'static str,
    /// The column of the page that it belongs to.
    pub(crate) column: &'static str,
    /// What a client tells that can do it.
    ordinary: Ordinary,
    /// What happens meanwhile, between the client and the broker.
    pub(crate) happens: Happens,
    /// What the client shows the broker, and trusts.
    pub(crate) shows: Shows,
    /// It is told that this is not to be had, and must end by itself.
    pub(crate) refuses: bool,
    /// Each way to reach the broker on which it is possible has it in every run.
    pub(crate) is_everywhere: bool,
}

/// What happens between a client and its broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happens {
    Nothing,
    /// A relay loses answers to Produce.
    AnswersAreLost,
    /// A relay keeps the answers to one record back until the client gives it up.
    NoAnswerComes,
    /// The shard has to remember too many other producers.
    ProducersAreForgotten,
}

/// What a client shows a broker, and trusts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shows {
    /// What there is to show.
    WhatIsRight,
    /// It trusts another authority than the broker's.
    AnotherAuthority,
    /// A token that the broker does not know.
    AnotherToken,
    /// Another tenant's name with the token.
    AnotherTenant,
}

#[derive(Debug)]
enum Ordinary {
    /// What it wrote is looked at instead.
    Anything,
    Exactly(&'static str),
    Containing(&'static str),
}

impl Cell {
    /// What programs know it as. Whoever is not let in is asked for a list.
    pub(crate) fn program(&self) -> &'static str {
        match self.shows {
            Shows::WhatIsRight => self.name,
            Shows::AnotherAuthority | Shows::AnotherToken | Shows::AnotherTenant => "list",
        }
    }

    /// Whether a relay stands between the client and the broker.
    pub(crate) fn needs_relay(&self) -> bool {
        self.happens != Happens::Nothing
    }

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
    everywhere(read("list", "list", "given.read:2")),
    write("acks-0", "acks 0, 1, all"),
    write("acks-1", "acks 0, 1, all"),
    everywhere(write("acks-all", "acks 0, 1, all")),
    write("none", "codecs"),
    everywhere(write("gzip", "codecs")),
    write("snappy", "codecs"),
    write("lz4", "codecs"),
    write("zstd", "codecs"),
    everywhere(write("idempotent", "idempotent")),
    everywhere(read("earliest", "assign", "0:given-0 1:given-1 2:given-2")),
    read("latest", "assign", "latest-0"),
    read("offset", "assign", "40:given-40 41:given-41 42:given-42"),
    read("timestamp", "assign", "56:given-56 57:given-57 58:given-58"),
    read("headers", "headers", "a=1 a=2 b=null c="),
    read(
        "nulls",
        "null, empty",
        "null-value=null empty-value= null=null-key =empty-key",
    ),
    everywhere(read("large", "900 KB", "900000")),
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
        happens: Happens::AnswersAreLost,
        ..everywhere(write("lost", "lost answers"))
    },
    Cell {
        happens: Happens::AnswersAreLost,
        ..everywhere(write("lost-idempotent", "lost, idempotent"))
    },
    Cell {
        happens: Happens::NoAnswerComes,
        ..write("timed-out", "timed out")
    },
    Cell {
        happens: Happens::ProducersAreForgotten,
        ..write("forgotten", "forgotten")
    },
    Cell {
        shows: Shows::AnotherToken,
        ..refused(
            "wrong-token",
            "wrong token",
            "Felix: token rejected: the token is not known here",
        )
    },
    Cell {
        shows: Shows::AnotherTenant,
        ..refused(
            "wrong-tenant",
            "wrong tenant",
            "Felix: token rejected: wrong tenant",
        )
    },
    Cell {
        shows: Shows::AnotherAuthority,
        ..refused("distrusted", "distrusted", "certificate")
    },
];

/// The same, to be had however the broker is reached; of what needs a relay, wherever one can stand in
/// between.
const fn everywhere(cell: Cell) -> Cell {
    Cell {
        is_everywhere: true,
        ..cell
    }
}

const fn cell(name: &'static str, column: &'static str, ordinary: Ordinary) -> Cell {
    Cell {
        name,
        column,
        ordinary,
        happens: Happens::Nothing,
        shows: Shows::WhatIsRight,
        refuses: false,
        is_everywhere: false,
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
