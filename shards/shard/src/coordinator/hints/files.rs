//! The files of one core's hints: writing and closing them, finding those of an earlier run, deleting them.
//!
//! 1. A start finds the files whose core, modulo the number of cores now, is this one.
//! 2. Batches are written every `hints_flush_period`, and at once when there is much of them, when a client waits for
//!    one, and when the node stops.
//! 3. After each period, and when a node has come up, files are delivered ([`super::delivery`]).

use super::delivery;
use crate::shard_state::Shard;
use crate::shard_state::hints::{Batch, ClosedFile, Wanted};
use engine::hints::{HintFileName, HintWriter};
use runtime::File;
use runtime::file::{OpenOptions, list_dir, remove, sync_dir};
use std::io;
use uuid::Uuid;

/// Finds the files that earlier runs have left for this core.
pub(crate) async fn find(shard: &Shard) -> io::Result<()> {
    let hints = shard.hints();
    let paths = match list_dir(&hints.directory).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        paths => paths?,
    };
    let names = paths.iter().filter_map(|path| HintFileName::parse(path.file_name()?.to_str()?));
    let is_mine = |name: &HintFileName| usize::from(name.core) % runtime::shard_count() == usize::from(shard.id().0);
    let mut names: Vec<HintFileName> = names.filter(is_mine).collect();
    names.sort_unstable();
    for name in names {
        let file = File::open(&hints.directory.join(name.to_string()), OpenOptions::default()).await?;
        hints.add_closed(ClosedFile { name, bytes: file.len().await?, position: 0 });
    }
    Ok(())
}

/// Writes hints to files and has them delivered, until the node stops.
pub(crate) async fn keep(shard: Shard) {
    let hints = shard.hints();
    let Some(_pass) = hints.gate.enter() else { return };
    while !hints.gate.is_closed() {
        let period = hints.options().flush_period;
        let wanted = runtime::timeout(period, hints.wanted()).await;
        let Wanted { flush, deliver } = wanted.unwrap_or(Wanted { flush: true, deliver: true });
        if flush || hints.gate.is_closed() {
            flush_all(&shard).await;
        }
        if deliver && !hints.gate.is_closed() {
            delivery::start(&shard);
        }
    }
}

/// Writes the batches of all nodes.
async fn flush_all(shard: &Shard) {
    for host_id in shard.hints().hosts() {
        let _permit = shard.hints().files.acquire(1).await;
        flush(shard, host_id).await;
    }
}

/// Writes what there is for a node and closes its file.
pub(super) async fn flush_and_close(shard: &Shard, host_id: Uuid) {
    let _permit = shard.hints().files.acquire(1).await;
    flush(shard, host_id).await;
    shard.hints().close(host_id);
}

/// Writes the batch of a node. The caller has the permit.
async fn flush(shard: &Shard, host_id: Uuid) {
    let hints = shard.hints();
    let Some(mut batch) = hints.take_batch(host_id) else { return };
    match write(shard, host_id, &mut batch).await {
        Ok(()) => hints.written(host_id, batch),
        Err(error) => {
            tracing::error!(%error, "hints for {host_id} are not written to {}", hints.directory.display());
            hints.not_written(host_id, batch);
        }
    }
}

async fn write(shard: &Shard, host_id: Uuid, batch: &mut Batch) -> io::Result<()> {
    let writer = match &mut batch.writer {
        Some(writer) => writer,
        None => batch.writer.insert(HintWriter::create(&shard.hints().directory, host_id, shard.id().0).await?),
    };
    writer.append(&batch.records).await
}

/// Deletes all hints for a node. Returns how many files they were.
pub(crate) async fn delete_all(shard: &Shard, host_id: Uuid) -> io::Result<usize> {
    let _permit = shard.hints().files.acquire(1).await;
    let names = shard.hints().forget(host_id);
    delete(shard, &names).await?;
    Ok(names.len())
}

/// Deletes a closed file.
pub(super) async fn delete_closed(shard: &Shard, name: HintFileName) -> io::Result<()> {
    let _permit = shard.hints().files.acquire(1).await;
    shard.hints().remove(name);
    delete(shard, &[name]).await
}

async fn delete(shard: &Shard, names: &[HintFileName]) -> io::Result<()> {
    let directory = &shard.hints().directory;
    for name in names {
        match remove(&directory.join(name.to_string())).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => tracing::info!("Deleted hint file {name}"),
        }
    }
    if names.is_empty() { Ok(()) } else { sync_dir(directory).await }
}
