//! Making and removing tenants.

use super::{Steps, check_display_name, check_version, found, namespaces};
use crate::catalog::namespace::DEFAULT;
use crate::catalog::{
    Key, Namespace, NamespaceName, NamespacePath, Record, State, Tenant, TenantName,
};
use crate::refusal::Conflict;
use crate::{Op, Refusal, Version};
use felix_core::Timestamp;

pub(super) fn create(
    state: &State,
    name: &TenantName,
    display_name: &str,
    at: Timestamp,
) -> Result<Steps, Refusal> {
    check_display_name(display_name)?;
    if state.tenant(name).is_some() {
        return Err(Conflict::Exists(Key::Tenant(name.clone()).into()).into());
    }
    let tenant = Tenant {
        name: name.clone(),
        display_name: display_name.to_owned(),
        created_at: at,
    };
    let namespace = Namespace {
        path: default_of(name),
        display_name: String::new(),
        created_at: at,
    };
    Ok(vec![
        (Op::Created, Record::Tenant(tenant)),
        (Op::Created, Record::Namespace(namespace)),
    ])
}

pub(super) fn delete(
    state: &State,
    name: &TenantName,
    based_on: Version,
) -> Result<Steps, Refusal> {
    let key = Key::Tenant(name.clone());
    let (version, tenant) = found(state.tenant(name), key.clone())?;
    check_version(key.clone(), based_on, version)?;
    let default = default_of(name);
    let mut steps = Steps::new();
    for (_, namespace) in state.namespaces(name) {
        if namespace.path != default {
            return Err(Conflict::NotEmpty {
                subject: Box::new(key.into()),
                holds: Box::new(Key::Namespace(namespace.path.clone()).into()),
                restorable: false,
            }
            .into());
        }
        namespaces::check_empty(state, &namespace.path)?;
        steps.push((Op::Deleted, Record::Namespace(namespace.clone())));
    }
    if let Some((_, quota)) = state.quota(name) {
        steps.push((Op::Deleted, Record::Quota(quota.clone())));
    }
    steps.push((Op::Deleted, Record::Tenant(tenant.clone())));
    Ok(steps)
}

fn default_of(tenant: &TenantName) -> NamespacePath {
    NamespacePath {
        tenant: tenant.clone(),
        namespace: NamespaceName::new(DEFAULT).expect("a name"),
    }
}
