//! Where protocols meet the log: everything a listener may ask of the shards of this broker.
//!
//! The implementation (`felix-shard`'s router) finds the owner core: a call on the own core, one
//! message and one reply otherwise, never more than one hop.

use crate::batch::Batch;
use crate::{Generation, Monotonic, Offset, ShardError, ShardId, Timestamp};
use bytes::Bytes;
use std::future::Future;

/// When an append is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// Kafka's `acks=0`: nobody waits, yet errors are reported so that the listener can close.
    None,
    /// Kafka's `acks=1`: committed on the leader as its durability policy says.
    Leader,
    /// Kafka's `acks=all`: whatever the stream's consistency promises.
    All,
}

/// One batch for one shard.
#[derive(Debug)]
pub struct Append {
    /// Where it goes.
    pub shard: ShardId,
    /// What goes there.
    pub batch: Batch,
}

/// Where a batch landed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Offset of the batch's first record.
    pub base_offset: Offset,
    /// The append time, where the stream uses append time.
    pub append_time: Option<Timestamp>,
    /// The lowest offset that can be read.
    pub log_start: Offset,
}

/// One Fetch: what the client asked, resolved to shards.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The parts in the order asked. Answers come in the same order.
    pub parts: Vec<FetchPart>,
    /// Answer as soon as this many bytes are there (or an error is). 0 answers at once.
    pub bytes_min: usize,
    /// At most this many bytes in all, except that the first batch found may be larger.
    pub bytes_max: usize,
    /// So large may the first batch found be in any case. If it is larger still, it is left out,
    /// and nothing that would come after it is brought: see [`Fetched::left_out`].
    pub first_bytes_max: usize,
    /// Answer with what is there at this moment.
    pub deadline: Monotonic,
}

/// One shard of a Fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchPart {
    /// Which shard.
    pub shard: ShardId,
    /// First offset wanted; may lie inside a batch, which then comes whole.
    pub offset: Offset,
    /// At most this many bytes from this shard.
    pub bytes_max: usize,
    /// The leader epoch the client believes in; `None` is not checked.
    pub generation: Option<Generation>,
}

/// A shard's part of a Fetch answer. Marks and records are one snapshot.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Whole batches in order, never one that lies at or above the visible end, never a control
    /// batch. Pieces are to be sent one after the other; a piece may hold several batches.
    pub batches: Vec<Bytes>,
    /// The offset after the last data record a reader may see: high watermark and last stable
    /// offset of the answer.
    pub visible_end: Offset,
    /// The lowest offset that can be read.
    pub log_start: Offset,
    /// The first batch of all, where it is too large. At most one part of an answer has this, and
    /// none of them then has records. Seldom there, and boxed because of that.
    pub left_out: Option<Box<LeftOut>>,
}

/// A batch that is larger than [`Fetch::first_bytes_max`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// What was asked.
    pub part: FetchPart,
    /// The batch's size: whoever asks for the part with as much as `first_bytes_max` gets it.
    pub bytes: usize,
}

impl Fetched {
    /// Bytes of records in the answer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.batches.iter().map(Bytes::len).sum()
    }
}

/// Which offset is asked for (Kafka's ListOffsets and OffsetForLeaderEpoch).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffsetSpec {
    /// The log start.
    Earliest,
    /// The visible end.
    Latest,
    /// The first record of the first batch that has the greatest timestamp (KIP-734).
    MaxTimestamp,
    /// The first record whose timestamp is this or later.
    AtOrAfter(Timestamp),
    /// Where the records end of the greatest generation up to this one that has any (Kafka's
    /// OffsetForLeaderEpoch); never above the visible end. The answer's generation is that one.
    /// Nothing is found where this one has not begun.
    EndOf(Generation),
}

/// One shard of a ListOffsets or an OffsetForLeaderEpoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetQuery {
    /// Which shard.
    pub shard: ShardId,
    /// Which offset.
    pub spec: OffsetSpec,
    /// The leader epoch the client believes in; `None` is not checked.
    pub generation: Option<Generation>,
}

/// The answer to an [`OffsetQuery`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetAnswer {
    /// The offset, and the record's timestamp where one was searched for. `None`: no such record.
    pub found: Option<(Offset, Option<Timestamp>)>,
    /// The generation of the batch that holds the record, or the one asked for by
    /// [`OffsetSpec::EndOf`], or the current one.
    pub generation: Generation,
}

/// What the own core's table says of a shard. A hint: the owner's word counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShardState {
    /// Recovering; no leader yet.
    Opening,
    /// Served at this generation.
    Open(Generation),
    /// Refused service: damaged or poisoned.
    Failed,
}

/// Asks a waiting Fetch to answer with what it has. Lives on one CPU core, with its connection.
pub trait PollEnd: Clone + 'static {
    /// Resolves when the poll is to end; never, if nobody asks.
    ///
    /// It is first polled when the Fetch has read what there is and begins to wait: whoever asks
    /// may take that as the word that it does.
    fn ended(&self) -> impl Future<Output = ()> + 'static;
}

/// All shards of this broker, seen from one CPU core.
pub trait Shards: Clone + 'static {
    /// Hands batches to their owners, in order, and returns once each has its place in its log or is
    /// refused: awaiting this is the back-pressure. One that has waited for its place until
    /// `deadline` is refused. The future it returns resolves when each batch is committed as `acks`
    /// asks, one result per append and in the same order.
    fn append_until(
        &self,
        appends: Vec<Append>,
        acks: Acks,
        deadline: Option<Monotonic>,
    ) -> impl Future<
        Output = impl Future<Output = Vec<Result<Appended, ShardError>>> + use<Self> + 'static,
    > + use<Self>
    + 'static;

    /// As [`Shards::append_until`], however long it takes.
    fn append(
        &self,
        appends: Vec<Append>,
        acks: Acks,
    ) -> impl Future<
        Output = impl Future<Output = Vec<Result<Appended, ShardError>>> + use<Self> + 'static,
    > + use<Self>
    + 'static {
        self.append_until(appends, acks, None)
    }

    /// Reads, waiting for `bytes_min` until the deadline or until `end` asks. One result per part.
    fn fetch(
        &self,
        fetch: Fetch,
        end: impl PollEnd,
    ) -> impl Future<Output = Vec<Result<Fetched, ShardError>>> + 'static;

    /// Finds offsets. One result per query.
    fn offsets(
        &self,
        queries: Vec<OffsetQuery>,
    ) -> impl Future<Output = Vec<Result<OffsetAnswer, ShardError>>> + 'static;

    /// What this core's table says of the shard; `None`: no such shard here.
    fn state(&self, shard: ShardId) -> Option<ShardState>;
}
