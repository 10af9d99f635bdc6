//! SSTables with damaged bytes: which there are, and setting one aside whose rows have come from other replicas.
//!
//! 1. A read, a compaction or a check that meets bytes that are not what was written marks the SSTable. It goes on
//!    being served: what needs its damaged bytes fails, so that nothing is missing unnoticed, and compactions leave it
//!    alone. Of one that could not be opened when the node started everything fails that it may have
//!    ([`crate::sstables::unopened_sstable`]).
//! 2. [`damaged`] lists such SSTables, each with what is in the way of doing without it; [`merged`] puts the lists of
//!    all shards together. One that several shards serve is marked on all of them before that ([`mark`]), so that each
//!    can say what is in its way.
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
use crate::sstables::unopened_sstable::UnopenedSstable;
use crate::sstables::{obsolete_sstables, purged_intervals};
use crate::tables::Tables;
use crate::tables::table_state::TableState;
use model::token::RingPosition;
use model::tombstone_gc::GcMode;
use model::{Table, TableId, Token, TokenRange};
use runtime::file::create_dir_all;
use sstable::statistics::Statistics;
use sstable::{Component, Descriptor};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How much sooner than here deletions may be forgotten by other replicas, whose clocks differ, seconds.
const CLOCKS_DIFFER_SECONDS: i64 = 3600;

/// A damaged SSTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedSstable {
    /// The table.
    pub table: TableId,
    /// The names of its keyspace and of the table; that of an index is TABLE.INDEX.
    pub names: (String, String),
    /// Its name.
    pub name: Descriptor,
    /// Its Data.db.
    pub file: PathBuf,
    /// Whether several shards serve it.
    pub foreign: bool,
    /// A range that has all its keys.
    pub range: TokenRange,
    /// What keeps it from being opened; `None` if it is open, and only reads of its damaged bytes fail.
    pub problem: Option<String>,
    /// Why the table cannot do without it, even if other replicas give their rows.
    pub obstacle: Option<Obstacle>,
}

/// Why a table cannot do without an SSTable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
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
            Obstacle::Index => "it is one of an index, which nodetool rebuild_index makes again",
            Obstacle::SetApart => "an incremental repair has set it apart",
            Obstacle::Tombstones => {
                "it has deletions that other replicas may have forgotten, of rows that may be in other SSTables here"
            }
        })
    }
}

/// The SSTables that this shard serves in which damaged bytes were met.
pub(crate) fn damaged(tables: &Tables) -> Vec<DamagedSstable> {
    let now = runtime::wall_micros().div_euclid(1_000_000);
    let mut found = Vec::new();
    for (table, state) in tables.borrow().iter() {
        for sstable in state.view.sstables.iter().filter(|sstable| sstable.suspect.get()) {
            let name = sstable.reader.descriptor().clone();
            found.push(DamagedSstable {
                table: *table,
                names: (state.table.keyspace.clone(), state.table.name.clone()),
                file: sstable.directory.join(name.file_name(Component::Data)),
                name,
                foreign: sstable.foreign,
                range: range_of(sstable),
                problem: None,
                obstacle: obstacle(state, sstable, now),
            });
        }
        for sstable in &state.view.unopened {
            found.push(DamagedSstable {
                table: *table,
                names: (state.table.keyspace.clone(), state.table.name.clone()),
                name: sstable.name.clone(),
                file: sstable.file(),
                foreign: sstable.foreign,
                range: sstable.range.clone(),
                problem: Some(sstable.error().to_string()),
                obstacle: obstacle_of_unopened(state, sstable, now),
            });
        }
    }
    found
}

/// The lists of several shards as one, in which an SSTable that they share is once. What is in the way of one shard is
/// in the way of all.
pub fn merged(lists: impl IntoIterator<Item = Vec<DamagedSstable>>) -> Vec<DamagedSstable> {
    let mut merged: BTreeMap<PathBuf, DamagedSstable> = BTreeMap::new();
    for sstable in lists.into_iter().flatten() {
        match merged.entry(sstable.file.clone()) {
            Entry::Vacant(entry) => drop(entry.insert(sstable)),
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                known.obstacle = known.obstacle.or(sstable.obstacle);
            }
        }
    }
    merged.into_values().collect()
}

/// Marks an SSTable as damaged, as another shard that serves it has found. Nothing happens if this shard does not.
pub(crate) fn mark(tables: &Tables, table: TableId, name: &Descriptor) {
    let tables = tables.borrow();
    let served = tables.get(&table).map_or(&[][..], |state| &state.view.sstables);
    for sstable in served.iter().filter(|sstable| sstable.reader.descriptor() == name) {
        sstable.suspect.set(true);
    }
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
    if state.index_of.is_some() {
        return Some(Obstacle::Index);
    }
    if matches!(RepairSet::of(sstable), RepairSet::Pending(_)) {
        return Some(Obstacle::SetApart);
    }
    let deletions = Deletions::of(&sstable.reader.metadata().statistics);
    let other = |other: &OpenSstable| other.number != sstable.number;
    hides_rows(state, &deletions, sstable.tokens(), other, now_in_seconds).then_some(Obstacle::Tombstones)
}

fn obstacle_of_unopened(state: &TableState, sstable: &UnopenedSstable, now_in_seconds: i64) -> Option<Obstacle> {
    let statistics = sstable.statistics.as_ref();
    if statistics.is_some_and(|statistics| statistics.pending_repair.is_some()) {
        return Some(Obstacle::SetApart);
    }
    let deletions = statistics.map_or_else(|| Deletions::unknown(state.table.id), Deletions::of);
    hides_rows(state, &deletions, sstable.tokens(), |_| true, now_in_seconds).then_some(Obstacle::Tombstones)
}

