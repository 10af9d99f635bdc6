//! Metrics of all cores together, for operators and virtual tables.

use crate::messages::admin::{MetricsReply, MetricsRequest};
use crate::messages::{Reply, Request, unexpected};
use crate::metrics::operations::Operation;
use crate::metrics::pools::{STAGES, stages};
use crate::metrics::{
    CidrLatency, Distribution, HintMetrics, Measure, RepairMetrics, RequestMetrics, ShardMetrics, StreamMetrics,
    TableMetrics,
};
use crate::ports::{Activity, Observation};
use crate::shard_state::Shard;
use model::Failure;
use runtime::ShardId;
use std::collections::BTreeMap;

impl Shard {
    /// The values of some measures for every table that was used, summed over all cores.
    pub async fn measured(&self, measures: &[Measure]) -> Result<TableMetrics, Failure> {
        let mut sum = TableMetrics::new();
        let ask = || MetricsRequest::Tables(measures.to_vec());
        let pick = |reply| if let MetricsReply::Tables(tables) = reply { Some(tables) } else { None };
        for of_shard in gather(self, ask, pick).await? {
            for (id, measured) in of_shard {
                let table = sum.entry(id).or_default();
                for (measure, distribution) in measured {
                    table.entry(measure).or_default().add(&distribution);
                }
            }
        }
        Ok(sum)
    }

    /// The metrics of every shard as a whole, in the order of the shards.
    pub async fn all_metrics(&self) -> Result<Vec<ShardMetrics>, Failure> {
        let pick = |reply| if let MetricsReply::Shard(metrics) = reply { Some(*metrics) } else { None };
        gather(self, || MetricsRequest::Shard, pick).await
    }

    /// The metrics of requests, in the order of the shards.
    pub(crate) async fn request_metrics(&self) -> Result<Vec<RequestMetrics>, Failure> {
        let pick = |reply| if let MetricsReply::Requests(metrics) = reply { Some(*metrics) } else { None };
        gather(self, || MetricsRequest::Requests, pick).await
    }

    /// What all cores have counted of addresses, by the names of `system_views.cidr_filtering_metrics_counts`.
    pub(crate) async fn cidr_counts(&self) -> Result<BTreeMap<String, u64>, Failure> {
        let mut sum = BTreeMap::new();
        for metrics in self.request_metrics().await? {
            for (name, count) in metrics.cidr_accesses {
                *sum.entry(name).or_insert(0) += count;
            }
        }
        Ok(sum)
    }

    /// How long all cores took to look after addresses.
    pub(crate) async fn cidr_times(&self) -> Result<[(CidrLatency, Distribution); 3], Failure> {
        let mut sum = CidrLatency::ALL.map(|latency| (latency, Distribution::default()));
        for metrics in self.request_metrics().await? {
            sum.iter_mut().zip(&metrics.cidr_latencies).for_each(|((_, sum), of_core)| sum.add(of_core));
        }
        Ok(sum)
    }

    /// The clients of every core, in the order of the shards.
    pub async fn observed(&self) -> Result<Vec<Observation>, Failure> {
        let pick = |reply| if let MetricsReply::Clients(observation) = reply { Some(observation) } else { None };
        gather(self, || MetricsRequest::Clients, pick).await
    }

