//! What an edit makes of a catalog: pure, so that all stores agree.

mod caches;
mod namespaces;
mod nodes;
mod quotas;
mod shards;
mod streams;
mod tenants;
#[cfg(test)]
mod tests;

use crate::catalog::{Key, NamespacePath, Record, State};
use crate::limits::{DISPLAY_NAME_BYTES_MAX, RECORDS_MAX};
use crate::refusal::{Conflict, Invalid, Limit, Subject};
use crate::{Edit, Op, Proposal, Refusal, Version};
use felix_core::StreamId;

/// What happens to the records of a catalog.
type Steps = Vec<(Op, Record)>;

/// What is to happen to a catalog, in this order, for the proposal to be made; nothing, where all is
/// as it asks already.
///
/// # Errors
/// It is not to be made.
pub fn decide(state: &State, proposal: &Proposal) -> Result<Steps, Refusal> {
    let at = proposal.at;
    let steps = match &proposal.edit {
        Edit::CreateTenant { name, display_name } => tenants::create(state, name, display_name, at),
        Edit::DeleteTenant { name, based_on } => tenants::delete(state, name, *based_on),
        Edit::CreateNamespace { path, display_name } => {
            namespaces::create(state, path, display_name, at)
        }
        Edit::DeleteNamespace { path, based_on } => namespaces::delete(state, path, *based_on),
        Edit::CreateStream { path, id, settings } => {
            streams::create(state, path, *id, settings, at)
        }
        Edit::AlterStream {
            path,
            based_on,
            settings,
        } => streams::alter(state, path, *based_on, settings),
        Edit::DeleteStream {
            path,
            based_on,
            grace,
        } => streams::delete(state, path, *based_on, *grace, at),
        Edit::RestoreStream { id, based_on } => streams::restore(state, *id, *based_on, at),
        Edit::PurgeStream {
            id,
            based_on,
            early,
        } => streams::purge(state, *id, *based_on, *early, at),
        Edit::CreateCache {
            path,
            id,
            display_name,
            shards,
        } => caches::create(state, path, *id, display_name, *shards, at),
        Edit::AlterCache {
            path,
            based_on,
            display_name,
            shards,
        } => caches::alter(state, path, *based_on, display_name, *shards),
        Edit::DeleteCache { path, based_on } => caches::delete(state, path, *based_on),
        Edit::RegisterNode { node, based_on } => nodes::register(state, node, *based_on),
        Edit::RemoveNode { id, based_on } => nodes::remove(state, *id, *based_on),
        Edit::AssignShards(shards) => shards::assign(state, shards),
        Edit::NoteGenerations { leader, openings } => shards::note(state, *leader, openings),
        Edit::SetQuota { quota, based_on } => quotas::set(state, quota, *based_on),
    }?;
    let created = steps.iter().filter(|(op, _)| *op == Op::Created).count();
    check_room(state.record_count(), created)?;
    Ok(steps)
}

/// Whether a catalog with so many records has room for so many more.
fn check_room(had: usize, created: usize) -> Result<(), Limit> {
    // Where nothing new is made, a full catalog can be changed, and emptied.
    let has_room = created == 0 || had + created <= RECORDS_MAX;
    has_room.then_some(()).ok_or(Limit::Records)
}

/// Whether a record is as the edit saw it.
fn check_version(
    subject: impl Into<Subject>,
    based_on: Version,
    now: Version,
) -> Result<(), Conflict> {
    if based_on == now {
        return Ok(());
    }
    Err(Conflict::Stale {
        subject: Box::new(subject.into()),
        based_on: Some(based_on),
        now: Some(now),
    })
}

/// What is there under a key.
fn found<T>(found: Option<T>, key: Key) -> Result<T, Refusal> {
    found.ok_or_else(|| Refusal::NotFound(key.into()))
}

/// The tenant first: who has a wrong one learns that.
fn check_namespace(state: &State, namespace: &NamespacePath) -> Result<(), Refusal> {
    found(
        state.tenant(&namespace.tenant),
        Key::Tenant(namespace.tenant.clone()),
    )?;
    found(
        state.namespace(namespace),
        Key::Namespace(namespace.clone()),
    )?;
    Ok(())
}

fn check_display_name(name: &str) -> Result<(), Invalid> {
    let is_text = name.len() <= DISPLAY_NAME_BYTES_MAX && !name.contains(char::is_control);
    is_text.then_some(()).ok_or(Invalid::DisplayName)
}

/// Kafka reserves 0 and 1, and so do we.
fn check_id(state: &State, id: StreamId) -> Result<(), Conflict> {
    let is_free = id.0 > 1 && !state.has_id(id);
    is_free.then_some(()).ok_or(Conflict::IdTaken(id))
}
