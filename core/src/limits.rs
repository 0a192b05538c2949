//! Every fixed bound, in one place, each with its reason. What an operator may change is a setting
//! (in the broker) whose default and range refer to these.

/// Bytes a batch may hold once decompressed. A bomb stops here; an honest producer's batch is
/// three orders of magnitude smaller. Answer: MESSAGE_TOO_LARGE.
pub const BATCH_DECOMPRESSED_BYTES_MAX: usize = 16 << 20;

/// Bytes of one Kafka request after authentication, the length prefix not counted. Answer: the
/// connection is closed and the reason logged.
pub const REQUEST_BYTES_MAX: usize = 8 << 20;

/// Bytes of one Kafka request before authentication: enough for any SASL exchange, too little to
/// make an unknown peer's buffers matter.
pub const REQUEST_BYTES_BEFORE_AUTH_MAX: usize = 64 << 10;

/// Requests of one connection that may await their answers. Over it the connection is not read
/// until one is answered.
pub const REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX: usize = 256;

/// Bytes of unanswered produce requests of one connection. Over it the connection is not read
/// until some are answered. One request of the greatest size always fits.
pub const PRODUCE_BYTES_IN_FLIGHT_PER_CONNECTION_MAX: usize = 16 << 20;

/// Bytes of answers kept for a peer that reads slowly. Over it the connection is not read until
/// the peer has taken some.
pub const OUTBOUND_BYTES_PER_CONNECTION_MAX: usize = 16 << 20;

/// Milliseconds a Fetch may wait, whatever the client asks (claim 144).
pub const FETCH_WAIT_MS_MAX: u64 = 30_000;

/// Bytes of records in one Fetch answer, whatever the client asks. One whole batch is always
/// allowed, so that a reader moves on.
pub const FETCH_BYTES_MAX: usize = 16 << 20;

/// Bytes of a topic name (Kafka's bound).
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Shards of one stream.
pub const SHARDS_PER_STREAM_MAX: u32 = 1024;

/// Bytes and offsets of one segment stay below this, because both index files count in signed
/// 32-bit integers.
pub const SEGMENT_SPAN_MAX: u64 = i32::MAX as u64;

/// Bytes written to a shard and not yet committed. Over it further appends wait at the shard, and
/// only the connections that sent them stop being read.
pub const SHARD_UNCOMMITTED_BYTES_MAX: usize = 32 << 20;

/// Requests one core may have on the way to another at once: the credits of a lane.
pub const LANE_CREDITS: usize = 256;

const _: () = assert!(REQUEST_BYTES_BEFORE_AUTH_MAX <= REQUEST_BYTES_MAX);
const _: () = assert!(REQUEST_BYTES_MAX <= PRODUCE_BYTES_IN_FLIGHT_PER_CONNECTION_MAX);
const _: () = assert!(REQUEST_BYTES_MAX <= SHARD_UNCOMMITTED_BYTES_MAX);
const _: () = assert!(FETCH_BYTES_MAX <= OUTBOUND_BYTES_PER_CONNECTION_MAX);
const _: () = assert!(REQUEST_BYTES_MAX < SEGMENT_SPAN_MAX as usize);
