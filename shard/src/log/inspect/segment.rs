//! The segments of a shard's directory.

use crate::log::listing::{Kind, kind};
use crate::log::segment::{index_name, log_name, time_index_name};
use crate::log::{checkpoint, generations};
use felix_core::Offset;
use felix_core::batch::{HEADER_BYTES, Header};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// How the name of a file ends that was about to replace another when a crash came.
const TEMPORARY: &str = ".tmp";

/// The files of one segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentFile {
    /// The offset of its first record, which names it.
    pub base: Offset,
    /// Its batches. The last segment may not have its own name yet.
    pub log: PathBuf,
    /// Its offset index, which may not be there.
    pub index: PathBuf,
    /// Its time index, which may not be there.
    pub time_index: PathBuf,
}

/// What lies in a shard's directory.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) segments: Vec<SegmentFile>,
    /// Index files without a segment.
    pub(super) orphans: Vec<String>,
    /// Names that end as ours do and cannot be ours.
    pub(super) foreign: Vec<String>,
    /// Files made for a next segment that none has begun in.
    pub(super) unbegun: Vec<String>,
    /// Directories named as what an opening removes, which removes files only.
    pub(super) immovable: Vec<String>,
}

/// Whether the directory holds a log of ours: one of its two small files, or a segment with a name
/// as ours have, and nothing that only Kafka's have.
#[must_use]
pub fn is_shard(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).is_file();
    let is_kafka = has("leader-epoch-checkpoint") || has("partition.metadata");
    let has_segment = || contents(dir).is_ok_and(|contents| !contents.segments.is_empty());
    has(checkpoint::NAME) || has(generations::NAME) || (!is_kafka && has_segment())
}

/// The segments of the log in `dir`, in order.
///
/// # Errors
/// The directory cannot be read.
pub fn segments(dir: &Path) -> io::Result<Vec<SegmentFile>> {
    Ok(contents(dir)?.segments)
}

pub(super) fn contents(dir: &Path) -> io::Result<Contents> {
    let names: io::Result<Vec<(OsString, bool)>> = std::fs::read_dir(dir)?
        .map(|entry| {
            let entry = entry?;
            Ok((entry.file_name(), entry.file_type()?.is_dir()))
        })
        .collect();
    let mut bases = BTreeMap::new();
    let mut indexes = Vec::new();
    let mut foreign = Vec::new();
    let mut nexts = Vec::new();
    let mut immovable = Vec::new();
    for (name, is_directory) in names? {
        if name.as_encoded_bytes().ends_with(TEMPORARY.as_bytes()) {
            if is_directory {
                immovable.push(name.to_string_lossy().into_owned());
            }
            continue;
        }
        match kind(&name) {
            Kind::Log(base) => drop(bases.insert(base, SegmentFile::of(dir, base))),
            Kind::Index(base, name) => indexes.push((base, name)),
            Kind::Foreign(name) => foreign.push(name),
            Kind::Next(name) => nexts.push(name),
            Kind::Table | Kind::Beside => {}
        }
    }
    foreign.sort();
    immovable.sort();
    nexts.sort();
    let mut unbegun = Vec::new();
    for name in nexts {
        let log = dir.join(&name);
        let last = bases.last_key_value().map(|(last, _)| *last);
        match begun_at(&log)? {
            Some(base) if last.is_none_or(|last| last < base) => {
                let segment = SegmentFile {
                    log,
                    ..SegmentFile::of(dir, base)
                };
                bases.insert(base, segment);
            }
            Some(_) | None => unbegun.push(name),
        }
    }
    indexes.retain(|(base, _)| !bases.contains_key(base));
    let mut orphans: Vec<String> = indexes.into_iter().map(|(_, name)| name).collect();
    orphans.sort();
    Ok(Contents {
        segments: bases.into_values().collect(),
        orphans,
        foreign,
        unbegun,
        immovable,
    })
}

/// Where the segment begins that has begun in a file made for it, as an opening finds it.
fn begun_at(path: &Path) -> io::Result<Option<Offset>> {
    let mut bytes = [0; HEADER_BYTES];
    let read = super::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    match read {
        Ok(()) => {
            let header = Header::read(&bytes).ok();
            Ok(header.and_then(|header| Offset::from_wire(header.base_offset)))
        }
        // Too short, or a running broker has just given it another name.
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::NotFound) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl SegmentFile {
    fn of(dir: &Path, base: Offset) -> Self {
        Self {
            base,
            log: dir.join(log_name(base)),
            index: dir.join(index_name(base)),
            time_index: dir.join(time_index_name(base)),
        }
    }

    /// The name of the file of its batches.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.log.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The file of its batches, by the name that it has now: a running broker may have given it its
    /// own since it was listed.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        match self.log.exists() {
            true => self.log.clone(),
            false => self.log.with_file_name(log_name(self.base)),
        }
    }
}
