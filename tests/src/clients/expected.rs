//! What the cells of each client must tell, where that is not the ordinary:
//! `tests/clients/expected.tsv`.

use crate::binary::root;

/// Whether a cell went as its name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It did.
    Ok,
    /// It did not; the detail says why.
    No,
}

impl State {
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "ok" => Some(Self::Ok),
            "no" => Some(Self::No),
            _ => None,
        }
    }
}

/// The file: exceptions from what is ordinary.
#[derive(Debug)]
pub struct Expected {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    client: String,
    cell: String,
    state: State,
    text: String,
    note: Option<String>,
}

/// What is expected of a cell instead of the ordinary.
#[derive(Clone, Copy, Debug)]
pub struct Differs<'a> {
    /// Whether it goes as its name says.
    pub state: State,
    /// What its detail contains.
    pub text: &'a str,
    /// What the page says of it.
    pub note: &'a str,
}

impl Expected {
    /// Reads it.
    #[must_use]
    pub fn read() -> Self {
        let path = root().join("tests/clients/expected.tsv");
        let text = std::fs::read_to_string(&path).expect("it is in the repository");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self {
            rows: lines.map(Row::parse).collect(),
        }
    }

    /// What is expected of a cell of a client, if that is not the ordinary.
    #[must_use]
    pub fn of(&self, client: &str, cell: &str) -> Option<Differs<'_>> {
        let find = |client: &str| {
            let mut rows = self.rows.iter();
            rows.find(|row| row.client == client && row.cell == cell)
        };
        let row = find(client).or_else(|| find("*"))?;
        Some(Differs {
            state: row.state,
            text: &row.text,
            note: row.note.as_ref().unwrap_or(&row.text),
        })
    }

    /// Rows that name a client or a cell which is none of these.
    #[must_use]
    pub fn strangers(&self, clients: &[&str], cells: &[&str]) -> Vec<String> {
        let strange = |row: &&Row| {
            let client = row.client == "*" || clients.contains(&row.client.as_str());
            !client || !cells.contains(&row.cell.as_str())
        };
        let rows = self.rows.iter().filter(strange);
        rows.map(|row| format!("{} {}", row.client, row.cell))
            .collect()
    }
}

impl Row {
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let (client, cell, state, text, note) = match *fields.as_slice() {
            [client, cell, state, text] => (client, cell, state, text, None),
            [client, cell, state, text, note] => (client, cell, state, text, Some(note)),
            _ => panic!("expected.tsv: neither four nor five fields: {line:?}"),
        };
        assert!(!text.is_empty(), "expected.tsv: no text: {line:?}");
        Self {
            client: client.to_owned(),
            cell: cell.to_owned(),
            state: State::parse(state).expect("ok or no"),
            text: text.to_owned(),
            note: note.map(str::to_owned),
        }
    }
}
