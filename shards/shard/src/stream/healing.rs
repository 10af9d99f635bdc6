//! Replaces damaged SSTables by what other replicas have, those that could not be opened among them. Shard 0 looks
//! periodically which there are on any core.
//!
//! 1. Its range is fetched from every other replica by streaming, so that this node has what any of them has. Until all
//!    of it is the table's the SSTable is served, and reads that need its damaged bytes fail: coordinators ask others.
//! 2. It is set aside: kept in a snapshot of its table, `damaged-` with the time and its id, and served no more.
//!
//! Nothing is done, but said once, while a replica of the range is down or the node gains ranges of the keyspace; if
//! there is no other replica; and if deletions in it may be forgotten elsewhere ([`engine::damaged::Obstacle`]).
//!
//! Invariants: what was acknowledged by this replica and another one is read again after it; no row comes back whose
//! deletion was in it; one SSTable is replaced at a time.

use super::{StreamOperation, StreamPart, StreamPlan};
use crate::messages::admin::{TableAnswer, TableVerb};
use crate::shard_state::Shard;
use cluster::topology::NodeIndex;
use engine::damaged::{self, DamagedSstable};
use engine::snapshot::{self, Manifest};
use model::{Failure, TableId, TokenRange};
use runtime::hash64;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Time between two looks for damaged SSTables.
const PERIOD: Duration = Duration::from_secs(10);
/// Prefix of the names of the snapshots that keep damaged SSTables.
const TAG: &str = "damaged";

/// Replaces damaged SSTables for as long as the node runs.
pub(crate) async fn watch(shard: Shard) {
    let states = shard.damaged_states();
    loop {
        runtime::sleep(PERIOD).await;
        let Ok(pass) = shard.enter() else { return };
        let found = found_on(&shard).await;
        let files: BTreeSet<&PathBuf> = found.iter().map(|sstable| &sstable.file).collect();
        states.retain(&files);
        let mut unflushed = BTreeSet::new();
        for sstable in &found {
            if states.found(&sstable.file) {
                match &sstable.problem {
                    None => tracing::error!("Corrupted: {}", sstable.file.display()),
                    Some(problem) => {
                        tracing::error!("Corrupted: {}, which cannot be opened: {problem}", sstable.file.display());
                    }
                }
                unflushed.insert(sstable.table);
                let mark = TableVerb::MarkDamaged { table: sstable.table, name: sstable.name.clone() };
                if let Err(failure) = shard.on_every_shard(mark).await {
                    tracing::warn!(%failure, "not all cores know of a damaged SSTable");
                }
            }
        }
        for table in &unflushed {
            if let Err(failure) = shard.on_every_shard(TableVerb::Flush(*table)).await {
                tracing::warn!(%failure, "a table with a damaged SSTable is not flushed");
            }
        }
        // What is in the way of replacing an SSTable is known now that what was in memory is on disk.
        let found = if unflushed.is_empty() { found } else { found_on(&shard).await };
        for sstable in &found {
            if !states.is_known(&sstable.file) {
                continue;
            }
            let file = sstable.file.display();
            match heal(&shard, sstable).await {
                Ok(Some(tag)) => {
                    tracing::warn!("{file} is replaced by the rows of other replicas, and kept in the snapshot {tag}");
                }
                Ok(None) => {}
                Err(failure) => {
                    if states.tell(&sstable.file, &failure.text) {
                        let what = if sstable.problem.is_some() { "what it may have" } else { "its damaged bytes" };
                        tracing::warn!("{file} stays, and reads that need {what} fail: {}", failure.text);
                    }
                }
            }
        }
        drop(pass);
    }
}

/// The damaged SSTables of all cores.
async fn found_on(shard: &Shard) -> Vec<DamagedSstable> {
    let answers = shard.on_every_shard(TableVerb::Damaged).await.unwrap_or_default();
    damaged::merged(answers.into_iter().map(|answer| match answer {
        TableAnswer::Damaged { sstables, .. } => sstables,
        _ => Vec::new(),
    }))
}

