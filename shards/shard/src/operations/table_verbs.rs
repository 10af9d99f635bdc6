//! Operators' requests about a table's storage, run on all cores at the same time.

use crate::messages::admin::{TableAnswer, TableVerb};
use crate::messages::{Reply, Request};
use crate::shard_state::Shard;
use engine::{Store, TableStatistics};
use model::{Failure, TableId};
use runtime::ShardId;
use runtime::sync::join_all;
use std::rc::Rc;
use uuid::Uuid;

impl Shard {
    /// Runs a request on every core. Returns the answers in the order of the cores, or the first failure.
    pub async fn on_every_shard(&self, verb: TableVerb) -> Result<Vec<TableAnswer>, Failure> {
        let replies = self.call_all(|| Request::Table(Box::new(verb.clone()))).await;
        replies.into_iter().map(Reply::table).collect()
    }

    /// Runs a request on every core, on at most `cores_max` of them at a time; 0 stands for all.
    pub async fn on_every_shard_in_turn(&self, verb: TableVerb, cores_max: u16) -> Result<(), Failure> {
        let shards = runtime::shard_count() as u16;
        let step = if cores_max == 0 { shards } else { cores_max };
        for first in (0..shards).step_by(step.into()) {
            let some = first..first.saturating_add(step).min(shards);
            let calls = some.map(|to| self.call(ShardId(to), Request::Table(Box::new(verb.clone()))));
            join_all(calls.collect()).await.into_iter().try_for_each(|reply| Reply::table(reply).map(|_| ()))?;
        }
        Ok(())
    }

    /// Statistics of a table, summed over all cores.
    pub async fn statistics(&self, table: TableId) -> Result<TableStatistics, Failure> {
        let mut sum = TableStatistics::default();
        for answer in self.on_every_shard(TableVerb::Statistics(table)).await? {
            if let TableAnswer::Statistics(statistics) = answer {
                sum.add(&statistics);
            }
        }
        Ok(sum)
    }
}

