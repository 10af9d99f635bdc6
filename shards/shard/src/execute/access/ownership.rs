//! Whoever creates something may do everything with it; what was granted on something ends when it is dropped.
//!
//! Invariants: nothing that was granted on a resource of the past holds for a new one of its name, even if a node has
//! failed between a drop and the end of what was granted: what is created begins with nothing granted.

use super::permissions::{grant, revoke_all_on};
use super::roles::tell_all;
use crate::ports::{ChangeKind, ChangeTarget, SchemaChange};
use crate::request::Session;
use crate::shard_state::Shard;
use model::access::Resource;
use model::{Failure, Schema};

/// Grants everything on new resources to the role that has created them, after ending what was granted on their names.
pub(super) async fn created(shard: &Shard, creator: Option<&str>, resources: &[Resource]) -> Result<(), Failure> {
    if !shard.config().access.authorizes {
        return Ok(());
    }
    forget(shard, resources).await?;
    for resource in resources {
        if let Some(creator) = creator {
            grant(shard, resource.applicable(), resource, creator).await?;
        }
    }
    Ok(())
}

async fn forget(shard: &Shard, resources: &[Resource]) -> Result<(), Failure> {
    let mut changed = false;
    for resource in resources {
        changed |= revoke_all_on(shard, resource).await?;
    }
    if changed {
        tell_all(shard).await;
    }
    Ok(())
}

/// After a change of the schema by a session. A failure is not the statement's: the change is made.
pub(crate) async fn schema_changed(shard: &Shard, session: &Session, before: &Schema, change: &SchemaChange) {
    if !shard.config().access.authorizes {
        return;
    }
    let keyspace = || change.keyspace.clone();
    let creator = session.user.borrow().as_ref().map(|user| user.name.clone());
    let done = match (change.change, change.target) {
        (ChangeKind::Created, ChangeTarget::Keyspace) => {
            let resources = [Resource::Keyspace(keyspace()), Resource::FunctionsIn(keyspace())];
            created(shard, creator.as_deref(), &resources).await
        }
        (ChangeKind::Created, ChangeTarget::Table) => {
            created(shard, creator.as_deref(), &[Resource::Table(keyspace(), change.name.clone())]).await
        }
        (ChangeKind::Dropped, ChangeTarget::Table) => {
            forget(shard, &[Resource::Table(keyspace(), change.name.clone())]).await
        }
        (ChangeKind::Dropped, ChangeTarget::Keyspace) => {
            let tables = before.keyspace(&change.keyspace).into_iter().flat_map(|keyspace| keyspace.tables.keys());
            let mut resources: Vec<Resource> = tables.map(|table| Resource::Table(keyspace(), table.clone())).collect();
            resources.extend([
                Resource::AllTables(keyspace()),
                Resource::Keyspace(keyspace()),
                Resource::FunctionsIn(keyspace()),
            ]);
            forget(shard, &resources).await
        }
        _ => Ok(()),
    };
    if let Err(failure) = done {
        let (keyspace, name) = (&change.keyspace, &change.name);
        tracing::warn!(%failure, %keyspace, %name, "what is granted on an object does not follow a change of the schema");
    }
}