/// What is known of the deletions in an SSTable.
struct Deletions {
    /// Whether there may be any.
    some: bool,
    /// The earliest second at which one was made.
    made_from: i64,
    /// The largest timestamp.
    max_timestamp: i64,
}

impl Deletions {
    fn of(statistics: &Statistics) -> Deletions {
        Deletions {
            some: !statistics.tombstones.is_empty(),
            made_from: i64::from(statistics.min_local_deletion_time),
            max_timestamp: statistics.max_timestamp,
        }
    }

    /// What an SSTable of a table may have, of which nothing can be read: none is older than the table.
    fn unknown(table: TableId) -> Deletions {
        let created = table.uuid().get_timestamp().map(|timestamp| timestamp.to_unix().0 as i64);
        Deletions { some: true, made_from: created.unwrap_or(i64::MIN), max_timestamp: i64::MAX }
    }
}

/// Whether an SSTable with such deletions and tokens may have some that another replica may have forgotten, of what
/// this shard has in `others`. What is in memory is not looked at: the caller has flushed the table since the damage
/// was met.
fn hides_rows(
    state: &TableState,
    deletions: &Deletions,
    (first, last): (Token, Token),
    is_other: impl Fn(&OpenSstable) -> bool,
    now_in_seconds: i64,
) -> bool {
    let forgotten_before = match state.table.options.tombstone_gc.mode {
        GcMode::Disabled => return false,
        GcMode::Timeout => state.gc_before(now_in_seconds).latest().saturating_add(CLOCKS_DIFFER_SECONDS),
        // Another replica may know of a later repair.
        GcMode::Repair | GcMode::Immediate => i64::MAX,
    };
    if !deletions.some || deletions.made_from >= forgotten_before {
        return false;
    }
    let may_be_hidden = |min_timestamp: i64| min_timestamp <= deletions.max_timestamp;
    state.view.sstables.iter().any(|other| {
        let (other_first, other_last) = other.tokens();
        is_other(other)
            && first <= other_last
            && other_first <= last
            && may_be_hidden(other.reader.metadata().statistics.min_timestamp)
    })
}

/// Takes a damaged SSTable out of its table and keeps it in the table's snapshot `tag`; the name of its Data.db. `None`
/// if this shard does not serve it, or it is not damaged. Of one that several shards serve, shard 0 keeps and removes
/// the files; the others, which may read what they have opened of it until they need it no more, answer `None`.
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
        served.find(|sstable| sstable.reader.descriptor() == name && sstable.suspect.get()).cloned()
    };
    let Some(gone) = find() else {
        return set_aside_unopened(tables, files, table, name, tag).await;
    };
    let forget = |gone: &Rc<OpenSstable>| {
        if let Some(state) = tables.borrow_mut().get_mut(&table) {
            state.view = Rc::new(state.view.replaced(std::slice::from_ref(gone), &[]));
        }
        compactor.want(table);
    };
    if gone.foreign && files.shard != 0 {
        forget(&gone);
        return Ok(None);
    }
    if !keep(files, &description, &gone.directory, name, tag).await? {
        return Ok(None);
    }
    if !gone.foreign {
        let own = files.make_directory(&description, files.shard).await?;
        purged_intervals::add(&own, files.shard, files.shard_map, gone.log_intervals()).await?;
    }
    // The table may have been truncated or dropped meanwhile, or its schema changed.
    let Some(gone) = find() else { return Ok(None) };
    forget(&gone);
    obsolete_sstables::remove(&gone.directory.clone(), vec![gone]).await?;
    Ok(Some(name.file_name(Component::Data)))
}

/// Gives the files of an SSTable a second name in a snapshot, durably; false if its directory is none of the table's.
async fn keep(
    files: &SstableFiles,
    table: &Table,
    directory: &Path,
    name: &Descriptor,
    tag: &str,
) -> Result<bool, Error> {
    let (sources, targets) = (files.directories_of(table), snapshot::directories(&files.data, table, tag));
    let Some(at) = sources.iter().position(|source| source == directory) else { return Ok(false) };
    create_dir_all(&targets[at]).await.map_err(Error::Io)?;
    snapshot::link_named(directory, &targets[at], &[name].into_iter().collect()).await?;
    Ok(true)
}

/// [`set_aside`] of an SSTable that could not be opened.
async fn set_aside_unopened(
    tables: &Tables,
    files: &SstableFiles,
    table: TableId,
    name: &Descriptor,
    tag: &str,
) -> Result<Option<String>, Error> {
    let description = tables.description(table)?;
    let find = || tables.borrow().get(&table)?.view.unopened.iter().find(|sstable| sstable.name == *name).cloned();
    let Some(gone) = find() else { return Ok(None) };
    let forget = || {
        if let Some(state) = tables.borrow_mut().get_mut(&table) {
            state.view = Rc::new(state.view.without_unopened(&gone));
        }
    };
    if gone.foreign && files.shard != 0 {
        forget();
        return Ok(None);
    }
    if !keep(files, &description, &gone.directory, name, tag).await? {
        return Ok(None);
    }
    if let Some(coverage) = gone.coverage.as_ref().filter(|_| !gone.foreign) {
        let own = files.make_directory(&description, files.shard).await?;
        purged_intervals::add(&own, files.shard, files.shard_map, coverage.intervals.iter().copied()).await?;
    }
    // The table may have been truncated or dropped meanwhile.
    if find().is_none() {
        return Ok(None);
    }
    forget();
    obsolete_sstables::remove_unopened(&gone).await?;
    Ok(Some(name.file_name(Component::Data)))
}
