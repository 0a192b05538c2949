//! Every fixed bound, in one place, each with its reason. What an operator may change is a setting
//! (in the broker) whose default and range refer to these.

use std::time::Duration;

/// Bytes a batch may hold once decompressed. A bomb stops here; an honest producer's batch is
/// three orders of magnitude smaller. Answer: MESSAGE_TOO_LARGE.
pub const BATCH_DECOMPRESSED_BYTES_MAX: usize = 16 << 20;

/// Bytes of a batch, as sent and decompressed, up to which a core parses it itself. Beyond, the
/// work would outlast a turn of the core and goes to a side thread.
pub const BATCH_BYTES_ON_CORE_MAX: usize = 128 << 10;

/// The same for a gzip batch as sent: its format lets few bytes ask for much work that nobody can
/// see before it is done (tables of codes for a byte or two).
pub const GZIP_BYTES_ON_CORE_MAX: usize = 16 << 10;

/// Bytes that the batches of one request may hold once decompressed, all together: a request of
/// many bombs stops here. Answer for the partitions beyond: MESSAGE_TOO_LARGE.
pub const REQUEST_DECOMPRESSED_BYTES_MAX: usize = 64 << 20;

/// Jobs of one core that may be with the side threads for heavy work. Further ones wait in line on
/// their core, so that no core is in another's way.
pub const HEAVY_JOBS_PER_CORE_MAX: usize = 4;

/// Searches of one core that may hold a batch that is too much work for it, one of each shard: a
/// device that is stuck under one shard leaves the searches of others their places. Further ones
/// wait in line.
pub const HEAVY_SEARCHES_IN_FLIGHT_MAX: usize = 4;

/// Those of them that may have their job with the side threads. Fewer than the core may have there,
/// so that clients that search leave the threads to those who publish.
pub const HEAVY_SEARCH_JOBS_PER_CORE_MAX: usize = 1;

/// Steps of TLS handshakes of one core that may be with the side threads for heavy work. Fewer than
/// the core may have there, so that clients that connect leave places to those who publish.
pub const HANDSHAKE_JOBS_PER_CORE_MAX: usize = 2;

/// Bytes of one Kafka request after authentication, the length prefix not counted. Answer: the
/// connection is closed and the reason logged.
pub const REQUEST_BYTES_MAX: usize = 8 << 20;

/// Bytes of one Kafka request before authentication: enough for any SASL exchange, too little to
/// make an unknown peer's buffers matter.
pub const REQUEST_BYTES_BEFORE_AUTH_MAX: usize = 64 << 10;

/// Bytes of a token, as a peer shows it: more than any signed one takes, and hashed in some
/// microseconds. Answer: SASL_AUTHENTICATION_FAILED.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// How long the answer to refused credentials is held back, and the connection's end with it, so
/// that guessing is slow. Nobody else waits for it. Kafka's
/// `connection.failed.authentication.delay.ms`.
pub const AUTHENTICATION_FAILURE_DELAY: Duration = Duration::from_millis(100);

/// How long a connection outlives the answer that refused its peer, unless the peer closes it, or
/// sends more, before: some clients drop an answer that comes together with the end of the
/// connection, and their users are to read why. It has its place within the limits meanwhile.
pub const REFUSED_PARTING_MAX: Duration = Duration::from_millis(250);

/// Array elements (topics, partitions, keys) that one Kafka request may declare in all. Each takes
/// some fifty times the bytes in memory that it may take on the wire, so the bytes of the frame are
/// no bound by themselves, nor of the time that an answer takes. A consumer of 10,000 topics of one
/// partition has room. Answer: the connection is closed and the reason logged.
pub const REQUEST_ELEMENTS_MAX: usize = 1 << 15;

/// Bytes of one batch in a log: one comes in a request. A length above it is damage, and never
/// allocated. May be raised; lowered, it would refuse logs that were whole.
pub const BATCH_BYTES_MAX: usize = REQUEST_BYTES_MAX;

/// Requests of one connection that may await their answers. Over it the connection is not read
/// until one is answered.
pub const REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX: usize = 256;

/// Fetches of one connection that may wait at once. A client has one, or two while it changes its
/// mind; each may bring a batch of the greatest size. One more ends those that wait.
pub const FETCHES_IN_FLIGHT_PER_CONNECTION_MAX: usize = 8;

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

/// How long after its first append a segment is sealed, where nobody says otherwise: Kafka's
/// `segment.ms`, so that retention by age takes no longer to reach a quiet log than there.
pub const SEGMENT_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Offsets kept free behind the end of every log, so that what an index entry says, whatever it is
/// (32 bits), still is an offset. No honest log comes near: a million records a second take 292,000
/// years. Answer: the log is refused, and an append is a storage error.
pub const LOG_ROOM: u64 = 1 << 32;

