//! The answer to a produce.

use super::super::cursor::Cursor;
use super::super::{Api, Problem};

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Produced {
    /// The id of the request.
    pub correlation: i32,
    /// Where the batch was to go.
    pub partition: i32,
    /// 0: it was appended. [`error_name`](crate::client::error_name) tells the others.
    pub error: i16,
    /// Offset of its first record; -1 with an error.
    pub base_offset: i64,
    /// Milliseconds for which the broker held the answer back, or wants us to pause.
    pub throttle_ms: i32,
}

/// Reads the answer to [`request::produce`](crate::client::request::produce).
///
/// # Errors
/// It is none, or one about another number of partitions than one.
pub fn produced(frame: &[u8]) -> Result<Produced, Problem> {
    let mut cursor = Cursor::new(frame, Api::Produce);
    let correlation = cursor.i32()?;
    if cursor.count()? != 1 {
        return Err(cursor.wrong("is not about one topic"));
    }
    cursor.text()?;
    if cursor.count()? != 1 {
        return Err(cursor.wrong("is not about one partition"));
    }
    let partition = cursor.i32()?;
    let error = cursor.i16()?;
    let base_offset = cursor.i64()?;
    cursor.i64()?; // append time
    cursor.i64()?; // log start
    let throttle_ms = cursor.i32()?;
    cursor.end()?;
    Ok(Produced {
        correlation,
        partition,
        error,
        base_offset,
        throttle_ms,
    })
}
