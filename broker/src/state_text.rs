//! The text of the state file: tables, and above them a line with their checksum.

use serde::Serialize;
use serde::de::DeserializeOwned;

const HEADER: &str = "# Written by the broker: identities of streams. Without it every stream \
                      here is lost. Do not edit.\n";

/// Begins the line of the checksum: the CRC-32C of every byte behind that line, in hexadecimal.
const CHECKSUM: &str = "checksum = ";

/// The tables as the file has them.
#[must_use]
pub(crate) fn write(tables: &impl Serialize) -> String {
    let body = toml::to_string(tables).expect("the state is plain tables");
    let checksum = checksum(&body);
    format!("{HEADER}{CHECKSUM}{checksum}\n{body}")
}

/// The tables in a file. One without a checksum was written before there were any.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = str::from_utf8(bytes)
        .map_err(|error| format!("it is no text from byte {} on", error.valid_up_to()))?;
    let mut rest = text;
    while let Some((line, below)) = rest.split_once('\n') {
        rest = below;
        if let Some(stated) = line.strip_prefix(CHECKSUM) {
            if stated != checksum(below) {
                return Err("its checksum does not match".into());
            }
            return parse(below);
        }
        if !line.is_empty() && !line.starts_with('#') {
            break;
        }
    }
    parse(text)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    // It shows the line, and ends with a line break that is one too many.
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

fn checksum(body: &str) -> String {
    format!("\"{:08x}\"", crc32c::crc32c(body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    #[serde(deny_unknown_fields)]
    struct Tables {
        number: u32,
    }

    #[test]
    fn what_is_written_reads_back_and_any_other_byte_is_seen() {
        let tables = Tables { number: 77 };
        let text = write(&tables);
        assert_eq!(read::<Tables>(text.as_bytes()), Ok(Tables { number: 77 }));
        for at in HEADER.len()..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                // A letter of the checksum's key may become the sign of a comment: then the tables
                // are whole, and are taken as those of a file without a checksum.
                if let Ok(found) = read::<Tables>(&bytes) {
                    assert_eq!((found, at), (Tables { number: 77 }, HEADER.len()));
                }
            }
        }
        let wrong = text.replace("77", "78");
        let fault = read::<Tables>(wrong.as_bytes()).unwrap_err();
        assert_eq!(fault, "its checksum does not match");
        let fault = read::<Tables>(b"number = 7\xff").unwrap_err();
        assert_eq!(fault, "it is no text from byte 10 on");
    }

    #[test]
    fn a_file_from_before_there_were_checksums_is_read() {
        for text in ["number = 3\n", "# from before\n\nnumber = 3"] {
            assert_eq!(read(text.as_bytes()), Ok(Tables { number: 3 }));
        }
        assert!(read::<Tables>(b"number = 3\nmore = 4\n").is_err());
    }
}
