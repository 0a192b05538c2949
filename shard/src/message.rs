//! What cores say to each other: plain values, batches and bytes.

use felix_core::shards::{
    Append, Appended, FetchPart, Fetched, OffsetAnswer, OffsetQuery, ShardState,
};
use felix_core::{Monotonic, Offset, ShardError, ShardId};

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
    /// At most this many bytes in all, but the first batch found is always whole.
    pub(crate) bytes_max: usize,
}

/// A shard's part of a read.
#[derive(Debug)]
pub(crate) struct Part {
    /// The answer.
    pub(crate) fetched: Fetched,
    /// A byte limit ended it: there is more, so waiting would add nothing.
    pub(crate) cut: bool,
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
    /// Say so once, when one of the shards has a visible end other than the one named.
    Watch {
        /// The requester's number for it.
        watch: u64,
        /// The shards, and the visible ends the requester knows.
        known: Vec<(ShardId, Offset)>,
    },
    /// Forget a watch.
    Unwatch {
        /// The requester's number for it.
        watch: u64,
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
