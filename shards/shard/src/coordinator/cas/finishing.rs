//! Finishing what earlier rounds have left: a round that changes nothing first commits what was accepted before it.
//!
//! A repair has every replica do so for all partitions of a range of which it knows an unfinished change
//! ([`finish_here`]): at the level of that change, which may be that of its data centre.
//!
//! Invariants: at most [`ROUNDS_AT_ONCE`] rounds of a request are under way; a request ends after
//! [`PARTITIONS_MAX`](crate::replica::unfinished::PARTITIONS_MAX) partitions of each core, and says where to go on.

use super::coordinate;
use crate::coordinator::row_source::RowSource;
use crate::messages::data::{ConditionalRequest, Decision};
use crate::messages::repair::{Finished, Unfinished, UnfinishedList, UnfinishedRequest};
use crate::messages::{Reply, Request};
use crate::paxos::Update;
use crate::paxos::ballot::Scope;
use crate::replica;
use crate::request::AckTerms;
use crate::shard_state::Shard;
use cluster::placement::TablePlacement;
use cluster::plan::CasPlan;
use model::{Consistency, DecoratedKey, Failure, Table};
use runtime::ShardId;
use runtime::sync::join_all;
use std::sync::Arc;

/// Most rounds of a request that are under way.
const ROUNDS_AT_ONCE: usize = 8;
/// How often a partition is tried whose round others overtake.
const ATTEMPTS_MAX: usize = 3;

/// Decides to change nothing.
async fn nothing(
    _: &Shard,
    _: &ConditionalRequest,
    _: &DecoratedKey,
    _: i64,
    _: &RowSource,
) -> Result<(Option<Update>, Decision), Failure> {
    Ok((None, Decision::unchanged()))
}

/// Commits the change that earlier rounds have left accepted in a partition, if there is one. Every later read of a
/// majority sees it then.
///
/// # Errors
/// Those of a read at that level.
pub(crate) async fn finish(
    shard: &Shard,
    table: &Arc<Table>,
    placement: &TablePlacement,
    key: &DecoratedKey,
    terms: AckTerms,
) -> Result<(), Failure> {
    let replicas = placement.replicas(key.token, &key.key);
    let plan = CasPlan::of_read(terms.consistency, replicas, placement.live())?;
    let request = ConditionalRequest {
        table: table.clone(),
        key: key.key.to_vec(),
        statements: Vec::new(),
        shown: Arc::from([]),
        plan: plan.clone(),
        now_in_seconds: 0,
        timeout: terms.timeout,
        read: None,
        transaction: None,
    };
    let topology = placement.keyspace().topology();
    let decided = coordinate(shard, topology, request, nothing).await;
    decided.map(drop).map_err(|failure| plan.failure_of_read(failure))
}

/// Finishes what this node knows of, as far as one request goes.
///
/// # Errors
/// A partition could not be finished; those before it may be.
pub(crate) async fn finish_here(shard: &Shard, request: &UnfinishedRequest) -> Result<Finished, Failure> {
    let table = replica::wait_for_table(shard, request.table).await?;
    let placement = shard.placement_of(&table)?;
    let cores = placement.shards_of(placement.keyspace().topology().here());
    let asked = cores.map(|core| shard.call(ShardId(core), Request::ListUnfinished(Box::new(request.clone()))));
    let lists = join_all(asked.collect()).await.into_iter().map(Reply::unfinished);
    let list = UnfinishedList::merged(lists.collect::<Result<_, Failure>>()?);
    for some in list.partitions.chunks(ROUNDS_AT_ONCE) {
        let rounds = some.iter().map(|unfinished| finish_one(shard, &table, unfinished));
        join_all(rounds.collect()).await.into_iter().collect::<Result<(), Failure>>()?;
    }
    let last = list.partitions.last().filter(|_| list.is_cut).map(|last| last.key.clone());
    Ok(Finished { partitions: list.partitions.len() as u64, last })
}

async fn finish_one(shard: &Shard, table: &Arc<Table>, unfinished: &Unfinished) -> Result<(), Failure> {
    let consistency = match unfinished.scope {
        Scope::Local => Consistency::LocalSerial,
        Scope::Global => Consistency::Serial,
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let placement = shard.placement_of(table)?;
        let terms = AckTerms { consistency, timeout: shard.timeouts().write };
        match finish(shard, table, &placement, &unfinished.key, terms).await {
            Err(_) if attempts < ATTEMPTS_MAX => runtime::yield_if_needed().await,
            done => return done,
        }
    }
}
