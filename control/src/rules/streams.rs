//! Making, changing, deleting and restoring streams.

use super::{Steps, check_id, check_namespace, check_version, found};
use crate::catalog::{
    Deletion, Key, Record, State, Stream, StreamPath, StreamSettings, TenantName,
};
use crate::limits::GRACE_MAX;
use crate::refusal::{Conflict, Invalid, Limit};
use crate::{Op, Refusal, Version};
use felix_core::{StreamId, Timestamp};
use std::time::Duration;

pub(super) fn create(
    state: &State,
    path: &StreamPath,
    id: StreamId,
    settings: &StreamSettings,
    at: Timestamp,
) -> Result<Steps, Refusal> {
    settings.check()?;
    let namespace = path.namespace();
    check_namespace(state, namespace)?;
    if state.stream_named(path).is_some() {
        return Err(Conflict::Exists(path.into()).into());
    }
    check_id(state, id)?;
    check_quota(state, &namespace.tenant, 1, settings.shards)?;
    let stream = Stream {
        id,
        path: path.clone(),
        settings: settings.clone(),
        generation_floor: state.floor(path, at),
        created_at: at,
        deletion: None,
    };
    Ok(vec![(Op::Created, Record::Stream(stream))])
}

pub(super) fn alter(
    state: &State,
    path: &StreamPath,
    based_on: Version,
    settings: &StreamSettings,
) -> Result<Steps, Refusal> {
    let stream = live(state, path, based_on)?;
    stream.settings.check_change(settings)?;
    if stream.settings == *settings {
        return Ok(Steps::new());
    }
    let more = settings.shards - stream.settings.shards;
    if more > 0 {
        check_quota(state, &path.namespace().tenant, 0, more)?;
    }
    let settings = settings.clone();
    let altered = Stream {
        settings,
        ..stream.clone()
    };
    Ok(vec![(Op::Updated, Record::Stream(altered))])
}

pub(super) fn delete(
    state: &State,
    path: &StreamPath,
    based_on: Version,
    grace: Duration,
    at: Timestamp,
) -> Result<Steps, Refusal> {
    let stream = live(state, path, based_on)?;
    if grace > GRACE_MAX {
        return Err(Invalid::Grace(grace).into());
    }
    let grace = i64::try_from(grace.as_millis()).expect("a year has fewer milliseconds");
    let purge_at = Timestamp(at.0.saturating_add(grace));
    let deletion = Some(Deletion { at, purge_at });
    let deleted = Stream {
        deletion,
        ..stream.clone()
    };
    Ok(vec![(Op::Deleted, Record::Stream(deleted))])
}

pub(super) fn restore(
    state: &State,
    id: StreamId,
    based_on: Version,
    at: Timestamp,
) -> Result<Steps, Refusal> {
    let stream = deleted(state, id, based_on)?;
    let path = &stream.path;
    // Its files may be going already, whether or not the catalog has been told.
    if stream.is_due(at) {
        return Err(Conflict::GraceOver(path.clone()).into());
    }
    if state.stream_named(path).is_some() {
        return Err(Conflict::NameTaken(path.clone()).into());
    }
    check_quota(state, &path.namespace().tenant, 1, stream.settings.shards)?;
    let restored = Stream {
        deletion: None,
        ..stream.clone()
    };
    Ok(vec![(Op::Restored, Record::Stream(restored))])
}

pub(super) fn purge(
    state: &State,
    id: StreamId,
    based_on: Version,
    early: bool,
    at: Timestamp,
) -> Result<Steps, Refusal> {
    let stream = deleted(state, id, based_on)?;
    if !early && !stream.is_due(at) {
        return Err(Conflict::GraceNotOver(stream.path.clone()).into());
    }
    Ok(vec![(Op::Purged, Record::Stream(stream.clone()))])
}

fn live<'a>(state: &'a State, path: &StreamPath, based_on: Version) -> Result<&'a Stream, Refusal> {
    let (version, stream) = state
        .stream_named(path)
        .ok_or_else(|| Refusal::NotFound(path.into()))?;
    check_version(path, based_on, version)?;
    Ok(stream)
}

fn deleted(state: &State, id: StreamId, based_on: Version) -> Result<&Stream, Refusal> {
    let (version, stream) = found(state.stream(id), Key::Stream(id))?;
    if stream.is_live() {
        return Err(Conflict::NotDeleted(stream.path.clone()).into());
    }
    check_version(Key::Stream(id), based_on, version)?;
    Ok(stream)
}

/// Whether a tenant may have so many more. What is deleted does not count, so that it may be in the
/// way of a restoration.
fn check_quota(state: &State, tenant: &TenantName, streams: u64, shards: u32) -> Result<(), Limit> {
    let Some((_, quota)) = state.quota(tenant) else {
        return Ok(());
    };
    if quota.streams_max.is_none() && quota.shards_max.is_none() {
        return Ok(());
    }
    let mut had = (0, 0);
    for (_, namespace) in state.namespaces(tenant) {
        for (_, stream) in state.streams(&namespace.path) {
            had = (had.0 + 1, had.1 + u64::from(stream.settings.shards));
        }
    }
    quota.check(had.0 + streams, had.1 + u64::from(shards))
}
