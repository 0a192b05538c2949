//! The frame of the small files beside the segments: magic, version, payload, checksum. Drawn in
//! `docs/log-format.md`.

use super::error::{Fault, LogError, disk_error_in};
use crate::disk::{Calls, Dir};
use bytes::{Buf, BufMut, Bytes};

const VERSION: u32 = 1;
/// Magic, version and checksum.
const FRAME_BYTES: usize = 12;
/// More than a table ever has, and not too much to read: a million openings take 12 MB.
pub(super) const BYTES_MAX: u64 = 64 << 20;

/// Reads one of the small files; `None` where there is none.
pub(super) fn load(
    calls: &Calls<'_>,
    name: &str,
    magic: [u8; 4],
) -> Result<Option<Bytes>, LogError> {
    let damaged = |position: usize, fault| LogError::Damaged {
        dir: calls.path().to_owned(),
        file: name.to_owned(),
        position: position as u64,
        fault,
    };
    let disk = |cause| disk_error_in(calls.path(), "read", name, cause);
    if calls.size_of(name).map_err(disk)? > Some(BYTES_MAX) {
        return Err(damaged(0, Fault::Layout));
    }
    let Some(bytes) = calls.load(name).map_err(disk)? else {
        return Ok(None);
    };
    let payload = unframe(bytes, magic).map_err(|(position, fault)| damaged(position, fault))?;
    Ok(Some(payload))
}

/// The payload of one of the small files; where not, what is wrong at which position.
pub(super) fn unframe(bytes: Vec<u8>, magic: [u8; 4]) -> Result<Bytes, (usize, Fault)> {
    if bytes.len() < FRAME_BYTES {
        return Err((bytes.len(), Fault::Layout));
    }
    let covered = bytes.len() - 4;
    let (body, mut stated) = bytes.split_at(covered);
    if stated.get_u32() != crc32c::crc32c(body) {
        return Err((covered, Fault::Checksum));
    }
    let mut head = body;
    let mut found = [0; 4];
    head.copy_to_slice(&mut found);
    if found != magic || head.get_u32() != VERSION {
        return Err((0, Fault::Layout));
    }
    Ok(Bytes::from(bytes).slice(8..covered))
}

/// Puts one of the small files, framed, in the place of the one in `dir`.
pub(super) async fn replace(dir: &Dir, name: &str, bytes: Vec<u8>) -> Result<(), LogError> {
    dir.replace(name, bytes)
        .await
        .map_err(|error| LogError::replacing(dir, name, error))
}

/// A small file's bytes around its payload.
pub(super) fn frame(magic: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut frame = Frame::new(magic, payload.len());
    frame.put(|bytes| bytes.put_slice(payload));
    frame.into_bytes()
}

/// The bytes of a small file while its payload is still being written, in pieces: the checksum of a
/// large one takes time, too.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Vec<u8>,
    checksum: u32,
}

impl Frame {
    /// For a payload of about so many bytes.
    pub(super) fn new(magic: [u8; 4], payload_bytes: usize) -> Self {
        let mut frame = Self {
            bytes: Vec::with_capacity(FRAME_BYTES + payload_bytes),
            checksum: 0,
        };
        frame.put(|bytes| {
            bytes.put_slice(&magic);
            bytes.put_u32(VERSION);
        });
        frame
    }

    /// Has `write` add the next piece to the end.
    pub(super) fn put<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let before = self.bytes.len();
        let result = write(&mut self.bytes);
        let piece = self.bytes.get(before..).unwrap_or_default();
        self.checksum = crc32c::crc32c_append(self.checksum, piece);
        result
    }

    /// The whole file.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.put_u32(self.checksum);
        self.bytes
    }
}
