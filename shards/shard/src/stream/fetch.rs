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

use super::parts::{TablePart, parts};
use super::plan::{StreamError, StreamPlan, StreamSummary};
use super::room;
use super::staging::{forget_others, hash_of, is_noted, marker, note, remove_staged, table_directory};
use crate::messages::streams::{Receive, ReceiveError, Received, StreamAnswer, StreamVerb};
use crate::messages::{Reply, Request};
use crate::operations::imports;
use crate::shard_state::Shard;
use model::{Failure, TableId};
use runtime::ShardId;
use runtime::sync::join_all;
use std::time::Duration;
use uuid::Uuid;

/// How long a source may give no sign of life before the plan fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tables of which so many attempts were void are given up.
const ATTEMPTS_MAX: usize = 10;

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
            if !is_noted(&marker(shard, plan, &part.table, &source)).await? {
                sources.push(source);
            }
        }
        part.sources = sources;
        if !part.sources.is_empty() {
            missing.push(part);
        }
    }
    let _reserved = room::reserve(shard, plan, &missing).await?;
    let mut summary = StreamSummary::default();
    for part in &missing {
        let fetched = fetch_table(shard, plan, part).await?;
        summary.files += fetched.files;
        summary.bytes += fetched.bytes;
    }
    Ok(summary)
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
            note(&marker(shard, plan, table, source)).await?;
        }
        remove_staged(shard, plan, table).await?;
        return Ok(StreamSummary { files: received.files, bytes: received.bytes });
    }
    Err(StreamError::Failed(Failure::server(format!("{} is truncated again and again", table.full_name()))))
}

/// Waits until a truncation of a table that this node has made was made by every other one too, or has failed there:
/// until then a source may still have what it removes. Nobody has to wait for a table that was dropped, which ends
/// with a truncation.
async fn wait_for_truncation(shard: &Shard, table: TableId) {
    let settled = i64::try_from(shard.timeouts().truncate.as_micros()).unwrap_or(i64::MAX);
    while let Some(last) = shard.truncations().last(table) {
        if shard.is_draining() || shard.schema_ref().table_by_id(table).is_none() {
            return;
        }
        let left = last.saturating_add(settled).saturating_sub(shard.clock().timestamp());
        match u64::try_from(left) {
            Ok(left) if left > 0 => runtime::sleep(Duration::from_micros(left.min(1_000_000))).await,
            _ => return,
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
