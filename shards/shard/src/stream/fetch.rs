//! Carrying out a plan, on shard 0.
//!
//! 1. The sources say how much there is; the disks must have room for it.
//! 2. Table by table: every core of every source is asked by the core of this node with the same number, modulo their
//!    number. What comes lies in a directory of the plan.
//! 3. When all of a table has come it becomes the table's, as an import does ([`crate::operations::imports`]): at once
//!    for readers and with its indexes, and as durable as anything else.
//! 4. A part that is in is noted in the directory of the plan, so that the plan, run again, need not fetch it again.
//!
//! Invariants: nothing comes back that a TRUNCATE has removed: a table that is truncated on either side while it is
//! fetched is fetched anew, and not before every node must have truncated it; nothing of a table that was dropped
//! stays.

use super::plan::{StreamError, StreamPlan, StreamSummary};
use crate::messages::streams::{Receive, ReceiveError, Received, StreamAnswer, StreamVerb};
use crate::messages::{Reply, Request};
use crate::operations::imports;
use crate::peer::answer;
use crate::peer::head::Head;
use crate::peer::streams::{StreamRequest, decode_measure, push_ranges};
use crate::ports::PeerLane;
use crate::shard_state::Shard;
use cluster::topology::{Node, features};
use engine::streams::directories;
use engine::streams::source::joined;
use model::{Failure, Table, TableId, TokenRange};
use runtime::file::replace_small;
use runtime::sync::join_all;
use runtime::{ShardId, hash64};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a source may give no sign of life before the plan fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a source may take to say how much it has.
const MEASURE_WAIT: Duration = Duration::from_secs(10);
/// Tables of which so many attempts were void are given up.
const ATTEMPTS_MAX: usize = 10;

/// What is fetched of one table.
struct TablePart {
    table: Arc<Table>,
    /// Each node once, with joined ranges.
    sources: Vec<(Node, Arc<[TokenRange]>)>,
}

/// See [`super::fetch`].
pub(super) async fn fetch(shard: &Shard, plan: &StreamPlan) -> Result<StreamSummary, StreamError> {
    let parts = parts(shard, plan)?;
    let _running = Running::begin(shard, plan.id)?;
    tracing::info!("[Stream #{}] Executing streaming plan for {}", plan.id, plan.operation.text());
    let fetched = fetch_parts(shard, plan, parts).await;
    match &fetched {
        Ok(summary) => {
            let StreamSummary { files, bytes } = summary;
            tracing::info!("[Stream #{}] All sessions completed: {files} files, {bytes} bytes", plan.id);
        }
        Err(error) => tracing::warn!("[Stream #{}] Stream failed: {error}", plan.id),
    }
    let failure = fetched.as_ref().err().map(StreamError::to_string);
    shard.call_all(|| Request::Stream(Box::new(StreamVerb::End { plan: plan.id, failure: failure.clone() }))).await;
    fetched
}

async fn fetch_parts(shard: &Shard, plan: &StreamPlan, parts: Vec<TablePart>) -> Result<StreamSummary, StreamError> {
    forget_others(shard).await?;
    let mut missing = Vec::new();
    for mut part in parts {
        let mut sources = Vec::new();
        for source in part.sources {
            if !is_noted(shard, &marker(shard, plan, &part.table, &source)).await? {
                sources.push(source);
            }
        }
        part.sources = sources;
        if !part.sources.is_empty() {
            missing.push(part);
        }
    }
    check_room(shard, &missing).await?;
    let mut summary = StreamSummary::default();
    for part in &missing {
        let fetched = fetch_table(shard, plan, part).await?;
        summary.files += fetched.files;
        summary.bytes += fetched.bytes;
    }
    Ok(summary)
}

/// Forgets what is kept of plans that are not being carried out. See [`super::forget_others`].
pub(super) async fn forget_others(shard: &Shard) -> Result<(), StreamError> {
    // Asked for each directory when it is about to go: other plans may begin meanwhile.
    let is_running = |plan: &str| shard.streams().running.borrow().iter().any(|running| running.to_string() == plan);
    directories::clean_incoming(&shard.config().directories, is_running).await.map_err(failed)
}

/// Forgets what is kept of a plan. See [`super::forget`].
pub(super) async fn forget(shard: &Shard, plan: Uuid) -> Result<(), StreamError> {
    for directory in shard.config().directories.all() {
        let directory = directory.join(directories::DIRECTORY).join("in").join(plan.to_string());
        directories::remove_all(&directory).await.map_err(failed)?;
    }
    Ok(())
}

/// A plan that is being carried out.
struct Running<'s> {
    shard: &'s Shard,
    plan: Uuid,
}

