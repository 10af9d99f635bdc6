//! How large and how busy the sub-partitions are of keys that grow by themselves ([`cluster::key_growth`]): what each
//! node reports, and what the leader of the group gathers from all.
//!
//! The answer of the verb `KeyFigures`, which has no body, is a list of [`TableReport`] in postcard's encoding.
//!
//! Invariants: a report has at most [`REPORTED_MAX`] sub-partitions, whose keys have at most [`KEY_BYTES_MAX`] bytes
//! together: those of which most is to be told.

use crate::messages::admin::{TableAnswer, TableVerb};
use crate::peer::control::{decoded, encoded};
use crate::ports::{PeerLane, Unreadable};
use crate::shard_state::Shard;
use crate::verbs::Verb;
use cluster::key_growth::SubPartitionFigures;
use cluster::topology::{Node, NodeIndex};
use model::{Failure, KeyGrowth, Schema, TableId};
use runtime::sync::join_all;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a node may take to report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most sub-partitions that a node reports.
const REPORTED_MAX: usize = 4_096;
/// Most bytes of the keys that a node reports.
const KEY_BYTES_MAX: usize = 1 << 20;

/// What a node reports of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct TableReport {
    table: [u8; 16],
    sub_partitions: Vec<ReportedSubPartition>,
}

/// What a node reports of a sub-partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct ReportedSubPartition {
    /// The logical key.
    key: Vec<u8>,
    number: u16,
    bytes: u64,
    /// A second.
    requests: u32,
}

/// What the nodes that answer report, by table.
pub(crate) type AllKeyFigures = BTreeMap<TableId, Vec<SubPartitionFigures>>;

/// Gathers what all live nodes report. To be called on shard 0.
pub(crate) async fn gather(shard: &Shard) -> Result<AllKeyFigures, Failure> {
    let mut all = own(shard).await?;
    let others: Vec<Node> = {
        let topology = shard.topology();
        let others = (0..topology.nodes().len() as u16).map(NodeIndex);
        let others = others.filter(|at| *at != topology.here() && topology.live().contains(*at));
        others.map(|at| topology.node(at).clone()).collect()
    };
    let deadline = runtime::now().after(REPORT_TIMEOUT);
    let asked = others.iter().map(|node| async move {
        let answer = shard.peers().call(node, PeerLane::Bulk, Verb::KeyFigures, &[], deadline).await;
        answer.ok().and_then(|answer| decoded::<Vec<TableReport>>(&answer))
    });
    for report in join_all(asked.map(Box::pin).collect()).await.into_iter().flatten().flatten() {
        let figures = report.sub_partitions.into_iter().map(|of| SubPartitionFigures {
            key: of.key,
            number: of.number,
            bytes: of.bytes,
            requests: of.requests,
        });
        all.entry(TableId(report.table)).or_default().extend(figures);
    }
    Ok(all)
}

/// Answers the verb `KeyFigures`.
pub(crate) async fn serve(shard: &Shard) -> Result<Vec<u8>, Unreadable> {
    let own = own(shard).await.map_err(|_| Unreadable)?;
    let reports = own.into_iter().map(|(id, figures)| TableReport {
        table: id.0,
        sub_partitions: figures
            .into_iter()
            .map(|of| ReportedSubPartition { key: of.key, number: of.number, bytes: of.bytes, requests: of.requests })
            .collect(),
    });
    Ok(encoded(&reports.collect::<Vec<_>>()))
}

/// What this node reports: of all of its cores.
async fn own(shard: &Shard) -> Result<AllKeyFigures, Failure> {
    type Place = (Vec<u8>, u16);
    let mut all: BTreeMap<TableId, BTreeMap<Place, (u64, u32)>> = BTreeMap::new();
    for answer in shard.on_every_shard(TableVerb::KeyFigures).await? {
        let TableAnswer::KeyFigures(tables) = answer else { continue };
        for (id, figures) in tables {
            for of in figures {
                let (bytes, requests) = all.entry(id).or_default().entry((of.key, of.number)).or_default();
                (*bytes, *requests) = (of.bytes.max(*bytes), requests.saturating_add(of.requests));
            }
        }
    }
    let figures = all.into_iter().flat_map(|(id, places)| {
        places
            .into_iter()
            .map(move |((key, number), (bytes, requests))| (id, SubPartitionFigures { key, number, bytes, requests }))
    });
    Ok(most(&shard.schema(), figures.collect()))
}

