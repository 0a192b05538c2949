//! Making and removing namespaces.

use super::{Steps, check_display_name, check_version, found};
use crate::catalog::{Key, Namespace, NamespacePath, Record, State};
use crate::refusal::{Conflict, Subject};
use crate::{Op, Refusal, Version};
use felix_core::Timestamp;

pub(super) fn create(
    state: &State,
    path: &NamespacePath,
    display_name: &str,
    at: Timestamp,
) -> Result<Steps, Refusal> {
    check_display_name(display_name)?;
    found(state.tenant(&path.tenant), Key::Tenant(path.tenant.clone()))?;
    if state.namespace(path).is_some() {
        return Err(Conflict::Exists(Key::Namespace(path.clone()).into()).into());
    }
    let namespace = Namespace {
        path: path.clone(),
        display_name: display_name.to_owned(),
        created_at: at,
    };
    Ok(vec![(Op::Created, Record::Namespace(namespace))])
}

pub(super) fn delete(
    state: &State,
    path: &NamespacePath,
    based_on: Version,
) -> Result<Steps, Refusal> {
    let key = Key::Namespace(path.clone());
    let (version, namespace) = found(state.namespace(path), key.clone())?;
    check_version(key, based_on, version)?;
    check_empty(state, path)?;
    Ok(vec![(Op::Deleted, Record::Namespace(namespace.clone()))])
}

/// Whether nothing is in it. What can be restored counts: whoever makes the namespace anew is not to
/// find another's records in it.
pub(super) fn check_empty(state: &State, path: &NamespacePath) -> Result<(), Conflict> {
    let live = state.streams(path).next();
    let live = live.map(|(_, stream)| (Subject::from(&stream.path), false));
    let cache = || {
        let cache = state.caches(path).next();
        cache.map(|(_, cache)| (Key::Cache(cache.path.clone()).into(), false))
    };
    let deleted = || {
        let deleted = state.deleted_streams_in(path).next();
        deleted.map(|(_, stream)| (Key::Stream(stream.id).into(), true))
    };
    match live.or_else(cache).or_else(deleted) {
        None => Ok(()),
        Some((holds, restorable)) => Err(Conflict::NotEmpty {
            subject: Box::new(Key::Namespace(path.clone()).into()),
            holds: Box::new(holds),
            restorable,
        }),
    }
}
