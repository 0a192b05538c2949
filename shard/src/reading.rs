//! One read message at its owner core: parts filled in the order asked from one budget of bytes.
//! From memory, else from the page cache, else from the device without holding the core.

use crate::log::Read;
use crate::message::{Part, Parts, ReadRequest};
use crate::owner::Owner;
use crate::pieces::{Taken, take_whole};
use crate::placing::TIME_AT_ONCE_MAX;
use crate::shard::{Marks, Shard};
use bytes::Bytes;
use felix_core::shards::{FetchPart, Fetched, LeftOut};
use felix_core::{Monotonic, ShardError};
use std::rc::Rc;
use std::sync::Arc;
use std::vec;

/// What may be read in one go: everybody on the core waits for as much of it, several times in one
/// request.
const COST_AT_ONCE_MAX: usize = 128 << 10;

/// Parts that are read before the clock is looked at again: files take longer than memory.
const PARTS_BETWEEN_LOOKS: usize = 8;

/// What a part costs beside its bytes, in bytes.
const PART_COST: usize = 1 << 10;

/// What a piece costs beside its bytes, in bytes.
const PIECE_COST: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Reading {
    parts: vec::IntoIter<FetchPart>,
    bytes_left: usize,
    /// What the first batch may have in any case; 0 once one has been found.
    first_bytes_max: usize,
    done: Parts,
}

/// How a reading goes on.
#[derive(Debug)]
pub(crate) enum Next {
    /// The next part needs the device.
    Cold(Cold),
    /// There is more, and it is another task's turn.
    Pause,
    /// Every part has its result.
    Done,
}

/// A part that needs the device.
#[derive(Debug)]
pub(crate) struct Cold {
    shard: Rc<Shard>,
    part: FetchPart,
    marks: Marks,
    limit: usize,
    read: Read,
    begun: Monotonic,
}

impl Cold {
    /// Whose log it is in.
    pub(crate) fn shard(&self) -> Rc<Shard> {
        Rc::clone(&self.shard)
    }
}

impl Reading {
    pub(crate) fn new(request: ReadRequest) -> Self {
        let done = Vec::with_capacity(request.parts.len());
        Self {
            parts: request.parts.into_iter(),
            bytes_left: request.bytes_max,
            first_bytes_max: request.first_bytes_max,
            done,
        }
    }

    /// Reads on without waiting, for a while.
    pub(crate) fn advance(&mut self, owner: &Owner) -> Next {
        let mut cost = 0;
        let slice = self.slice(owner);
        while let Some(part) = self.parts.next() {
            match self.read_now(owner, part) {
                Ok(Now::Read(part)) => {
                    let fetched = &part.fetched;
                    cost += fetched.bytes() + PIECE_COST * fetched.batches.len();
                    self.done.push(Ok(part));
                }
                Ok(Now::Cold(cold)) => return Next::Cold(cold),
                Err(error) => self.done.push(Err(error)),
            }
            cost += PART_COST;
            let is_over = cost >= COST_AT_ONCE_MAX || self.is_over(slice, owner);
            if is_over && self.parts.len() > 0 {
                return Next::Pause;
            }
        }
        Next::Done
    }

    /// When a slice began, if it is of more parts than need no look at the clock.
    fn slice(&self, owner: &Owner) -> Option<Monotonic> {
        let is_long = self.parts.len() > PARTS_BETWEEN_LOOKS;
        is_long.then(|| owner.clock().monotonic())
    }

    fn is_over(&self, slice: Option<Monotonic>, owner: &Owner) -> bool {
        let looks = self.parts.len().is_multiple_of(PARTS_BETWEEN_LOOKS);
        slice.is_some_and(|begun| {
            looks && owner.clock().monotonic().until(begun) >= TIME_AT_ONCE_MAX
        })
    }

    /// Waits for the device, and takes what it gave.
    pub(crate) async fn finish(&mut self, owner: &Owner, cold: Cold) {
        let Cold {
            shard,
            part: asked,
            marks,
            limit,
            read,
            begun,
        } = cold;
        let suspect = Arc::clone(shard.suspect());
        let result = Arc::clone(&suspect).doing(read.run()).await;
        let _at_work = suspect.enter();
        // The shard may have failed, closed or changed its leader meanwhile.
        let part = shard.marks(Some(marks.generation)).and_then(|_| {
            let pieces = result.map_err(|error| owner.read_failed(&shard, &error))?;
            if let Some(bytes) = read.left_out() {
                return Ok(self.leave_out(asked, marks, bytes));
            }
            owner.has_read(begun);
            self.take(owner, &shard, marks, pieces, limit)
        });
        self.done.push(part);
    }