impl<'s> Running<'s> {
    fn begin(shard: &'s Shard, plan: Uuid) -> Result<Running<'s>, StreamError> {
        let mut running = shard.streams().running.borrow_mut();
        if running.contains(&plan) {
            return Err(StreamError::Failed(Failure::server(format!("stream {plan} is under way already"))));
        }
        running.push(plan);
        Ok(Running { shard, plan })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shard.streams().running.borrow_mut().retain(|running| *running != self.plan);
    }
}

fn failed(error: engine::Error) -> StreamError {
    StreamError::Failed(Failure::server(error.to_string()))
}

/// What a plan is about, table by table.
fn parts(shard: &Shard, plan: &StreamPlan) -> Result<Vec<TablePart>, StreamError> {
    let (topology, schema) = (shard.topology(), shard.schema());
    let mut ranges: BTreeMap<(TableId, Uuid), Vec<TokenRange>> = BTreeMap::new();
    let mut nodes: BTreeMap<Uuid, Node> = BTreeMap::new();
    for part in &plan.parts {
        let is_source = |node: &&Node| node.host_id == part.source && node.host_id != shard.host_id();
        let node = topology.nodes().iter().find(is_source);
        let node = node.ok_or(StreamError::UnknownSource(part.source))?;
        if node.features & features::STREAMS == 0 {
            return Err(StreamError::Unsupported(part.source));
        }
        nodes.insert(node.host_id, node.clone());
        let Some(keyspace) = schema.keyspace(&part.keyspace) else { continue };
        let is_wanted = |table: &&Arc<Table>| part.tables.as_ref().is_none_or(|tables| tables.contains(&table.id));
        for table in keyspace.tables.values().filter(is_wanted) {
            ranges.entry((table.id, part.source)).or_default().extend(part.ranges.iter().cloned());
        }
    }
    let mut parts: Vec<TablePart> = Vec::new();
    for ((id, source), ranges) in ranges {
        let source = (nodes[&source].clone(), joined(&ranges).into());
        match parts.last_mut().filter(|part| part.table.id == id) {
            Some(part) => part.sources.push(source),
            None => {
                let Some(table) = schema.table_by_id(id).cloned() else { continue };
                parts.push(TablePart { table, sources: vec![source] });
            }
        }
    }
    Ok(parts)
}

/// Fails if the disks have no room for what is to come.
async fn check_room(shard: &Shard, parts: &[TablePart]) -> Result<(), StreamError> {
    let mut needed = 0u64;
    let mut silent = BTreeSet::new();
    for part in parts {
        for (node, ranges) in &part.sources {
            let request = StreamRequest::Measure { table: part.table.id, ranges: ranges.to_vec() };
            for core in 0..node.shards.shards {
                if silent.contains(&node.host_id) {
                    break;
                }
                let mut body = Head { epoch: shard.epoch() }.body(256);
                request.push(&mut body, core);
                let deadline = runtime::now().after(MEASURE_WAIT);
                let call = shard.peers().call(node, PeerLane::Bulk, request.verb(), &body, deadline);
                // A source that does not answer now is asked again when it matters.
                let Ok(answer) = call.await else {
                    silent.insert(node.host_id);
                    continue;
                };
                if let Some(Ok(result)) = answer::decode(&answer)
                    && let Some((_, bytes)) = decode_measure(result)
                {
                    needed = needed.saturating_add(bytes);
                }
            }
        }
    }
    if needed == 0 || !shard.config().streams.check_disk_space {
        return Ok(());
    }
    needed = needed.saturating_add(needed / 20);
    let mut free: BTreeMap<u64, u64> = BTreeMap::new();
    for directory in shard.config().directories.all() {
        let space = runtime::file::space(directory).await;
        let space = space.map_err(|error| failed(engine::Error::Io(error)))?;
        free.insert(space.disk, space.free);
    }
    let available = free.values().fold(0u64, |sum, free| sum.saturating_add(*free));
    match needed > available {
        true => Err(StreamError::DiskFull { needed, available }),
        false => Ok(()),
    }
}

/// Fetches one table and makes what came its own.
async fn fetch_table(shard: &Shard, plan: &StreamPlan, part: &TablePart) -> Result<StreamSummary, StreamError> {
    let table = &part.table;
    for attempt in 0..ATTEMPTS_MAX {
        wait_for_truncation(shard, table.id).await;
        let began = shard.clock().timestamp();
        let received = match receive_all(shard, plan, part).await {
            Ok(received) => received,
            Err((_, ReceiveError::Dropped)) => {
                remove_staged(shard, plan, table).await?;
                return Ok(StreamSummary::default());
            }
            Err((_, ReceiveError::Truncated)) => {
                tracing::info!(table = %table.full_name(), attempt, "truncated while it was fetched");
                remove_staged(shard, plan, table).await?;
                runtime::sleep(Duration::from_millis(100)).await;
                continue;
            }
            Err((source, ReceiveError::Unreachable(text))) => return Err(StreamError::Unreachable(source, text)),
            Err((_, ReceiveError::Failed(failure))) => return Err(StreamError::Failed(failure)),
        };
        let _turn = shard.definitions().begin().await;
        if shard.schema_ref().table_by_id(table.id).is_none() {
            remove_staged(shard, plan, table).await?;
            return Ok(StreamSummary::default());
        }
        if shard.truncations().covers(table.id, began) {
            remove_staged(shard, plan, table).await?;
            continue;
        }
        imports::take_streamed(shard, table.id, &received.directories).await?;
        for source in &part.sources {
            note(shard, &marker(shard, plan, table, source)).await?;
        }
        remove_staged(shard, plan, table).await?;
        return Ok(StreamSummary { files: received.files, bytes: received.bytes });
    }
    Err(StreamError::Failed(Failure::server(format!("{} is truncated again and again", table.full_name()))))
}

/// Waits until a truncation of a table that this node has made was made by every other one too, or has failed there:
/// until then a source may still have what it removes.
async fn wait_for_truncation(shard: &Shard, table: TableId) {
    let settled = i64::try_from(shard.config().truncate_timeout.as_micros()).unwrap_or(i64::MAX);
    while let Some(last) = shard.truncations().last(table) {
        let left = last.saturating_add(settled).saturating_sub(shard.clock().timestamp());
        match u64::try_from(left) {
            Ok(left) if left > 0 => runtime::sleep(Duration::from_micros(left.min(1_000_000))).await,
            _ => return,
        }
        if shard.is_draining() {
            return;
        }
    }
}

/// Receives what all sources have of a table.
async fn receive_all(shard: &Shard, plan: &StreamPlan, part: &TablePart) -> Result<Received, (Uuid, ReceiveError)> {
    let cores = runtime::shard_count() as u16;
    let mut tasks = Vec::new();
    for (node, ranges) in &part.sources {
        for core in 0..node.shards.shards {
            let name = format!("{}-{core}-{:016x}", node.host_id, hash_of(ranges));
            let directory = table_directory(shard, plan, &part.table, core).join(name);
            let task = Receive {
                plan: plan.id,
                operation: plan.operation as u8,
                source: node.clone(),
                core,
                table: part.table.clone(),
                ranges: ranges.clone(),
                directory,
                patience: PATIENCE,
            };
            let request = Request::Stream(Box::new(StreamVerb::Receive(Box::new(task))));
            let source = node.host_id;
            tasks.push(async move { (source, shard.call(ShardId(core % cores), request).await) });
        }
    }
    let mut sum = Received::default();
    let mut first = None;
    for (source, reply) in join_all(tasks.into_iter().map(Box::pin).collect()).await {
        match reply {
            Reply::Stream(StreamAnswer::Received(Ok(received))) => {
                sum.directories.extend(received.directories);
                sum.files += received.files;
                sum.bytes += received.bytes;
            }
            Reply::Stream(StreamAnswer::Received(Err(error))) => {
                // That the table is void or gone explains all other failures.
                let is_cause = matches!(error, ReceiveError::Dropped | ReceiveError::Truncated);
                if is_cause || first.is_none() {
                    first = Some((source, error));
                }
            }
            _ => first = Some((source, ReceiveError::Failed(crate::messages::unexpected()))),
        }
    }
    match first {
        Some(error) => Err(error),
        None => Ok(sum),
    }
}

fn hash_of(ranges: &[TokenRange]) -> u64 {
    let mut bytes = Vec::new();
    push_ranges(&mut bytes, ranges);
    hash64(&bytes)
}

fn table_directory(shard: &Shard, plan: &StreamPlan, table: &Table, core: u16) -> PathBuf {
    let directories = &shard.config().directories;
    directories::incoming(directories, core, &plan.id.to_string()).join(table.id.uuid().simple().to_string())
}

/// Removes what has come of a table.
async fn remove_staged(shard: &Shard, plan: &StreamPlan, table: &Table) -> Result<(), StreamError> {
    for core in 0..shard.config().directories.all().len() as u16 {
        directories::remove_all(&table_directory(shard, plan, table, core)).await.map_err(failed)?;
    }
    Ok(())
}

/// The file that says that a table is in, as far as a source has it.
fn marker(shard: &Shard, plan: &StreamPlan, table: &Table, (node, ranges): &(Node, Arc<[TokenRange]>)) -> PathBuf {
    let directory = directories::incoming(&shard.config().directories, 0, &plan.id.to_string());
    directory.join(format!("done-{}-{}-{:016x}", table.id.uuid().simple(), node.host_id, hash_of(ranges)))
}

async fn is_noted(_: &Shard, marker: &std::path::Path) -> Result<bool, StreamError> {
    match runtime::file::read_small(marker, 0).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(engine::Error::Io(error))),
    }
}

async fn note(_: &Shard, marker: &std::path::Path) -> Result<(), StreamError> {
    if let Some(directory) = marker.parent() {
        let made = runtime::file::create_dir_all(directory).await;
        made.map_err(|error| failed(engine::Error::Io(error)))?;
    }
    replace_small(marker, &[]).await.map_err(|error| failed(engine::Error::Io(error)))
}