/// Bytes written to a shard and not yet committed. Over it further appends wait at the shard, and
/// only the connections that sent them stop being read.
pub const SHARD_UNCOMMITTED_BYTES_MAX: usize = 32 << 20;

/// Shards that the waiting Fetches of one core may watch, all together. One that is watched takes
/// some 160 bytes more for as long as the Fetch waits (measured with 400 polls of 1024 shards), so
/// these are 20 MiB. Room for ten thousand consumers of a dozen partitions. Answer: a Fetch beyond
/// it looks again half way and at its deadline.
pub const WATCHED_SHARDS_PER_CORE_MAX: usize = 1 << 17;

/// Shards that one Fetch may watch however many others watch, so that few consumers of everything
/// slow down none of a few partitions. The eight Fetches of a connection then take less than the
/// 16 KiB that a connection may hold in any case.
pub const WATCHED_SHARDS_IN_ANY_CASE_MAX: usize = 8;

/// Requests one core may have on the way to another at once: the credits of a lane.
pub const LANE_CREDITS: usize = 256;

/// Flushes that all cores together have submitted to one device at once. Enough for a device's queue,
/// few enough for reads to come between them: a thousand shards take three fifths of the time that they
/// take with 32, and half of that with 16 (`docs/decisions/0009-flushes.md`). Each core has an equal
/// share.
pub const DEVICE_FLUSHES_IN_FLIGHT_MAX: usize = 64;

/// The least share of a core, however many there are: one of an append that waits for its flush, and
/// one that nobody waits for.
pub const DEVICE_FLUSHES_PER_CORE_MIN: usize = 2;

/// Files that the flush of one shard has submitted at once: the last segment and the one before it.
/// A shard that lies behind after many rolls takes no more of what others need.
pub const FILES_FLUSHED_AT_ONCE_MAX: usize = 2;

/// Flushes of one core that nobody waits for any more, because they take too long. With more than
/// that the whole core waits for devices that hang.
pub const LATE_FLUSHES_MAX: usize = 256;

/// Threads for file work that one shard holds at once, whatever is stuck under it: one for what somebody
/// waits for and one beside it. Eighteen such shards leave a core none.
pub const FILE_WORK_PER_SHARD_MAX: usize = 2;

/// Shards of one core and device for which space is prepared at once. Each takes one of the core's
/// threads for file work while it writes and flushes a step; two, and as many that take too long to be
/// waited for, leave the others to what somebody waits for.
pub const PREPARATIONS_IN_FLIGHT_MAX: usize = 2;

/// Shards of one core and device that have the kernel begin to write to it at once. Each takes one of
/// the core's threads for file work for as long as the device's queue is full; as many that take too
/// long besides.
pub const WRITE_BACKS_IN_FLIGHT_MAX: usize = 2;

/// A larger batch is written to its log by a thread beside the core: `pwrite` takes some 100 us for so
/// much where the file has space, and several times that where it has none, and everybody on the core
/// would wait for it.
pub const WRITE_ON_CORE_BYTES_MAX: usize = 256 << 10;

/// Shards of one core and device whose large batches are written at once; as many that take too long
/// besides.
pub const LARGE_WRITES_IN_FLIGHT_MAX: usize = 2;

/// Shards of one core and device whose generation is noted at once before their first append: many
/// share the commits of the file system's journal, and ten thousand that are written to at once after a
/// start leave threads to those whose segments are full.
pub const GENERATIONS_IN_FLIGHT_MAX: usize = 6;

/// Those of them that take too long, beside as many others.
pub const GENERATIONS_LATE_MAX: usize = 1;

/// Threads for file work that one device may take for large batches, and for what is done ahead of
/// appends and flushes.
pub const THREADS_OF_APPENDS_MAX: usize = 2
    * (PREPARATIONS_IN_FLIGHT_MAX + WRITE_BACKS_IN_FLIGHT_MAX + LARGE_WRITES_IN_FLIGHT_MAX)
    + GENERATIONS_IN_FLIGHT_MAX
    + GENERATIONS_LATE_MAX;

/// Reads and searches of one core that wait for the device at once; further ones wait in line, so
/// that readers of old data leave the device to writers.
pub const COLD_READS_IN_FLIGHT_MAX: usize = 64;

/// Those of them that one shard may have, so that a device that is stuck under one shard leaves
/// the readers of others theirs.
pub const COLD_READS_IN_FLIGHT_PER_SHARD_MAX: usize = COLD_READS_IN_FLIGHT_MAX / 4;

