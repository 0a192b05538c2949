//! Which files of a directory are the log's.

use super::checkpoint;
use super::crashes;
use super::error::{LogError, disk_error_in};
use super::failed::FAILED;
use super::generations;
use super::next;
use super::producers;
use crate::disk::Calls;
use felix_core::Offset;
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// The files of a log.
pub(super) struct Listing {
    /// The base offsets of the segments, in order.
    pub(super) bases: Vec<Offset>,
    /// Index files without a segment, as builds left them that removed the segment first. To be removed
    /// once the log is known to be whole.
    pub(super) orphans: Vec<String>,
    /// Files of next segments without names of their own.
    pub(super) next: Vec<String>,
}

/// Lists a directory.
pub(super) fn list(calls: &Calls<'_>) -> Result<Listing, LogError> {
    let names = calls
        .list()
        .map_err(|cause| disk_error_in(calls.path(), "list the directory", "", cause))?;
    let mut bases = BTreeSet::new();
    let (mut indexes, mut next) = (Vec::new(), Vec::new());
    for name in names {
        match kind(&name) {
            Kind::Log(base) => {
                bases.insert(base);
            }
            Kind::Index(base, name) => indexes.push((base, name)),
            Kind::Next(name) => next.push(name),
            Kind::Table => {}
            Kind::Foreign(name) => {
                return Err(LogError::Foreign {
                    dir: calls.path().to_owned(),
                    file: name,
                });
            }
            Kind::Beside => {}
        }
    }
    let orphans = indexes
        .into_iter()
        .filter(|(base, _)| !bases.contains(base))
        .map(|(_, name)| name);
    Ok(Listing {
        orphans: orphans.collect(),
        bases: bases.into_iter().collect(),
        next,
    })
}

/// What a name says that a file is.
pub(super) enum Kind {
    /// The batches of the segment that begins there.
    Log(Offset),
    /// An index of that segment, and its name.
    Index(Offset, String),
    /// A file that was made for a next segment, and its name.
    Next(String),
    /// One of the small files.
    Table,
    /// What Apache Kafka keeps beside a log, and what a file system keeps where it is mounted: a log
    /// that is served without it loses nothing.
    Beside,
    /// Nobody knows what it is. Serving the log without it might lose records, and whoever put it
    /// there may have put it over one of ours.
    Foreign(String),
}

/// What a name says that a file is.
pub(super) fn kind(name: &OsStr) -> Kind {
    let Some(name) = name.to_str() else {
        return Kind::Foreign(name.display().to_string());
    };
    match name {
        checkpoint::NAME | generations::NAME | producers::NAME | crashes::NAME | FAILED => {
            return Kind::Table;
        }
        "leader-epoch-checkpoint" | "partition.metadata" | "lost+found" => return Kind::Beside,
        _ => {}
    }
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    let digits = stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit());
    let base = stem
        .parse()
        .ok()
        .filter(|_| digits)
        .and_then(Offset::from_wire);
    match (base, ending) {
        (Some(base), "log") => Kind::Log(base),
        (Some(base), "index" | "timeindex") => Kind::Index(base, name.to_owned()),
        (Some(_), next::ENDING) => Kind::Next(name.to_owned()),
        (Some(_), "snapshot" | "txnindex") => Kind::Beside,
        (Some(_) | None, _) => Kind::Foreign(name.to_owned()),
    }
}
