//! The metadata that this node has applied, in hidden tables of `system`: a row for each member and for each table with
//! tablets, so that an entry of the log writes those that it changes and no other.
//!
//! | table | partition | rows |
//! |---|---|---|
//! | `helenus_metadata` | `metadata` | one: a byte [`IN_ROWS`], then the encoded metadata without members and tablets |
//! | `helenus_metadata_members` | `metadata` | one per member: its host id and its encoded form |
//! | `helenus_metadata_tablets` | `metadata` | one per table: its id and the encoded form of its tablets |
//!
//! Earlier versions stored everything as one value of `helenus_metadata`, the encoded metadata, which has another first
//! byte. Such a value is read, and is replaced when the node opens its log.
//!
//! Invariants: the tables have the same partition key and change in one mutation, so a crash leaves all as of one
//! epoch; that mutation must fit into the commit log, also if all members change.

use super::rows::{Slot, read_slot, slot_row};
use crate::schema::Error;
use crate::schema::cells::{RowReader, RowWriter, read_partition};
use crate::schema::rows::system_table;
use crate::schema::system_tables::{METADATA, METADATA_MEMBERS, METADATA_TABLETS};
use cluster::metadata::{Member, Metadata};
use cluster::tablets::TabletMap;
use engine::Store;
use model::mutation::{Clustering, ClusteringBound, push_clustering};
use model::row::Deletion;
use model::{Mutation, MutationBuilder, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The first byte of metadata whose members are rows; versions of the encoding of [`Metadata`] are smaller.
const IN_ROWS: u8 = 0xFF;

/// Metadata as they were found in the tables.
pub(super) struct Found {
    pub(super) metadata: Metadata,
    /// Whether each member has its row: else all is one value, of an earlier version.
    pub(super) in_rows: bool,
}

/// The metadata that were stored last, if any were.
pub(super) async fn read(store: &Store, schema: &Schema) -> Result<Option<Found>, Error> {
    let Some(stored) = read_slot(store, schema, Slot::Metadata).await? else { return Ok(None) };
    let table = system_table(schema, "system", METADATA);
    let malformed = |_| Error::Malformed { table: table.full_name(), column: "value".into() };
    let Some((&IN_ROWS, rest)) = stored.split_first() else {
        let metadata = Metadata::decode(&stored).map_err(malformed)?;
        return Ok(Some(Found { metadata, in_rows: false }));
    };
    let metadata = Metadata::decode(rest).map_err(malformed)?;
    let members = read_members(store, schema).await?;
    let tablets = read_tablets(store, schema).await?;
    let metadata = Metadata { members, tablets, ..metadata };
    match metadata.has_sound_tablets() {
        true => Ok(Some(Found { metadata, in_rows: true })),
        false => Err(Error::Malformed { table: format!("system.{METADATA_TABLETS}"), column: "tablets".into() }),
    }
}

async fn read_tablets(store: &Store, schema: &Schema) -> Result<BTreeMap<[u8; 16], Arc<TabletMap>>, Error> {
    let table = system_table(schema, "system", METADATA_TABLETS);
    let mut tablets = BTreeMap::new();
    for row in read_partition(store, table, Slot::Metadata.key()).await? {
        let row = RowReader::new(table, &row);
        let encoded = row.bytes("tablets")?.ok_or_else(|| row.malformed("tablets"))?;
        let map = TabletMap::decode(encoded).map_err(|_| row.malformed("tablets"))?;
        tablets.insert(row.uuid("table_id")?.into_bytes(), Arc::new(map));
    }
    Ok(tablets)
}

async fn read_members(store: &Store, schema: &Schema) -> Result<BTreeMap<Uuid, Arc<Member>>, Error> {
    let table = system_table(schema, "system", METADATA_MEMBERS);
    let mut members = BTreeMap::new();
    for row in read_partition(store, table, Slot::Metadata.key()).await? {
        let row = RowReader::new(table, &row);
        let encoded = row.bytes("member")?.ok_or_else(|| row.malformed("member"))?;
        let member = Member::decode(encoded).map_err(|_| row.malformed("member"))?;
        members.insert(row.uuid("host_id")?, Arc::new(member));
    }
    Ok(members)
}

/// The change that stores `after` where `before` is stored, a row per member and per table with tablets in both.
pub(super) fn written(schema: &Schema, before: &Metadata, after: &Metadata, timestamp: i64) -> Mutation {
    let mut header = vec![IN_ROWS];
    let without = Metadata { members: BTreeMap::new(), tablets: BTreeMap::new(), ..after.clone() };
    header.extend_from_slice(&without.encode());
    let table = system_table(schema, "system", METADATA_MEMBERS);
    let mut mutation = MutationBuilder::new(schema.partitioner, Slot::Metadata.key());
    slot_row(schema, header, timestamp, &mut mutation);
    mutation.table(table.id);
    for (host_id, member) in &after.members {
        if before.members.get(host_id).is_none_or(|stored| !is_same(stored, member)) {
            let mut row = RowWriter::new(table, &[host_id.as_bytes()], timestamp);
            row.set("member", member.encode()).finish(&mut mutation);
        }
    }
    let deletion = Deletion { timestamp, local_deletion_time: timestamp.div_euclid(1_000_000) };
    let delete = |mutation: &mut MutationBuilder, id: &[u8; 16]| {
        let mut prefix = Vec::new();
        push_clustering(&mut prefix, id);
        let bound = || ClusteringBound { prefix: Clustering(&prefix), inclusive: true };
        mutation.delete_range(bound(), bound(), deletion);
    };
    for host_id in before.members.keys().filter(|host_id| !after.members.contains_key(host_id)) {
        delete(&mut mutation, host_id.as_bytes());
    }
    if before.tablets.is_empty() && after.tablets.is_empty() {
        return mutation.finish();
    }
    let table = system_table(schema, "system", METADATA_TABLETS);
    mutation.table(table.id);
    for (id, map) in &after.tablets {
        if before.tablets.get(id).is_none_or(|stored| !Arc::ptr_eq(stored, map) && stored != map) {
            RowWriter::new(table, &[id], timestamp).set("tablets", map.encode()).finish(&mut mutation);
        }
    }
    for id in before.tablets.keys().filter(|id| !after.tablets.contains_key(*id)) {
        delete(&mut mutation, id);
    }
    mutation.finish()
}

/// Whether two members are equal; those that an entry has left as they were are one and the same value.
pub(super) fn is_same(before: &Arc<Member>, after: &Arc<Member>) -> bool {
    Arc::ptr_eq(before, after) || before == after
}

#[cfg(test)]
mod tests;