    /// One result per part, in the order asked.
    pub(crate) fn into_parts(self) -> Parts {
        debug_assert!(self.parts.len() == 0);
        self.done
    }

    fn read_now(&mut self, owner: &Owner, part: FetchPart) -> Result<Now, ShardError> {
        let shard = owner.shard(part.shard)?;
        let _at_work = shard.suspect().enter();
        let marks = shard.marks(part.generation)?;
        if part.offset < marks.log_start || part.offset > marks.log_end {
            return Err(ShardError::OffsetOutOfRange {
                log_start: marks.log_start,
                visible_end: marks.visible_end,
            });
        }
        if part.offset >= marks.visible_end {
            return Ok(Now::Read(answer(marks, Vec::new(), false)));
        }
        let limit = part.bytes_max.min(self.bytes_left);
        if limit == 0 && !self.is_first() {
            return Ok(Now::Read(answer(marks, Vec::new(), true)));
        }
        let first_bytes_max = self.first_bytes_max.max(limit);
        let below = marks.visible_end;
        if let Some(found) =
            owner
                .tail()
                .read(part.shard, part.offset, below, limit, self.is_first())
        {
            owner.metrics().tail_reads.increment();
            // Each piece is a batch here, and nothing has been copied.
            let first = found.pieces.first().map_or(0, Bytes::len);
            if first > first_bytes_max {
                return Ok(Now::Read(self.leave_out(part, marks, first)));
            }
            return Ok(Now::Read(self.spend(owner, marks, found)));
        }
        let begun = owner.clock().monotonic();
        let read = shard.read(part.offset, below, limit)?;
        let read = read.within(first_bytes_max);
        match read.try_now() {
            Some(result) => {
                owner.metrics().immediate_reads.increment();
                let pieces = result.map_err(|error| owner.read_failed(&shard, &error))?;
                Ok(Now::Read(match read.left_out() {
                    Some(bytes) => self.leave_out(part, marks, bytes),
                    None => {
                        owner.has_read(begun);
                        self.take(owner, &shard, marks, pieces, limit)?
                    }
                }))
            }
            None => {
                owner.metrics().cold_reads.increment();
                Ok(Now::Cold(Cold {
                    shard,
                    part,
                    marks,
                    limit,
                    read,
                    begun,
                }))
            }
        }
    }

    /// No batch has been found yet: the first one may be larger than what is left.
    fn is_first(&self) -> bool {
        self.first_bytes_max > 0
    }

    /// There is a batch and no room for it. Where it would have been the first, nothing else comes
    /// in its place, or a reader of several shards might never get past it.
    fn leave_out(&mut self, part: FetchPart, marks: Marks, bytes: usize) -> Part {
        let mut left = answer(marks, Vec::new(), true);
        if self.is_first() {
            left.fetched.left_out = Some(Box::new(LeftOut { part, bytes }));
            (self.bytes_left, self.first_bytes_max) = (0, 0);
        }
        left
    }

    /// The log gives at least one batch, which a later part may have no room for.
    fn take(
        &mut self,
        owner: &Owner,
        shard: &Shard,
        marks: Marks,
        pieces: Vec<Bytes>,
        limit: usize,
    ) -> Result<Part, ShardError> {
        let taken = take_whole(pieces, limit, self.is_first()).map_err(|torn| {
            let reason = format!("no whole batch {} bytes into a read", torn.position);
            owner.read_failed(shard, &reason)
        })?;
        Ok(self.spend(owner, marks, taken))
    }

    fn spend(&mut self, owner: &Owner, marks: Marks, taken: Taken) -> Part {
        let Taken {
            pieces,
            bytes,
            records,
            end,
        } = taken;
        assert!(end.is_none_or(|end| end <= marks.visible_end));
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        if bytes > 0 {
            self.first_bytes_max = 0;
        }
        let metrics = owner.metrics();
        metrics
            .read_bytes
            .add(u64::try_from(bytes).expect("a size fits 64 bits"));
        metrics.read_records.add(records);
        let cut = end.is_none_or(|end| end < marks.visible_end);
        answer(marks, pieces, cut)
    }
}

impl Owner {
    /// Batches were read from a log's files.
    fn has_read(&self, begun: Monotonic) {
        self.metrics()
            .read_us
            .record(begun, self.clock().monotonic());
    }
}

enum Now {
    Read(Part),
    Cold(Cold),
}

fn answer(marks: Marks, batches: Vec<Bytes>, cut: bool) -> Part {
    let Marks {
        visible_end,
        log_start,
        level,
        ..
    } = marks;
    Part {
        fetched: Fetched {
            batches,
            visible_end,
            log_start,
            left_out: None,
        },
        cut,
        level,
    }
}
