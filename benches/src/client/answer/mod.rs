//! Reads answers where they lie, without copying.
//!
//! A frame is what follows the length in front; [`first`] finds it in what was received. Nothing
//! that an answer says is believed further than its bytes reach.

mod admin;
mod fetched;
mod produced;
#[cfg(test)]
mod tests;

pub(super) use admin::{
    Described, Refusal, authenticated, created, deleted, end_offset, metadata, producer_id,
    sasl_mechanisms, versions,
};
pub use fetched::{Fetched, FetchedPartition, Partitions, fetched};
pub use produced::{Produced, produced};

use super::Problem;

/// Longer answers are none: what we ask for is bounded far below.
pub const FRAME_BYTES_MAX: usize = 256 << 20;

/// Bytes of the length in front of a frame.
pub const LENGTH_BYTES: usize = 4;

/// The first whole frame of what was received, without the length in front of it, which takes
/// [`LENGTH_BYTES`] more; `None` until all of the frame is there.
///
/// # Errors
/// A length that no answer of ours has: the peer speaks something else.
pub fn first(received: &[u8]) -> Result<Option<&[u8]>, Problem> {
    let Some((length, rest)) = received.split_first_chunk() else {
        return Ok(None);
    };
    Ok(rest.get(..checked_length(*length)?))
}

/// Bytes of the first whole frame, its length in front included; `None` until the length is there.
///
/// # Errors
/// As [`first`].
pub fn size(received: &[u8]) -> Result<Option<usize>, Problem> {
    let Some((length, _)) = received.split_first_chunk() else {
        return Ok(None);
    };
    Ok(Some(LENGTH_BYTES + checked_length(*length)?))
}

/// The correlation id that a frame begins with; `None` where it is too short for one.
#[must_use]
pub fn correlation(frame: &[u8]) -> Option<i32> {
    frame
        .split_first_chunk()
        .map(|(id, _)| i32::from_be_bytes(*id))
}

fn checked_length(length: [u8; LENGTH_BYTES]) -> Result<usize, Problem> {
    let length = u32::from_be_bytes(length);
    usize::try_from(length)
        .ok()
        .filter(|length| (LENGTH_BYTES..=FRAME_BYTES_MAX).contains(length))
        .ok_or_else(|| {
            Problem::new(format!(
                "the broker announced an answer of {length} bytes, which is none of Kafka's; does \
                 this port speak TLS, or another protocol?"
            ))
        })
}
