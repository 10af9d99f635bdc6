//! What has come of plans and is not in its tables yet, and what is noted of parts that are in: directories and files
//! of a plan below the data directories ([`engine::streams::directories`]).

use super::plan::{StreamError, StreamPlan};
use crate::peer::streams::push_ranges;
use crate::shard_state::Shard;
use cluster::topology::Node;
use engine::streams::directories;
use model::{Failure, Table, TokenRange};
use runtime::file::replace_small;
use runtime::hash64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

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

/// A number for ranges, as part of names.
pub(super) fn hash_of(ranges: &[TokenRange]) -> u64 {
    let mut bytes = Vec::new();
    push_ranges(&mut bytes, ranges);
    hash64(&bytes)
}

/// Where what comes of a table from cores of a number lies until it is in.
pub(super) fn table_directory(shard: &Shard, plan: &StreamPlan, table: &Table, core: u16) -> PathBuf {
    let directories = &shard.config().directories;
    directories::incoming(directories, core, &plan.id.to_string()).join(table.id.uuid().simple().to_string())
}

/// Removes what has come of a table.
pub(super) async fn remove_staged(shard: &Shard, plan: &StreamPlan, table: &Table) -> Result<(), StreamError> {
    for core in 0..shard.config().directories.all().len() as u16 {
        directories::remove_all(&table_directory(shard, plan, table, core)).await.map_err(failed)?;
    }
    Ok(())
}

/// The file that says that a table is in, as far as a source has it.
pub(super) fn marker(
    shard: &Shard,
    plan: &StreamPlan,
    table: &Table,
    (node, ranges): &(Node, Arc<[TokenRange]>),
) -> PathBuf {
    let directory = directories::incoming(&shard.config().directories, 0, &plan.id.to_string());
    directory.join(format!("done-{}-{}-{:016x}", table.id.uuid().simple(), node.host_id, hash_of(ranges)))
}

/// Whether a file says that what it stands for is in.
pub(super) async fn is_noted(marker: &Path) -> Result<bool, StreamError> {
    match runtime::file::read_small(marker, 0).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(engine::Error::Io(error))),
    }
}

/// Writes a file that says that what it stands for is in.
pub(super) async fn note(marker: &Path) -> Result<(), StreamError> {
    if let Some(directory) = marker.parent() {
        let made = runtime::file::create_dir_all(directory).await;
        made.map_err(|error| failed(engine::Error::Io(error)))?;
    }
    replace_small(marker, &[]).await.map_err(|error| failed(engine::Error::Io(error)))
}

/// The failure of a plan by this node's disk.
pub(super) fn failed(error: engine::Error) -> StreamError {
    StreamError::Failed(Failure::server(error.to_string()))
}