/// Kernel threads that may wait for devices on behalf of one core: one for each file that is flushed
/// or read. The kernel makes them when they are needed and ends them when they are not.
pub const DEVICE_WAITERS_MAX: usize = FILES_FLUSHED_AT_ONCE_MAX
    * (DEVICE_FLUSHES_IN_FLIGHT_MAX + LATE_FLUSHES_MAX)
    + COLD_READS_IN_FLIGHT_MAX;

/// Shards that one core opens at once: recovery reads whole segments, and the shards that are
/// open are served meanwhile.
pub const SHARDS_OPENING_MAX: usize = 4;

/// Shards of one core that are still being opened when nobody waits for them any more, because their
/// devices hang or they have much to read: each takes one of the core's threads at most. With more than
/// that the others wait.
pub const OPENINGS_LATE_MAX: usize = 2 * SHARDS_OPENING_MAX;

/// Shards of one core whose segments are written once more at once, after a failed write or flush: each
/// takes the space of a segment while it does.
pub const REWRITES_IN_FLIGHT_MAX: usize = 1;

/// Those that take too long to be waited for. They take the space of a segment, too, and may meet a
/// disk that has none left.
pub const REWRITES_LATE_MAX: usize = 2;

/// Threads that the openings of a core's shards hold at once, where the devices of all of them hang.
pub const OPENING_THREADS_MAX: usize =
    SHARDS_OPENING_MAX + OPENINGS_LATE_MAX + REWRITES_IN_FLIGHT_MAX + REWRITES_LATE_MAX;

/// Bytes that a stream may be told to keep at least. Nobody has as many; more would not fit the sums.
pub const RETENTION_BYTES_MAX: u64 = 1 << 60;

/// Seconds that a stream may be told to keep its records for, or to write to one segment for: some
/// centuries, which clocks can still tell.
pub const AGE_SECONDS_MAX: u64 = 10_000_000_000;

/// Batches of one producer whose landing place a shard remembers, so that one that is sent again is
/// answered with it (claim 184). Clients have five on the way at most. A producer that has written
/// as many takes some 2 KiB.
pub const PRODUCER_PLACES_MAX: usize = 64;

/// Producers that one shard knows (claim 186). Answer: the one that has written nothing for longest
/// is forgotten, and told so if it goes on: UNKNOWN_PRODUCER_ID, upon which clients begin anew.
pub const PRODUCERS_PER_SHARD_MAX: usize = 4096;

/// Memory that the shards of one core give to what they know of producers, in bytes: 40 shards full
/// of producers that write, or a thousand shards with 150 each. Answer: of the shard that takes most
/// the one is forgotten that has written nothing for longest.
pub const PRODUCER_BYTES_PER_CORE_MAX: usize = 256 << 20;

const _: () = assert!(PRODUCER_PLACES_MAX <= u8::MAX as usize);
const _: () =
    assert!(HEAVY_SEARCH_JOBS_PER_CORE_MAX + HANDSHAKE_JOBS_PER_CORE_MAX < HEAVY_JOBS_PER_CORE_MAX);
const _: () = assert!(WATCHED_SHARDS_IN_ANY_CASE_MAX < WATCHED_SHARDS_PER_CORE_MAX);
const _: () = assert!(REQUEST_BYTES_BEFORE_AUTH_MAX <= REQUEST_BYTES_MAX);
const _: () = assert!(TOKEN_BYTES_MAX < REQUEST_BYTES_BEFORE_AUTH_MAX);
const _: () = assert!(BATCH_BYTES_ON_CORE_MAX <= BATCH_DECOMPRESSED_BYTES_MAX);
const _: () = assert!(BATCH_DECOMPRESSED_BYTES_MAX <= REQUEST_DECOMPRESSED_BYTES_MAX);
const _: () = assert!(REQUEST_BYTES_MAX <= REQUEST_DECOMPRESSED_BYTES_MAX);
const _: () = assert!(REQUEST_BYTES_MAX <= PRODUCE_BYTES_IN_FLIGHT_PER_CONNECTION_MAX);
const _: () = assert!(REQUEST_BYTES_MAX <= SHARD_UNCOMMITTED_BYTES_MAX);
const _: () = assert!(FETCH_BYTES_MAX <= OUTBOUND_BYTES_PER_CONNECTION_MAX);
const _: () = assert!((BATCH_BYTES_MAX as u64) < SEGMENT_SPAN_MAX);
const _: () = assert!(REQUEST_BYTES_MAX <= BATCH_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_MAX <= FETCH_BYTES_MAX);
const _: () = assert!(SEGMENT_SPAN_MAX < LOG_ROOM);
