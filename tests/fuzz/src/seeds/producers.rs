//! Producer snapshots: the one that a log wrote, and those that no log did.

use super::Seed;
use crate::targets::log::SEALED;
use crate::targets::producers::intact;
use bytes::{BufMut, BytesMut};
use felix_core::limits::PRODUCER_PLACES_MAX;

/// A file of this payload, to be sealed.
fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    bytes.put_u8(SEALED);
    bytes.put_slice(b"FLXP\0\0\0\x01");
    bytes.put_slice(payload);
    bytes.put_u32(0);
    bytes.to_vec()
}

/// A snapshot of the log end `end` with `count` producers, each of `places` batches of one record,
/// of whom the greatest sequence is owed that fits.
fn crafted(end: i64, count: i64, places: usize, owed: u64) -> Vec<u8> {
    let mut payload = BytesMut::new();
    payload.put_i64(end);
    payload.put_u32(count.try_into().expect("a seed is small"));
    for id in 0..count {
        payload.put_i64(id);
        payload.put_i16(0);
        payload.put_u64(owed);
        payload.put_u8(places.try_into().expect("a seed is small"));
        for place in 0..places {
            let place = i64::try_from(place).expect("a seed is small");
            payload.put_i64(id * 64 + place);
            payload.put_u32(1);
            payload.put_i64(-1);
        }
    }
    sealed(&payload)
}

/// Those that are believed, and those that must not be.
#[must_use]
pub fn snapshots() -> Vec<Seed> {
    let whole = [&[0], &intact()[..]].concat();
    let cut = whole[..whole.len() - 5].to_vec();
    let mut flipped = whole.clone();
    flipped[30] ^= 4;
    vec![
        Seed::ok("whole", whole),
        Seed::bad("cut", cut),
        Seed::bad("flipped", flipped),
        Seed::bad("nothing", [0]),
        Seed::ok("nobody", crafted(0, 0, 0, 0)),
        Seed::ok(
            "one-greatest-sequence",
            crafted(1, 1, 1, i64::MAX.cast_unsigned()),
        ),
        Seed::bad("sequence-too-great", crafted(1, 1, 1, u64::MAX)),
        Seed::bad("batches-before-the-first", crafted(1, 1, 1, 0)),
        Seed::bad("no-batch", crafted(1, 1, 0, 1)),
        Seed::bad("behind-the-end", crafted(i64::MAX, 1, 1, 1)),
        Seed::bad(
            "too-many-batches",
            crafted(1, 1, PRODUCER_PLACES_MAX + 1, 65),
        ),
        Seed::bad(
            "count-lies",
            sealed(&[0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]),
        ),
    ]
}
