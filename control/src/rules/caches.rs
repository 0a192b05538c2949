//! Making, changing and removing caches.

use super::{Steps, check_display_name, check_id, check_namespace, check_version, found};
use crate::catalog::settings::{check_more_shards, check_shards};
use crate::catalog::{Cache, CachePath, Key, Record, State};
use crate::refusal::Conflict;
use crate::{Op, Refusal, Version};
use felix_core::{StreamId, Timestamp};

pub(super) fn create(
    state: &State,
    path: &CachePath,
    id: StreamId,
    display_name: &str,
    shards: u32,
    at: Timestamp,
) -> Result<Steps, Refusal> {
    check_display_name(display_name)?;
    check_shards(shards)?;
    let namespace = &path.namespace;
    check_namespace(state, namespace)?;
    if state.cache(path).is_some() {
        return Err(Conflict::Exists(Key::Cache(path.clone()).into()).into());
    }
    check_id(state, id)?;
    let cache = Cache {
        id,
        path: path.clone(),
        display_name: display_name.to_owned(),
        shards,
        created_at: at,
    };
    Ok(vec![(Op::Created, Record::Cache(cache))])
}

pub(super) fn alter(
    state: &State,
    path: &CachePath,
    based_on: Version,
    display_name: &str,
    shards: u32,
) -> Result<Steps, Refusal> {
    check_display_name(display_name)?;
    check_shards(shards)?;
    let cache = seen(state, path, based_on)?;
    check_more_shards(cache.shards, shards)?;
    let altered = Cache {
        display_name: display_name.to_owned(),
        shards,
        ..cache.clone()
    };
    if altered == *cache {
        return Ok(Steps::new());
    }
    Ok(vec![(Op::Updated, Record::Cache(altered))])
}

pub(super) fn delete(state: &State, path: &CachePath, based_on: Version) -> Result<Steps, Refusal> {
    let cache = seen(state, path, based_on)?;
    Ok(vec![(Op::Deleted, Record::Cache(cache.clone()))])
}

fn seen<'a>(state: &'a State, path: &CachePath, based_on: Version) -> Result<&'a Cache, Refusal> {
    let key = Key::Cache(path.clone());
    let (version, cache) = found(state.cache(path), key.clone())?;
    check_version(key, based_on, version)?;
    Ok(cache)
}
