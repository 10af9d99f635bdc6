//! Decided changes of partitions whose rows move to other places of their key ([`cluster::sub_partitions`]).
//!
//! Each is committed at those places too, by a majority and with its ballot, before it is committed where it was
//! decided. So once it is known there, it is known at the other places as well; and rounds that begin at these later
//! build on it, with ballots above its own, however much the clocks of nodes differ.

use crate::coordinator::replication;
use crate::messages::data::ConditionalRequest;
use crate::paxos::{Proposal, Update};
use crate::shard_state::Shard;
use cluster::plan::CasPlan;
use model::relocation::relocated;
use model::{Consistency, DecoratedKey, Failure, Mutation, Partitioner, Places, Table};
use std::sync::Arc;
use std::time::Duration;

/// The places that have a stored key, and the others, if its rows move.
fn places(shard: &Shard, table: &Table, key: &[u8]) -> Option<(Places, Places)> {
    let placement = shard.placement_of(table).ok()?;
    let map = placement.sub_partitions()?;
    let (logical, number) = table.logical_key(key)?;
    let places = map.places_of(Partitioner::Murmur3.token(logical).0, logical);
    let twin = places.twin?;
    let from = places.with(number)?;
    Some((from, if from == twin { places.read } else { twin }))
}

/// Whether what is decided in a partition has to be committed elsewhere too.
pub(super) fn has_one(shard: &Shard, table: &Table, key: &[u8]) -> bool {
    table.write_sharding().is_some() && places(shard, table, key).is_some()
}

/// Commits what a majority has accepted at the level `serial`, or what is known to be committed, at the other places of
/// its rows.
///
/// # Errors
/// Too few replicas are alive or have answered: it may have taken effect.
pub(super) async fn commit(
    shard: &Shard,
    (table, key): (&Arc<Table>, &[u8]),
    proposal: &Proposal<Update>,
    serial: Consistency,
    timeout: Duration,
) -> Result<(), Failure> {
    let (Some(sharding), Some(update)) = (table.write_sharding(), &proposal.update) else { return Ok(()) };
    let Some(places) = places(shard, table, key) else { return Ok(()) };
    let partitioner = shard.partitioner();
    let mutation = Mutation::decode(partitioner, update.clone())
        .map_err(|_| Failure::server("a decided change does not decode").unknown())?;
    let level = match serial {
        Consistency::LocalSerial => Consistency::LocalQuorum,
        _ => Consistency::Quorum,
    };
    for change in relocated(partitioner, (table, sharding), &mutation, places) {
        let key = DecoratedKey::new(partitioner, change.key());
        let placement = shard.placement_of(table)?;
        let plan = CasPlan::of_change(serial, level, placement.replicas(key.token, &key.key), placement.live())?;
        let request = ConditionalRequest {
            table: table.clone(),
            key: key.key.to_vec(),
            statements: Vec::new(),
            shown: Arc::from([]),
            plan,
            now_in_seconds: 0,
            timeout,
            read: None,
            transaction: None,
        };
        let moved = Proposal { ballot: proposal.ballot, update: Some(change.into_bytes()) };
        Box::pin(replication::commit(shard, &request, &key, moved, 0, timeout)).await?;
    }
    Ok(())
}