/// The sub-partitions of which most is to be told, as many as a report may have.
fn most(schema: &Schema, mut figures: Vec<(TableId, SubPartitionFigures)>) -> AllKeyFigures {
    let growth = |id: &TableId| schema.table_by_id(*id).and_then(|table| table.write_sharding()?.growth);
    figures.retain(|(id, _)| growth(id).is_some());
    let fullness = |(id, of): &(TableId, SubPartitionFigures)| growth(id).map_or(0.0, |growth| fullness(growth, of));
    figures.sort_by(|a, b| fullness(b).total_cmp(&fullness(a)));
    let (mut all, mut bytes) = (AllKeyFigures::new(), 0);
    for (id, of) in figures.into_iter().take(REPORTED_MAX) {
        bytes += of.key.len();
        if bytes > KEY_BYTES_MAX {
            break;
        }
        all.entry(id).or_default().push(of);
    }
    all
}

/// How much of its limits a sub-partition has.
fn fullness(growth: KeyGrowth, of: &SubPartitionFigures) -> f64 {
    let part = |figure: f64, limit: f64| if limit > 0.0 { figure / limit } else { 0.0 };
    let size = part(of.bytes as f64, growth.size_max as f64);
    size.max(part(of.requests.into(), growth.throughput_max.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::schema::Replication;
    use model::{Keyspace, ShardedBy, WriteSharding};
    use std::sync::Arc;

    #[test]
    fn bytes_of_reports_stay() {
        let one = ReportedSubPartition { key: vec![9, 8], number: 300, bytes: 5, requests: 128 };
        let report = vec![TableReport { table: [7; 16], sub_partitions: vec![one] }];
        let expected = [&[1][..], &[7; 16], &[1, 2, 9, 8, 0xac, 2, 5, 0x80, 1]].concat();
        assert_eq!(encoded(&report), expected);
        assert_eq!(decoded::<Vec<TableReport>>(&expected), Some(report));
    }

    #[test]
    fn a_report_has_the_fullest_and_not_one_more_than_it_may() {
        let mut schema = Schema::empty(model::Partitioner::Murmur3);
        let mut table = model::arbitrary::table("k", "t", &mut |_| 0);
        let growth = Some(KeyGrowth { size_max: 1 << 20, throughput_max: 100 });
        let sharding = WriteSharding { shards: 1, by: ShardedBy::Clustering(vec![0]), growth };
        table.options.write_sharding = Some(Arc::new(sharding));
        let id = table.id;
        schema.put_keyspace(Arc::new(Keyspace {
            name: "k".into(),
            replication: Replication { class: "LocalStrategy".into(), options: BTreeMap::new() },
            durable_writes: true,
            tablets: None,
            quota: Default::default(),
            tables: BTreeMap::from([("t".into(), Arc::new(table))]),
            types: BTreeMap::new(),
        }));
        let of = |key: Vec<u8>, bytes, requests| (id, SubPartitionFigures { key, number: 0, bytes, requests });
        let many = |count: u32| (0..count).map(|n| of(n.to_be_bytes().to_vec(), u64::from(n), 0)).collect::<Vec<_>>();
        let mut figures = many(REPORTED_MAX as u32);
        assert_eq!(most(&schema, figures.clone())[&id].len(), REPORTED_MAX);
        figures.push(of(b"busy".to_vec(), 0, 50));
        let told = &most(&schema, figures)[&id];
        assert_eq!((told.len(), &told[0].key[..]), (REPORTED_MAX, &b"busy"[..]));
        assert!(!told.iter().any(|of| of.key == 0_u32.to_be_bytes()), "it has the least");
        let long = |extra| vec![of(vec![1; KEY_BYTES_MAX / 2], 9, 0), of(vec![2; KEY_BYTES_MAX / 2 + extra], 8, 0)];
        assert_eq!(most(&schema, long(0))[&id].len(), 2);
        assert_eq!(most(&schema, long(1))[&id].len(), 1);
        let gone = (TableId([99; 16]), of(vec![1], 9, 0).1);
        assert_eq!(most(&schema, vec![gone]), AllKeyFigures::new());
    }
}
