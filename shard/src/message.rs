//! What cores say to each other: plain values, batches and bytes.

use crate::watches::Watched;
use felix_core::shards::{
    Append, Appended, FetchPart, Fetched, OffsetAnswer, OffsetQuery, ShardState,
};
use felix_core::{Monotonic, ShardError, ShardId};

/// One result per append.
pub(crate) type Appends = Vec<Result<Appended, ShardError>>;
/// One result per part.
pub(crate) type Parts = Vec<Result<Part, ShardError>>;
/// One result per query.
pub(crate) type Offsets = Vec<Result<OffsetAnswer, ShardError>>;

/// What a requester asks an owner to read.
#[derive(Debug)]
pub(crate) struct ReadRequest {
    /// In the order to be filled.
    pub(crate) parts: Vec<FetchPart>,
    /// At most this many bytes in all, but the first batch found may be larger.
    pub(crate) bytes_max: usize,
    /// So large may the first batch found be in any case.
    pub(crate) first_bytes_max: usize,
}

/// A shard's part of a read.
#[derive(Debug)]
pub(crate) struct Part {
    /// The answer.
    pub(crate) fetched: Fetched,
    /// A limit ended it: there is more, so waiting would add nothing.
    pub(crate) cut: bool,
    /// Bytes that the shard had committed, of the same moment as the answer.
    pub(crate) level: u64,
}

/// From a requester to an owner. Those with a slot hold a credit.
#[derive(Debug)]
pub(crate) enum Request {
    /// Append these, in order.
    Append {
        /// Where the replies go.
        slot: u64,
        /// When it was sent.
        sent: Monotonic,
        /// What to append.
        appends: Vec<Append>,
        /// What has no place by then is refused.
        deadline: Option<Monotonic>,
    },
    /// Read these.
    Fetch {
        /// Where the replies go.
        slot: u64,
        /// When it was sent.
        sent: Monotonic,
        /// What to read.
        read: ReadRequest,
    },
    /// Find these offsets.
    Offsets {
        /// Where the replies go.
        slot: u64,
        /// When it was sent.
        sent: Monotonic,
        /// What to find.
        queries: Vec<OffsetQuery>,
    },
    /// Say so once, when these shards have committed enough between them.
    Watch {
        /// The requester's number for the fetch.
        watch: u64,
        /// Which of its watches.
        chunk: u32,
        /// What the requester has seen of the shards.
        shards: Vec<Watched>,
        /// How many bytes more it waits for.
        bytes: u64,
    },
    /// Forget a watch.
    Unwatch {
        /// The requester's number for the fetch.
        watch: u64,
        /// Which of its watches.
        chunk: u32,
    },
    /// Nobody waits for the answer to the request any more. It is still answered, with anything.
    Cancel {
        /// The request's slot.
        slot: u64,
    },
    /// A shard of the sender changed its state.
    State {
        /// Which.
        shard: ShardId,
        /// Its state now.
        state: ShardState,
    },
    /// The sender asks nothing more and awaits nothing more.
    Goodbye,
}

/// From an owner to a requester.
#[derive(Debug)]
pub(crate) enum Reply {
    /// About one request.
    Slot {
        /// The request's slot.
        slot: u64,
        /// Whether this returns the request's credit.
        credit: bool,
        /// What there is to say.
        body: Body,
    },
    /// These watches have something to see.
    Wake(Vec<u64>),
}

/// What there is to say about a request.
#[derive(Debug)]
pub(crate) enum Body {
    /// It is in line at its shards; the answer follows.
    Queued,
    /// All its batches are placed; the answer follows.
    Admitted,
    /// Answer to an append.
    Appended(Appends),
    /// Answer to a fetch.
    Fetched(Parts),
    /// Answer to an offset query.
    Found(Offsets),
}

impl From<Parts> for Body {
    fn from(parts: Parts) -> Self {
        Self::Fetched(parts)
    }
}

impl From<Offsets> for Body {
    fn from(offsets: Offsets) -> Self {
        Self::Found(offsets)
    }
}