/// Runs a request on this core.
pub(crate) async fn run(shard: &Shard, verb: TableVerb) -> Result<TableAnswer, Failure> {
    let store = shard.store();
    match verb {
        TableVerb::Statistics(table) => {
            let now = runtime::wall_micros().div_euclid(1_000_000);
            // A core that holds nothing of the table, because it lives on another core, has no statistics.
            let statistics = store.statistics(table, now).unwrap_or_default();
            Ok(TableAnswer::Statistics(Box::new(statistics)))
        }
        TableVerb::SizeEstimates { table, ranges } => {
            Ok(TableAnswer::SizeEstimates(store.size_estimates(table, &ranges)))
        }
        TableVerb::TabletLoads => Ok(TableAnswer::TabletLoads(shard.tablet_loads().report())),
        TableVerb::KeyFigures => Ok(TableAnswer::KeyFigures(shard.key_figures().report(shard))),
        TableVerb::Flush(table) => match store.flush(table).await {
            // A table that lives on another core is unknown here.
            Ok(()) | Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Done),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::Compact { table, chosen } => match store.compact(table, chosen).await {
            Ok(()) => {
                // The operator may look at the history at once.
                store.compactions_stored().await;
                Ok(TableAnswer::Done)
            }
            Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Done),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::Clean(table) => {
            let asked = shard.clone();
            match store.clean_table(table, Rc::new(move || asked.owned_ranges(table))).await {
                Ok(true) => {
                    store.compactions_stored().await;
                    Ok(TableAnswer::Done)
                }
                Ok(false) => {
                    let text = "Node is involved in cluster membership changes. Not safe to run cleanup.";
                    Err(Failure::server(text))
                }
                Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Done),
                Err(error) => Err(Failure::server(error.to_string())),
            }
        }
        TableVerb::Snapshot { table, tag, flush } => match snapshot(store, table, &tag, flush).await {
            Ok(files) => Ok(TableAnswer::Linked(files)),
            Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Linked(Vec::new())),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::Served(table) => known(store.served(table).await).map(TableAnswer::Served),
        TableVerb::LogPlace => match store.log_place().await {
            Ok(place) => Ok(TableAnswer::Place(place)),
            Err(error) => Err(Failure::server(error.to_string())),
        },
        TableVerb::OpenImported { table, placed } => {
            known(store.open_imported(table, &placed).await).map(|()| TableAnswer::Done)
        }
        TableVerb::EndImport { table, committed } => {
            store.end_import(table, committed);
            if table == shard.paxos_columns().table.id {
                shard.recent_acceptors().forget_all();
            }
            Ok(TableAnswer::Done)
        }
        TableVerb::Verify { table, check } => known(store.verify(table, check).await).map(TableAnswer::Verified),
        TableVerb::Damaged => {
            let states = shard.damaged_states().texts().clone();
            Ok(TableAnswer::Damaged { sstables: store.damaged_sstables(), states })
        }
        TableVerb::MarkDamaged { table, name } => {
            store.mark_damaged(table, &name);
            Ok(TableAnswer::Done)
        }
        TableVerb::SetAside { table, name, tag } => {
            let kept = known(store.set_aside(table, name, tag).await)?;
            shard.metrics().sstables_healed.add(u64::from(kept.is_some()));
            Ok(TableAnswer::Linked(kept.into_iter().collect()))
        }
        TableVerb::SstablesWith { table, key } => known(store.sstables_with(table, &key).await).map(TableAnswer::Files),
        TableVerb::SetThroughput(bytes_per_second) => {
            store.set_compaction_throughput(part_of(bytes_per_second));
            Ok(TableAnswer::Done)
        }
        TableVerb::SetRepaired { table, ranges } => {
            store.set_repaired(table, ranges);
            Ok(TableAnswer::Done)
        }
        TableVerb::SetAutoCompaction { table, on } => {
            store.set_auto_compaction(table, on);
            Ok(TableAnswer::Done)
        }
        TableVerb::SetTimeouts(timeouts) => {
            shard.set_timeouts(timeouts);
            Ok(TableAnswer::Done)
        }
        TableVerb::SetDiskUsage(usage) => {
            shard.set_disk_usage(usage);
            Ok(TableAnswer::Done)
        }
        TableVerb::SetStored(stored) => {
            shard.throughput().set_stored(&stored);
            Ok(TableAnswer::Done)
        }
        TableVerb::Memory => Ok(TableAnswer::Memory(store.memory().0 as u64)),
        TableVerb::Compactions => Ok(TableAnswer::Compactions(Box::new(store.compaction_statistics()))),
        TableVerb::BeginSampling(request) => match shard.metrics().sampling.begin(request) {
            true => Ok(TableAnswer::Done),
            false => Err(Failure::server("too many samplings are under way")),
        },
        TableVerb::EndSampling(id) => Ok(TableAnswer::Samples(Box::new(shard.metrics().sampling.end(id)))),
        TableVerb::Flushes => {
            let (running, completed) = store.flush_activity();
            Ok(TableAnswer::Flushes { running, completed })
        }
        TableVerb::BuildIndex { table, index } => {
            known(store.build_index(table, &index).await).map(|()| TableAnswer::Done)
        }
        TableVerb::RemoveIndex { table, index } => {
            known(store.remove_index(&table, &index).await).map(|()| TableAnswer::Done)
        }
        TableVerb::SetApart { table, ranges, session } => {
            match store.set_apart(table, ranges, *session.as_bytes()).await {
                Ok(()) | Err(engine::Error::UnknownTable(_)) => Ok(TableAnswer::Done),
                Err(engine::Error::SetApart { session: other }) => Err(Failure::server(format!(
                    "Prepare phase for incremental repair session {session} has failed because it encountered intersecting \
                 sstables belonging to another incremental repair session ({}). This is caused by starting multiple \
                 conflicting incremental repairs at the same time",
                    Uuid::from_bytes(other)
                ))),
                Err(error) => Err(Failure::server(error.to_string())),
            }
        }
        TableVerb::AddPending { session, mutation } => {
            known(store.add_pending(*session.as_bytes(), &mutation).await).map(|()| TableAnswer::Done)
        }
        TableVerb::KeepPending(session) => {
            known(store.keep_pending(*session.as_bytes()).await).map(|()| TableAnswer::Done)
        }
        TableVerb::SettleRepair { session, repaired_at } => {
            known(store.settle_repair(*session.as_bytes(), repaired_at).await).map(|()| TableAnswer::Done)
        }
        TableVerb::PendingRepairs => {
            Ok(TableAnswer::Sessions(store.pending_repairs().into_iter().map(Uuid::from_bytes).collect()))
        }
        TableVerb::FlushAll => match store.flush_all().await {
            Ok(()) => Ok(TableAnswer::Done),
            Err(error) => Err(Failure::server(error.to_string())),
        },
    }
}

async fn snapshot(store: &Store, table: TableId, tag: &str, flush: bool) -> Result<Vec<String>, engine::Error> {
    if flush {
        store.flush(table).await?;
    }
    store.link_snapshot(table, tag).await
}

/// Replaces the failure of a core that does not know the table, because it lives on another core, by an empty result.
fn known<T: Default>(result: Result<T, engine::Error>) -> Result<T, Failure> {
    match result {
        Err(engine::Error::UnknownTable(_)) => Ok(T::default()),
        result => result.map_err(|error| Failure::server(error.to_string())),
    }
}

/// One core's share of a rate of the whole node, rounded up; 0 stays 0.
pub(crate) fn part_of(bytes_per_second: u64) -> u64 {
    bytes_per_second.div_ceil(runtime::shard_count() as u64)
}
