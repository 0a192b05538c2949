//! A record as a client read it.

/// What kcat is asked to print for each record, and what our scripts print too: partition, offset,
/// timestamp, key length (-1: no key), key, value. Neither keys nor values of our tests have tabs
/// or line breaks.
pub(crate) const FORMAT: &str = r"%p\t%o\t%T\t%K\t%k\t%s\n";

/// One record, read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Where it was read from.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
}

impl Record {
    /// All records in a client's output, in its order.
    #[must_use]
    pub fn parse_all(output: &[u8]) -> Vec<Self> {
        let lines = output
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines.map(Self::parse).collect()
    }

    fn parse(line: &[u8]) -> Self {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
        let &[partition, offset, timestamp, key_bytes, key, value] = fields.as_slice() else {
            panic!("not six fields: {:?}", String::from_utf8_lossy(line));
        };
        let key_bytes = number(key_bytes);
        let key = (key_bytes >= 0).then(|| key.to_vec());
        if let Some(key) = &key {
            assert_eq!(
                Ok(key.len()),
                usize::try_from(key_bytes),
                "the client counts its key"
            );
        }
        Self {
            partition: i32::try_from(number(partition)).expect("a partition is 32 bits wide"),
            offset: number(offset),
            timestamp: number(timestamp),
            key,
            value: value.to_vec(),
        }
    }
}

fn number(field: &[u8]) -> i64 {
    let text = std::str::from_utf8(field).expect("numbers are ASCII");
    text.parse()
        .unwrap_or_else(|_| panic!("not a number: {text:?}"))
}
