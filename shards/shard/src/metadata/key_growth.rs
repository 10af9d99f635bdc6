//! Keys that grow by themselves: the part of whoever leads the group, on shard 0.
//!
//! Every [`PERIOD`], if some table has such keys:
//! 1. All nodes are asked how large and how busy the sub-partitions are ([`key_figures`]).
//! 2. What there is to do is decided ([`cluster::key_growth`]).
//! 3. In each table that does not grow the key that needs it most begins to, at most [`GROWTHS_MAX`] at once. The
//!    stages of it are those of any growth ([`super::sub_partition_growth`]).
//!
//! A key that has begun to grow is left alone for [`PAUSE`]. What hinders a key is told once by each leader.
//!
//! A leader that dies is followed by one that looks anew: what was begun is in the metadata.

use crate::operations::key_figures;
use crate::shard_state::{ProposalError, Shard};
use cluster::key_growth::{self, GrowthPlan, Hindrance, WantedGrowth};
use cluster::metadata::{Command, Metadata};
use cluster::sub_partitions::{SubPartitionMap, SubPartitionsChange};
use cluster::topology::features;
use model::{Schema, Table, TableId, WriteSharding};
use runtime::{Instant, fault};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How often the leader looks.
const PERIOD: Duration = Duration::from_secs(10);
/// For so long a key is left alone that has begun to grow. What it has then can be told from what it had before:
/// requests are counted, and SSTables written, meanwhile.
const PAUSE: Duration = Duration::from_secs(60);
/// Most growths under way with which another one begins: their stages come one after the other.
const GROWTHS_MAX: usize = 4;
/// How long the cluster may take to agree.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most keys that are left alone: the oldest is forgotten for one more.
const PAUSES_MAX: usize = 4_096;

/// What a leader remembers.
#[derive(Default)]
struct Memory {
    /// Until when keys are left alone, by table and token.
    pauses: BTreeMap<([u8; 16], i64), Instant>,
    told: BTreeSet<([u8; 16], Hindrance)>,
}

/// Lets keys grow while this node leads, until it stops.
pub(crate) async fn keep(shard: Shard) {
    let mut memory = Memory::default();
    while !shard.store().is_closing() {
        let epoch = shard.metadata().current().epoch;
        if tables(&shard.schema()).next().is_none() {
            memory = Memory::default();
            shard.metadata().wait_for(epoch + 1).await;
            continue;
        }
        runtime::sleep(PERIOD).await;
        let leads = shard.metadata().group().is_some_and(|group| group.leader() == Some(shard.host_id()));
        if !leads || !shard.topology().all_have(features::KEY_GROWTH) {
            memory = Memory::default();
            continue;
        }
        if let Err(text) = look(&shard, &mut memory).await {
            tracing::warn!("keys that are to grow by themselves wait: {text}; trying again");
        }
    }
}

/// The tables with keys that grow by themselves, in the order of their names.
fn tables(schema: &Schema) -> impl Iterator<Item = (&Arc<Table>, &WriteSharding)> {
    let all = schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
    all.filter_map(|table| Some((table, table.write_sharding().filter(|sharding| sharding.growth.is_some())?)))
}

/// Has keys grow that need it.
async fn look(shard: &Shard, memory: &mut Memory) -> Result<(), String> {
    let figures = key_figures::gather(shard).await.map_err(|failure| failure.text.into_owned())?;
    let schema = shard.schema();
    let now = runtime::now();
    memory.pauses.retain(|_, until| *until > now);
    let mut failed = Ok(());
    for (table, sharding) in tables(&schema) {
        let metadata = shard.metadata().current();
        let map = metadata.sub_partitions.get(&table.id.0).map(|map| &**map);
        let plan = key_growth::plan(map, sharding, figures.get(&table.id).into_iter().flatten());
        let Some(next) = memory.next(table, plan, now) else { continue };
        if !has_room(&metadata) {
            break;
        }
        let token = next.token;
        match begin(shard, table, map, sharding, next).await {
            Ok(()) => memory.pause(table.id, token, now),
            // Other tables do not wait for this one.
            Err(text) => failed = Err(format!("table {}: {text}", table.full_name())),
        }
    }
    failed
}

/// Whether another growth may begin.
fn has_room(metadata: &Metadata) -> bool {
    metadata.sub_partitions.values().filter(|map| map.is_growing()).count() < GROWTHS_MAX
}

