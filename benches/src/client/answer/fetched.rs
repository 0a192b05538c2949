//! The answer to a fetch.

use super::super::cursor::Cursor;
use super::super::{Api, Problem};

/// What a fetch brought.
#[derive(Clone, Debug)]
pub struct Fetched<'a> {
    /// The id of the request.
    pub correlation: i32,
    /// 0, or why the whole fetch failed.
    pub error: i16,
    /// Milliseconds for which the broker held the answer back, or wants us to pause.
    pub throttle_ms: i32,
    /// What each partition brought.
    pub partitions: Partitions<'a>,
}

/// What a fetch brought of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchedPartition<'a> {
    /// Its number.
    pub partition: i32,
    /// 0, or why it brought nothing.
    pub error: i16,
    /// Offset after the last record that consumers may see; -1 with an error.
    pub high_watermark: i64,
    /// Batches, of which the last one may be cut off: [`batches`](crate::client::batches()) reads
    /// them.
    pub records: &'a [u8],
}

/// The partitions of a fetch, in the broker's order.
#[derive(Clone, Debug)]
pub struct Partitions<'a> {
    cursor: Cursor<'a>,
    left: u32,
}

/// Reads the answer to [`request::fetch`](crate::client::request::fetch). All of it is checked
/// here, so that walking the partitions cannot fail.
///
/// # Errors
/// It is none, or one about several topics.
pub fn fetched(frame: &[u8]) -> Result<Fetched<'_>, Problem> {
    let mut cursor = Cursor::new(frame, Api::Fetch);
    let correlation = cursor.i32()?;
    let throttle_ms = cursor.i32()?;
    let error = cursor.i16()?;
    cursor.i32()?; // session
    let left = match cursor.count()? {
        0 => 0,
        1 => {
            cursor.text()?;
            cursor.count()?
        }
        _ => return Err(cursor.wrong("is about several topics")),
    };
    let partitions = Partitions {
        cursor: cursor.clone(),
        left,
    };
    for _ in 0..left {
        partition(&mut cursor)?;
    }
    cursor.end()?;
    Ok(Fetched {
        correlation,
        error,
        throttle_ms,
        partitions,
    })
}

impl<'a> Iterator for Partitions<'a> {
    type Item = FetchedPartition<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(partition(&mut self.cursor).expect("all of it was read once before"))
    }
}

fn partition<'a>(cursor: &mut Cursor<'a>) -> Result<FetchedPartition<'a>, Problem> {
    let partition = cursor.i32()?;
    let error = cursor.i16()?;
    let high_watermark = cursor.i64()?;
    cursor.i64()?; // last stable offset
    cursor.i64()?; // log start
    for _ in 0..cursor.nullable_count()? {
        cursor.i64()?; // producer of an aborted transaction
        cursor.i64()?; // its first offset
    }
    cursor.i32()?; // replica to read from instead
    Ok(FetchedPartition {
        partition,
        error,
        high_watermark,
        records: cursor.blob()?,
    })
}
