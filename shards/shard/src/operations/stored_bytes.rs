//! What keyspaces store that have a quota of bytes (`bytes_stored`).
//!
//! 1. Each node measures its own bytes every few seconds, and tells the others by gossip; the server's part of that is
//!    `gossip::stored_bytes`.
//! 2. From what the nodes of its data centre tell, each node knows how much a keyspace stores there, and tells its
//!    cores.
//! 3. A core that knows that a quota is used up refuses the changes of the keyspace that are no deletions.
//!
//! Invariants: nothing is measured without such a quota; what counts is what one replica stores, so that more replicas
//! do not use up a quota.

use crate::guards::alerts::AlertKind;
use crate::messages::admin::TableVerb;
use crate::shard_state::Shard;
use cql::plan::{Modify, ModifyKind, Plan};
use model::{Failure, Keyspace, Token};

impl Shard {
    /// The bytes that this node stores of each keyspace that has a quota of them, memtables included, by name.
    ///
    /// # Errors
    /// A core does not answer because the node stops.
    pub async fn own_stored_bytes(&self) -> Result<Vec<(String, u64)>, Failure> {
        let (schema, mut all) = (self.schema(), Vec::new());
        for keyspace in schema.keyspaces.values().filter(|keyspace| keyspace.quota.bytes_stored.is_some()) {
            let mut bytes = 0;
            for table in keyspace.tables.values() {
                let statistics = self.statistics(table.id).await?;
                bytes += statistics.disk_bytes + statistics.memtable_bytes;
            }
            all.push((keyspace.name.clone(), bytes));
        }
        Ok(all)
    }

    /// Tells all cores what keyspaces store. `told`: of each the bytes of all nodes of this data centre together.
    ///
    /// # Errors
    /// A core does not answer because the node stops.
    pub async fn tell_stored_bytes(&self, told: &[(String, u64)]) -> Result<(), Failure> {
        let schema = self.schema();
        let mut of_one_replica = Vec::new();
        for (name, bytes) in told {
            let Some(keyspace) = schema.keyspace(name) else { continue };
            let Some(limit) = keyspace.quota.bytes_stored else { continue };
            let Some(replicas) = self.local_replicas(keyspace).filter(|replicas| *replicas > 0) else { continue };
            let bytes = bytes / replicas;
            let percent = u64::try_from(u128::from(bytes) * 100 / u128::from(limit.max(1))).unwrap_or(u64::MAX);
            let limit = format!("{limit} bytes stored");
            self.alerts().note(AlertKind::KeyspaceQuota, (name, ""), "the keyspace", (percent, &limit), true);
            of_one_replica.push((name.clone(), bytes));
        }
        self.on_every_shard(TableVerb::SetStored(of_one_replica.into())).await.map(drop)
    }

    /// How many replicas in this data centre the tables of a keyspace have; `None` if it has no tables.
    fn local_replicas(&self, keyspace: &Keyspace) -> Option<u64> {
        let placement = self.placement_of(keyspace.tables.values().next()?).ok()?;
        let topology = placement.keyspace().topology();
        let here = topology.data_center_of(topology.here());
        let replicas = placement.replicas(Token(0), &[]);
        Some(replicas.natural().filter(|replica| topology.data_center_of(replica.node) == here).count() as u64)
    }
}

/// Refuses a statement that stores something in a keyspace whose quota of bytes is used up. Deletions are not refused.
pub(crate) fn check<'p>(shard: &Shard, plan: &'p Plan) -> Result<(), Failure> {
    let all = |statements: &'p [Modify]| statements.iter().try_for_each(|modify| check_modify(shard, modify));
    match plan {
        Plan::Modify(modify) => check_modify(shard, modify),
        Plan::Batch(batch) => all(&batch.statements),
        Plan::Transaction(transaction) => all(&transaction.updates),
        _ => Ok(()),
    }
}

fn check_modify(shard: &Shard, modify: &Modify) -> Result<(), Failure> {
    if modify.kind == ModifyKind::Delete {
        return Ok(());
    }
    let Some(quota) = shard.throughput().of(modify.table.id).keyspace else { return Ok(()) };
    quota.check_stored()
}