/// Begins a growth.
async fn begin(
    shard: &Shard,
    table: &Table,
    map: Option<&SubPartitionMap>,
    sharding: &WriteSharding,
    WantedGrowth { key, token, shards, reason }: WantedGrowth,
) -> Result<(), String> {
    fault::reached("a key begins to grow");
    if map.is_none() {
        let keep = SubPartitionsChange::Keep { shards: sharding.shards, is_random: sharding.is_random() };
        propose(shard, table.id, keep).await?;
    }
    let shown = table.key_text(&table.stored_key(&key, 0));
    let shown = shown.strip_suffix(":0").unwrap_or(&shown);
    tracing::info!("table {}: key {shown} grows to {shards} sub-partitions, for its {reason}", table.full_name());
    propose(shard, table.id, SubPartitionsChange::GrowKey { key, token, shards, reason }).await
}

async fn propose(shard: &Shard, TableId(table): TableId, change: SubPartitionsChange) -> Result<(), String> {
    let command = Command::SubPartitions { table, change };
    let proposed = shard.metadata().propose(&command, runtime::now().after(AGREEMENT_TIMEOUT)).await;
    match proposed {
        Ok(_) => Ok(()),
        Err(ProposalError::Rejected(rejected)) => Err(rejected.to_string()),
        Err(ProposalError::NotMade(text) | ProposalError::Unknown(text)) => Err(text),
    }
}

impl Memory {
    /// The key of a table that grows next. Tells what hinders others, if it has not yet.
    fn next(&mut self, table: &Table, plan: GrowthPlan, now: Instant) -> Option<WantedGrowth> {
        for hindrance in plan.hindrances {
            if self.told.insert((table.id.0, hindrance)) {
                tracing::warn!("table {}: {hindrance}", table.full_name());
            }
        }
        let is_due = |key: &WantedGrowth| self.pauses.get(&(table.id.0, key.token)).is_none_or(|until| *until <= now);
        plan.wanted.into_iter().find(is_due)
    }

    /// Leaves a key alone for a while.
    fn pause(&mut self, table: TableId, token: i64, now: Instant) {
        if self.pauses.len() >= PAUSES_MAX {
            let oldest = self.pauses.iter().min_by_key(|(_, until)| **until).map(|(key, _)| *key);
            oldest.and_then(|key| self.pauses.remove(&key));
        }
        self.pauses.insert((table.0, token), now.after(PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::sub_partitions::GrowthReason;

    #[test]
    fn a_key_is_left_alone_for_a_while() {
        let table = model::arbitrary::table("k", "t", &mut |_| 0);
        let mut memory = Memory::default();
        let wanted = |token| WantedGrowth { key: vec![1], token, shards: 4, reason: GrowthReason::Size };
        let plan = || GrowthPlan { wanted: vec![wanted(1), wanted(2)], hindrances: vec![Hindrance::Keys] };
        let now = Instant(1_000_000_000);
        assert_eq!(memory.next(&table, plan(), now), Some(wanted(1)));
        memory.pause(table.id, 1, now);
        assert_eq!(memory.next(&table, plan(), now), Some(wanted(2)));
        memory.pause(table.id, 2, now);
        assert_eq!(memory.next(&table, plan(), now), None);
        assert_eq!(memory.next(&table, plan(), now.after(PAUSE)), Some(wanted(1)));
        assert_eq!(memory.told.len(), 1, "it is told once");
        for token in 0..PAUSES_MAX as i64 {
            memory.pause(table.id, token, now.after(PAUSE));
        }
        assert_eq!(memory.pauses.len(), PAUSES_MAX);
        memory.pause(table.id, -1, now.after(PAUSE));
        assert_eq!(memory.pauses.len(), PAUSES_MAX, "the oldest has made room");
    }

    #[test]
    fn so_many_tables_grow_and_one_more_does_not() {
        let mut metadata = Metadata::default();
        for table in 0..GROWTHS_MAX as u8 {
            assert!(has_room(&metadata), "{table} tables grow");
            let key = SubPartitionsChange::GrowKey { key: vec![1], token: 1, shards: 4, reason: GrowthReason::Load };
            let mut map = None;
            for (change, epoch) in [SubPartitionsChange::Keep { shards: 1, is_random: false }, key].iter().zip(1..) {
                map = SubPartitionMap::changed(map.as_ref(), change, epoch).expect("it fits");
            }
            metadata.sub_partitions.insert([table; 16], Arc::new(map.expect("it grows")));
        }
        assert!(!has_room(&metadata));
    }
}
