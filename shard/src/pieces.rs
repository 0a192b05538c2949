//! Cutting bytes of our own log at batch boundaries.

use bytes::Bytes;
use felix_core::Offset;
use felix_core::batch::HEADER_BYTES;

/// Whole batches from the front of some pieces.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Whole batches.
    pub(crate) pieces: Vec<Bytes>,
    /// Their bytes.
    pub(crate) bytes: usize,
    /// Their records.
    pub(crate) records: u64,
    /// The offset after the last of them; `None` where there is none.
    pub(crate) end: Option<Offset>,
}

/// A piece does not consist of whole batches: its byte at this position begins none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Torn {
    pub(crate) position: usize,
}

/// As many whole batches from the front as fit in `bytes_max`; the first even if it does not,
/// where `first_whole`.
pub(crate) fn take_whole(
    pieces: Vec<Bytes>,
    bytes_max: usize,
    first_whole: bool,
) -> Result<Taken, Torn> {
    let mut taken = Taken {
        pieces: Vec::with_capacity(pieces.len()),
        ..Taken::default()
    };
    for mut piece in pieces {
        let mut position = 0;
        let mut full = false;
        while position < piece.len() {
            let batch = batch_at(&piece, position).ok_or(Torn { position })?;
            let always = first_whole && taken.bytes == 0;
            if taken.bytes + batch.bytes > bytes_max && !always {
                full = true;
                break;
            }
            taken.bytes += batch.bytes;
            taken.records += u64::from(batch.records);
            taken.end = Some(batch.end);
            position += batch.bytes;
        }
        piece.truncate(position);
        if !piece.is_empty() {
            taken.pieces.push(piece);
        }
        if full {
            break;
        }
    }
    Ok(taken)
}

struct Extent {
    bytes: usize,
    records: u32,
    end: Offset,
}

/// The batch at `position`, if a whole one is there (layout: `docs/log-format.md`).
fn batch_at(piece: &Bytes, position: usize) -> Option<Extent> {
    let rest = piece.get(position..)?;
    let header = rest.get(..HEADER_BYTES)?;
    let base = i64::from_be_bytes(header.get(0..8)?.try_into().ok()?);
    let length = u32::from_be_bytes(header.get(8..12)?.try_into().ok()?);
    let last_delta = i32::from_be_bytes(header.get(23..27)?.try_into().ok()?);
    let records = i32::from_be_bytes(header.get(57..61)?.try_into().ok()?);
    let bytes = usize::try_from(length).ok()?.checked_add(12)?;
    if bytes < HEADER_BYTES || bytes > rest.len() {
        return None;
    }
    let end = base.checked_add(i64::from(last_delta))?.checked_add(1)?;
    Some(Extent {
        bytes,
        records: u32::try_from(records).ok()?,
        end: Offset::from_wire(end)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixed part of a batch of `count` records and `bytes` bytes: all that is looked at.
    fn batch(base: i64, count: i32, bytes: usize) -> Vec<u8> {
        let mut batch = vec![0_u8; bytes];
        batch[0..8].copy_from_slice(&base.to_be_bytes());
        batch[8..12].copy_from_slice(&u32::try_from(bytes - 12).unwrap().to_be_bytes());
        batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
        batch[57..61].copy_from_slice(&count.to_be_bytes());
        batch
    }

    fn pieces() -> Vec<Bytes> {
        let first = [batch(5, 2, 100), batch(7, 1, 80)].concat();
        vec![Bytes::from(first), Bytes::from(batch(8, 10, 200))]
    }

    #[test]
    fn a_limit_cuts_between_batches_and_never_within() {
        for (bytes_max, bytes, records, end) in [
            (99, 0, 0, None),
            (100, 100, 2, Some(7)),
            (179, 100, 2, Some(7)),
            (180, 180, 3, Some(8)),
            (379, 180, 3, Some(8)),
            (380, 380, 13, Some(18)),
            (usize::MAX, 380, 13, Some(18)),
        ] {
            let taken = take_whole(pieces(), bytes_max, false).unwrap();
            assert_eq!(
                (taken.bytes, taken.records, taken.end),
                (bytes, records, end.map(Offset::new)),
                "{bytes_max}"
            );
            assert_eq!(taken.pieces.iter().map(Bytes::len).sum::<usize>(), bytes);
        }
    }

    #[test]
    fn the_first_batch_comes_whole_where_asked_and_only_the_first() {
        let taken = take_whole(pieces(), 1, true).unwrap();
        assert_eq!((taken.bytes, taken.end), (100, Some(Offset::new(7))));
    }

    #[test]
    fn a_torn_piece_is_told_by_its_position() {
        let mut torn = pieces();
        torn[0].truncate(150);
        assert_eq!(
            take_whole(torn, usize::MAX, false).unwrap_err(),
            Torn { position: 100 }
        );
    }
}