/// Replaces an SSTable; the name of the snapshot that keeps it. `None` if its table is gone, or has it no more.
async fn heal(shard: &Shard, sstable: &DamagedSstable) -> Result<Option<String>, Failure> {
    let Some(table) = shard.schema().table_by_id(sstable.table).cloned() else {
        // That of an index is no table of the schema.
        return sstable.obstacle.map_or(Ok(None), |obstacle| Err(Failure::server(obstacle.to_string())));
    };
    if let Some(obstacle) = sstable.obstacle {
        return Err(Failure::server(obstacle.to_string()));
    }
    let epoch = shard.epoch();
    let mut parts = Vec::new();
    for (source, ranges) in sources(shard, table.id, &sstable.range)? {
        let (keyspace, tables) = (table.keyspace.clone(), Some(vec![table.id]));
        parts.push(StreamPart { source, keyspace, tables, ranges });
    }
    tracing::info!("fetching the range of {} from {} other replicas", sstable.file.display(), parts.len());
    // Always the same for an SSTable: what has come before a crash need not come again.
    let name = sstable.file.as_os_str().as_encoded_bytes();
    let id = Uuid::from_u64_pair(hash64(name), hash64(&[name, b"+"].concat()));
    let plan = StreamPlan { id, operation: StreamOperation::Repair, parts };
    super::fetch(shard, plan).await.map_err(|error| Failure::server(error.to_string()))?;
    if shard.epoch() != epoch {
        return Err(Failure::server("the ring has changed meanwhile"));
    }
    let created_at = runtime::wall_micros().div_euclid(1000);
    let tag: Arc<str> = format!("{TAG}-{created_at}-{}", sstable.name.id).into();
    let _turn = shard.begin_snapshots().await;
    let verb = TableVerb::SetAside { table: table.id, name: sstable.name.clone(), tag: tag.clone() };
    let mut manifest = Manifest { created_at: Some(created_at), ..Manifest::default() };
    for answer in shard.on_every_shard(verb).await? {
        if let TableAnswer::Linked(files) = answer {
            manifest.files.extend(files);
        }
    }
    if manifest.files.is_empty() {
        return Ok(None);
    }
    let directories = snapshot::directories(&shard.config().directories, &table, &tag);
    let written = snapshot::write(&directories[0], &manifest, None).await;
    written.map_err(|error| Failure::server(error.to_string()))?;
    super::forget(shard, id).await.map_err(|error| Failure::server(error.to_string()))?;
    Ok(Some(tag.to_string()))
}

/// All other replicas of what this node has of a range, each with its ranges.
///
/// # Errors
/// One of them is down, or there is none, or the node gains ranges.
fn sources(shard: &Shard, table: TableId, limits: &TokenRange) -> Result<BTreeMap<Uuid, Vec<TokenRange>>, Failure> {
    let placement = shard.placement();
    let topology = placement.topology();
    let here: NodeIndex = topology.here();
    let alone = || Failure::server("there is no other replica of its rows");
    let placed = placement.table(table).ok_or_else(alone)?.keyspace();
    if placed.gains().iter().any(|gain| gain.receiver == here) {
        return Err(Failure::server("the node gains ranges of the table"));
    }
    let mut sources: BTreeMap<Uuid, Vec<TokenRange>> = BTreeMap::new();
    for range in placed.ranges(limits).filter(|range| range.nodes.contains(&here)) {
        if range.nodes.len() == 1 {
            return Err(alone());
        }
        for node in range.nodes.iter().filter(|node| **node != here) {
            let other = topology.node(*node);
            if !topology.live().contains(*node) {
                return Err(Failure::server(format!("the replica /{} is down", other.address)));
            }
            sources.entry(other.host_id).or_default().push(range.within(limits));
        }
    }
    Ok(sources)
}
