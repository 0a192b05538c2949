//! The batches of a segment's file, one after the other.

use crate::log::verify::CHUNK_BYTES;
use bytes::{Bytes, BytesMut};
use felix_core::batch::{HEADER_BYTES, Header};
use felix_core::limits::BATCH_BYTES_MAX;
use felix_core::{BatchError, PlacedBatch};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Steps from batch to batch, reading the file in chunks. Its size is that at the beginning: what a
/// broker appends meanwhile is not looked at.
#[derive(Debug)]
pub struct Batches {
    file: File,
    size: u64,
    position: u64,
    chunk: Bytes,
    chunk_start: u64,
}

/// What stands at a position of a segment's file.
#[derive(Debug)]
pub enum Stands {
    /// A batch, by its header, all there; its checksum is not verified.
    Batch(Header),
    /// Nothing more.
    End,
    /// No whole batch.
    Fault(BatchError),
}

impl Batches {
    /// Those of the file at `path`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = super::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            file,
            size,
            position: 0,
            chunk: Bytes::new(),
            chunk_start: 0,
        })
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where the next batch is looked for.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// What stands here.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn look(&mut self) -> io::Result<Stands> {
        let present = self.size.saturating_sub(self.position);
        if present == 0 {
            return Ok(Stands::End);
        }
        let head = self.hold(HEADER_BYTES)?;
        let header = match Header::read(&head) {
            Ok(header) => header,
            Err(fault) => return Ok(Stands::Fault(fault)),
        };
        // Before anything that size is read: no checksum covers the length.
        if header.size() > BATCH_BYTES_MAX {
            let length = header.length.cast_signed();
            return Ok(Stands::Fault(BatchError::BadLength { length }));
        }
        if header.size() as u64 > present {
            let present = usize::try_from(present).unwrap_or(usize::MAX);
            return Ok(Stands::Fault(BatchError::Truncated {
                needed: header.size(),
                present,
            }));
        }
        Ok(Stands::Batch(header))
    }

    /// The batch that stands here, all its rules checked but those of its records.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn verified(&mut self, header: &Header) -> io::Result<Result<PlacedBatch, BatchError>> {
        let mut bytes = self.hold(header.size())?;
        Ok(PlacedBatch::split_from(&mut bytes))
    }

    /// The header of what stands behind this batch, if it is one.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn behind(&mut self, header: &Header) -> io::Result<Option<Header>> {
        let here = self.position;
        self.skip(header);
        let behind = match self.look()? {
            Stands::Batch(header) => Some(header),
            Stands::End | Stands::Fault(_) => None,
        };
        self.position = here;
        Ok(behind)
    }

    /// Steps over the batch that stands here.
    pub fn skip(&mut self, header: &Header) {
        self.position += header.size() as u64;
    }

    /// Bytes from here up to the last that is not zero.
    ///
    /// # Errors
    /// The disk's own fault.
    pub fn occupied(&self) -> io::Result<u64> {
        let mut end = self.position;
        let mut at = self.position;
        let mut chunk = vec![0; CHUNK_BYTES];
        while at < self.size {
            let wanted =
                usize::try_from(self.size - at).map_or(CHUNK_BYTES, |n| n.min(CHUNK_BYTES));
            let part = chunk.get_mut(..wanted).unwrap_or_default();
            let read = read_at(&self.file, part, at)?;
            if read == 0 {
                break;
            }
            let part = part.get(..read).unwrap_or_default();
            if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
                end = at + last as u64 + 1;
            }
            at += read as u64;
        }
        Ok(end - self.position)
    }

    /// So many bytes from here on, or as many as there are.
    fn hold(&mut self, bytes: usize) -> io::Result<Bytes> {
        let at = self.position.checked_sub(self.chunk_start);
        let at = at.and_then(|at| usize::try_from(at).ok());
        if let Some(at) = at
            && let Some(held) = self.chunk.len().checked_sub(at)
            && held >= bytes
        {
            return Ok(self.chunk.slice(at..at + bytes));
        }
        let rest = usize::try_from(self.size - self.position).unwrap_or(usize::MAX);
        let mut chunk = BytesMut::zeroed(bytes.max(CHUNK_BYTES).min(rest));
        let read = read_at(&self.file, &mut chunk, self.position)?;
        chunk.truncate(read);
        self.chunk = chunk.freeze();
        self.chunk_start = self.position;
        Ok(self.chunk.slice(..bytes.min(self.chunk.len())))
    }
}

/// Fills `into` from there on, as far as the file goes.
fn read_at(file: &File, into: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        let part = into.get_mut(filled..).unwrap_or_default();
        match file.read_at(part, position + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
