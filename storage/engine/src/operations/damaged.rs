//! SSTables with damaged bytes: which there are, and setting one aside whose rows have come from other replicas.
//!
//! 1. A read, a compaction or a check that meets bytes that are not what was written marks the SSTable. It goes on
//!    being served: what needs its damaged bytes fails, so that nothing is missing unnoticed, and compactions leave it
//!    alone.
//! 2. [`damaged`] lists such SSTables, each with what is in the way of doing without it.
//! 3. [`set_aside`] gives its files a second name in a snapshot, durably; then the table has it no more, and the files
//!    are removed by a transaction.
//!
//! Invariants: an SSTable is never without one of its two names; a crash leaves it either served or in the snapshot
//! alone; the log does not bring its rows back, since what deletes them may be purged where they were fetched from.
//!
//! Not here: fetching its rows (`shard`).

use super::snapshot;
use crate::compaction::Compactor;
use crate::error::Error;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::repair_set::RepairSet;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::{obsolete_sstables, purged_intervals};
use crate::tables::Tables;
use crate::tables::table_state::TableState;
use model::token::RingPosition;
use model::tombstone_gc::GcMode;
use model::{TableId, TokenRange};
use runtime::file::create_dir_all;
use sstable::{Component, Descriptor};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

/// How much sooner than here deletions may be forgotten by other replicas, whose clocks differ, seconds.
const CLOCKS_DIFFER_SECONDS: i64 = 3600;

/// A damaged SSTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedSstable {
    /// The table.
    pub table: TableId,
    /// Its name.
    pub name: Descriptor,
    /// Its Data.db.
    pub file: PathBuf,
    /// A range that has all its keys.
    pub range: TokenRange,
    /// Why the table cannot do without it, even if other replicas give their rows.
    pub obstacle: Option<Obstacle>,
}

/// Why a table cannot do without an SSTable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// Several shards serve it.
    Foreign,
    /// It is one of an index, whose rows no other node has.
    Index,
    /// An incremental repair has set it apart.
    SetApart,
    /// Other replicas may have forgotten what it deletes in other SSTables of this node.
    Tombstones,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::Foreign => "it is not split by cores yet",
            Obstacle::Index => "it is one of an index, which nodetool rebuild_index makes again",
            Obstacle::SetApart => "an incremental repair has set it apart",
            Obstacle::Tombstones => {
                "it has deletions that other replicas may have forgotten, of rows that may be in other SSTables here"
            }
        })
    }
}

/// The SSTables that this shard serves in which damaged bytes were met. What several shards serve is told by shard 0.
pub(crate) fn damaged(tables: &Tables) -> Vec<DamagedSstable> {
    let now = runtime::wall_micros().div_euclid(1_000_000);
    let mut found = Vec::new();
    for (table, state) in tables.borrow().iter() {
        for sstable in state.view.sstables.iter().filter(|sstable| sstable.suspect.get()) {
            if sstable.foreign && tables.shard != 0 {
                continue;
            }
            let name = sstable.reader.descriptor().clone();
            found.push(DamagedSstable {
                table: *table,
                file: sstable.directory.join(name.file_name(Component::Data)),
                name,
                range: range_of(sstable),
                obstacle: obstacle(state, sstable, now),
            });
        }
    }
    found
}

/// The range from its first to its last key, or the whole ring if these are not known.
fn range_of(sstable: &OpenSstable) -> TokenRange {
    let partitioner = sstable.reader.partitioner();
    let at = |key: &[u8], is_after| Some(RingPosition { token: partitioner.ring_token(key), is_after });
    match sstable.reader.key_bounds() {
        Some((first, last)) => TokenRange { start: at(first, false), end: at(last, true) },
        None => TokenRange::FULL,
    }
}

fn obstacle(state: &TableState, sstable: &OpenSstable, now_in_seconds: i64) -> Option<Obstacle> {
    if sstable.foreign {
        return Some(Obstacle::Foreign);
    }
    if state.index_of.is_some() {
        return Some(Obstacle::Index);
    }
    if matches!(RepairSet::of(sstable), RepairSet::Pending(_)) {
        return Some(Obstacle::SetApart);
    }
    hides_rows(state, sstable, now_in_seconds).then_some(Obstacle::Tombstones)
}

/// Whether it may have deletions that another replica may have forgotten, of what this shard has in other SSTables.
/// What is in memory is not looked at: the caller has flushed the table since the damage was met.
fn hides_rows(state: &TableState, sstable: &OpenSstable, now_in_seconds: i64) -> bool {
    let forgotten_before = match state.table.options.tombstone_gc.mode {
        GcMode::Disabled => return false,
        GcMode::Timeout => state.gc_before(now_in_seconds).latest().saturating_add(CLOCKS_DIFFER_SECONDS),
        // Another replica may know of a later repair.
        GcMode::Repair | GcMode::Immediate => i64::MAX,
    };
    let statistics = &sstable.reader.metadata().statistics;
    if statistics.tombstones.is_empty() || i64::from(statistics.min_local_deletion_time) >= forgotten_before {
        return false;
    }
    let may_be_hidden = |min_timestamp: i64| min_timestamp <= statistics.max_timestamp;
    let (first, last) = sstable.tokens();
    state.view.sstables.iter().any(|other| {
        let (other_first, other_last) = other.tokens();
        other.number != sstable.number
            && first <= other_last
            && other_first <= last
            && may_be_hidden(other.reader.metadata().statistics.min_timestamp)
    })
}

/// Takes a damaged SSTable out of its table and keeps it in the table's snapshot `tag`; the name of its Data.db. `None`
/// if this shard does not serve it, or it is not damaged.
///
/// # Errors
/// The disk's: it is served as before, or the next start finishes its removal.
pub(crate) async fn set_aside(
    tables: &Tables,
    files: &SstableFiles,
    compactor: &Rc<Compactor>,
    table: TableId,
    name: &Descriptor,
    tag: &str,
) -> Result<Option<String>, Error> {
    let _turn = compactor.turn.acquire(1).await;
    let description = tables.description(table)?;
    let find = || {
        let tables = tables.borrow();
        let mut served = tables.get(&table)?.view.sstables.iter();
        served.find(|sstable| sstable.reader.descriptor() == name && sstable.suspect.get() && !sstable.foreign).cloned()
    };
    let Some(gone) = find() else { return Ok(None) };
    let sources = files.directories_of(&description);
    let targets = snapshot::directories(&files.data, &description, tag);
    let Some((source, target)) = sources.iter().zip(&targets).find(|(source, _)| **source == gone.directory) else {
        return Ok(None);
    };
    create_dir_all(target).await.map_err(Error::Io)?;
    snapshot::link_named(source, target, &[name].into_iter().collect()).await?;
    let own = files.make_directory(&description, files.shard).await?;
    purged_intervals::add(&own, files.shard, files.shard_map, std::slice::from_ref(&gone)).await?;
    // The table may have been truncated or dropped meanwhile, or its schema changed.
    let Some(gone) = find() else { return Ok(None) };
    if let Some(state) = tables.borrow_mut().get_mut(&table) {
        state.view = Rc::new(state.view.replaced(std::slice::from_ref(&gone), &[]));
    }
    compactor.want(table);
    obsolete_sstables::remove(&gone.directory.clone(), vec![gone]).await?;
    Ok(Some(name.file_name(Component::Data)))
}