    /// The activity of each stage, by Cassandra's names, summed over all cores.
    pub(crate) async fn pools(&self) -> Result<[(&'static str, Activity); STAGES], Failure> {
        Ok(stages(&self.all_metrics().await?))
    }
}

/// Asks every core for metrics of one kind; `pick` takes them out of the reply.
async fn gather<T>(
    shard: &Shard,
    ask: impl Fn() -> MetricsRequest,
    pick: impl Fn(MetricsReply) -> Option<T>,
) -> Result<Vec<T>, Failure> {
    let replies = shard.call_all(|| Request::Metrics(ask())).await.into_iter();
    replies.map(|reply| pick(reply.metrics()?).ok_or_else(unexpected)).collect()
}

/// Answers another core's request for metrics of this core.
pub(crate) fn answer(shard: &Shard, request: MetricsRequest) -> Reply {
    Reply::Metrics(match request {
        MetricsRequest::Clients => MetricsReply::Clients(shard.notifier().observe()),
        MetricsRequest::Tables(measures) => MetricsReply::Tables(shard.metrics().tables(&measures)),
        MetricsRequest::Requests => {
            let prepared = shard.prepared().borrow().count();
            MetricsReply::Requests(Box::new(shard.metrics().requests(prepared, shard.roles().accesses())))
        }
        MetricsRequest::Shard => MetricsReply::Shard(Box::new(of_shard(shard))),
    })
}

/// The metrics of this core as a whole.
fn of_shard(shard: &Shard) -> ShardMetrics {
    let now = runtime::now();
    let (metrics, store, mailbox) = (shard.metrics(), shard.store(), shard.mailbox());
    let (memtable_bytes, memtable_bytes_max) = store.memory();
    ShardMetrics {
        latencies: Operation::ALL.map(|operation| (operation, metrics.latency(operation, now))).into(),
        classes: runtime::metrics::classes().into(),
        disk: runtime::metrics::disk().into(),
        cpu: runtime::metrics::thread_cpu(),
        cache: store.cache_metrics(),
        memtables: (memtable_bytes as u64, memtable_bytes_max as u64),
        served: shard.notifier().served(),
        peers: shard.peers().traffic(),
        compactions: compactions_activity(shard),
        flushes: flushes_activity(shard),
        definitions: shard.definitions().activity(),
        messages_waiting: (0..runtime::shard_count() as u16).map(|to| mailbox.queued(ShardId(to)) as u64).collect(),
        calls_waiting: mailbox.waiting() as u64,
        calls: mailbox.sent(),
        statements: (metrics.prepared_runs.get(), metrics.regular_runs.get()),
        reads_repaired: metrics.reads_repaired.get(),
        repairs_speculated: metrics.repairs_speculated.get(),
        repairs: RepairMetrics {
            running: shard.repairs().running() as u64,
            ended: shard.repairs().ended(),
            partitions: metrics.repairs.partitions.get(),
            bytes: metrics.repairs.bytes.get(),
            differing: metrics.repairs.differing.get(),
            hash_bytes: metrics.repairs.hash_bytes.get(),
            read_bytes: metrics.repairs.read_bytes.get(),
            written_bytes: metrics.repairs.written_bytes.get(),
        },
        damaged_sstables: (damaged_sstables(shard), metrics.sstables_healed.get()),
        digests_differed: metrics.digests_differed.get(),
        reads_speculated: metrics.reads_speculated.get(),
        reads_joined: metrics.reads_joined.get(),
        reads_spread: metrics.reads_spread.get(),
        mutations_missed: metrics.mutations_missed.get(),
        batches_replayed: metrics.batches_replayed.get(),
        batches_expired: metrics.batches_expired.get(),
        hints: of_hints(shard),
        streams: StreamMetrics {
            sent_bytes: shard.streams().sent_bytes.get(),
            received_bytes: shard.streams().received_bytes.get(),
            sessions: shard.streams().sessions() as u64,
        },
        charges: shard.throughput().charges(now),
        quotas: shard.throughput().quota_charges(),
        relieved: shard.hot_reads().relieved(now),
        alerts: (shard.alerts().list(), shard.alerts().counts()),
    }
}

/// The activity of compactions on this core.
fn compactions_activity(shard: &Shard) -> Activity {
    let statistics = shard.store().compaction_statistics();
    Activity {
        active: statistics.running.len() as u64,
        active_max: 1,
        pending: statistics.pending.values().sum::<usize>() as u64,
        completed: statistics.completed,
        ..Activity::default()
    }
}

/// The damaged SSTables of this core; those that several cores serve are counted by the first.
fn damaged_sstables(shard: &Shard) -> u64 {
    let is_first = shard.id() == ShardId(0);
    shard.store().damaged_sstables().iter().filter(|sstable| is_first || !sstable.foreign).count() as u64
}

/// The activity of flushes on this core.
fn flushes_activity(shard: &Shard) -> Activity {
    let (active, completed) = shard.store().flush_activity();
    Activity { active, active_max: 1, completed, ..Activity::default() }
}

/// The hints of this core.
fn of_hints(shard: &Shard) -> HintMetrics {
    let (hints, counts) = (shard.hints(), &shard.hints().counts);
    let deliveries = Activity {
        active: hints.deliveries.get() as u64,
        active_max: hints.options().deliveries_max as u64,
        completed: counts.files_delivered.get(),
        ..Activity::default()
    };
    HintMetrics {
        kept: counts.kept.get(),
        refused: counts.refused.get(),
        delivered: counts.delivered.get(),
        expired: counts.expired.get(),
        void: counts.void.get(),
        damaged: counts.damaged.get(),
        bytes: hints.bytes(),
        deliveries,
    }
}
