//! Every fixed bound of the catalog, each with its reason.

use std::time::Duration;

/// Changes that are kept for followers. One that was away for longer starts over from a snapshot,
/// which is as large as the catalog and no larger.
pub const WINDOW_CHANGES: usize = 10_000;

/// Changes in one page of the feed.
pub const PAGE_CHANGES_MAX: usize = 1_000;

/// Shards that one edit may be about, a change each: all of the greatest stream. Far below the
/// window, so that no edit by itself makes its followers start over.
pub const EDIT_SHARDS_MAX: usize = 1_024;

/// Records of all kinds in a catalog. At some 500 bytes each a full one takes half a gigabyte.
/// Answer: the edit is refused.
pub const RECORDS_MAX: usize = 1_000_000;

/// Edits that wait for a store. Answer: who brings another waits for a place.
pub const WAITING_EDITS_MAX: usize = 1_024;

/// Edits that a store keeps at once: one flush, or one transaction of the database, serves them all.
pub const BATCH_EDITS_MAX: usize = 128;

/// How long a deleted stream can be restored, where nobody says otherwise.
pub const GRACE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The longest that anybody may say: disks do not fill with what nobody remembers.
pub const GRACE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Bytes of a name that is shown to people and means nothing.
pub const DISPLAY_NAME_BYTES_MAX: usize = 256;

/// Bytes of a host name (RFC 1035).
pub const HOST_BYTES_MAX: usize = 253;

/// Bytes of a rack's name, which clients are told in every Metadata.
pub const RACK_BYTES_MAX: usize = 64;

/// CPU cores of a node.
pub const CORES_MAX: u16 = 1_024;

const _: () = assert!(EDIT_SHARDS_MAX >= felix_core::limits::SHARDS_PER_STREAM_MAX as usize);
const _: () = assert!(2 * EDIT_SHARDS_MAX <= WINDOW_CHANGES);
const _: () = assert!(BATCH_EDITS_MAX <= WAITING_EDITS_MAX);
const _: () = assert!(PAGE_CHANGES_MAX <= WINDOW_CHANGES);
