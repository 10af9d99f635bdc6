//! Replays the commit log: applies the records of the segments found at the start to memtables.
//!
//! 1. Under an unchanged shard map a shard reads only its own segments; otherwise it reads all of them and takes what
//!    it owns in this run. Tables with LocalStrategy belong to shard 0.
//! 2. Rows of segments that were written before the schema had column ids are rewritten with those ids, if theirs
//!    differ ([`crate::commitlog::column_mapping`]).
//! 3. The end of each segment must agree with what later segments recorded about it.
//!
//! When the log starts, it makes the replayed tail durable before anything is served from it
//! (`commitlog::old_segments`).

use crate::commitlog::column_mapping::ColumnMapping;
use crate::commitlog::position::{LogPosition, Truncation};
use crate::commitlog::record::ColumnList;
use crate::commitlog::segment::path_of;
use crate::commitlog::segment_reader::{Windows, may_concern};
use crate::commitlog::segment_scan::{RecordSink, scan};
use crate::commitlog::shard_log::ShardLog;
use crate::error::Error;
use crate::index::IndexState;
use crate::memtable::Memtable;
use crate::sstables::log_coverage::LogCoverage;
use crate::tables::Tables;
use crate::tables::table_state::TableState;
use model::mutation::{MutationView, TableUpdate};
use model::{Home, Table, TableId, Token};
use runtime::HashMap;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Counts of what a replay did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayStats {
    /// Segments read.
    pub segments: u64,
    /// Mutations applied.
    pub applied: u64,
    /// Mutations skipped, because they belong to other shards or unknown tables, were truncated, or are in SSTables
    /// already.
    pub skipped: u64,
    /// Segments that ended in an incomplete group.
    pub torn_tails: u64,
}

/// A table to which records are applied.
struct Destination {
    table: Arc<Table>,
    home: Home,
    memtable: Rc<Memtable>,
    /// The table's indexes, each with its memtable.
    indexes: Vec<(Rc<IndexState>, Rc<Memtable>)>,
    truncation: Option<Truncation>,
    /// The records that SSTables already hold.
    flushed: Vec<LogCoverage>,
}

impl Destination {
    fn apply(&self, token: Token, key: &[u8], update: &TableUpdate<'_>) {
        self.memtable.apply(token, key, update);
        self.indexes.iter().for_each(|(index, memtable)| index.note(memtable, token, key, update));
    }
}

/// Replays the records that this shard owns in tables known so far, except those that `truncations` cover. Further
/// calls replay only tables that became known since.
pub(crate) async fn replay(
    log: &ShardLog,
    tables: &Tables,
    truncations: &[(TableId, Truncation)],
) -> Result<ReplayStats, Error> {
    log.old.borrow_mut().add_truncations(truncations);
    let destinations = destinations(log, tables);
    let headers = log.old.borrow().headers();
    let mut stats = ReplayStats::default();
    let mut ends = BTreeMap::new();
    let mut recorded_ends = Vec::new();
    let windows = Windows::default();
    for header in headers.iter().filter(|header| may_concern(header, tables.shard, tables.shard_map)) {
        let mut applier = Applier {
            log,
            tables,
            destinations: &destinations,
            mappings: HashMap::default(),
            recorded_ends: &mut recorded_ends,
            stats: &mut stats,
        };
        let contents = Rc::new(scan(&log.directory, *header, &windows, &mut applier).await?);
        stats.segments += 1;
        stats.torn_tails += u64::from(contents.torn);
        ends.insert(header.id, contents.end);
        log.old.borrow_mut().set_contents(header.id, &contents);
    }
    for (id, recorded) in recorded_ends {
        if let Some(end) = ends.get(&id)
            && *end != recorded
        {
            let path = path_of(&log.directory, id);
            return Err(Error::Corrupt { path, offset: u64::from(*end), what: "segment lost groups it once had" });
        }
    }
    log.old.borrow_mut().set_replayed(destinations.keys().copied());
    for (id, destination) in &destinations {
        if let Some(state) = tables.borrow_mut().get_mut(id) {
            state.holds_replayed = !destination.memtable.read().partitions.is_empty();
            state.covered = Vec::new();
        }
    }
    Ok(stats)
}

/// The known tables whose records no replay has applied yet.
fn destinations(log: &ShardLog, tables: &Tables) -> HashMap<TableId, Destination> {
    let old = log.old.borrow();
    let tables = tables.borrow();
    let indexes = |state: &TableState| {
        let with_memtable = |index: &Rc<IndexState>| Some((index.clone(), tables.get(&index.id())?.memtable.clone()));
        state.indexes.iter().filter_map(with_memtable).collect()
    };
    let destination = |id: &TableId, state: &TableState| Destination {
        table: state.table.clone(),
        home: state.home,
        memtable: state.memtable.clone(),
        indexes: indexes(state),
        truncation: old.truncation(*id).cloned(),
        flushed: state.covered.clone(),
    };
    let fresh = tables.iter().filter(|(id, _)| !old.is_replayed(**id));
    fresh.map(|(id, state)| (*id, destination(id, state))).collect()
}

/// Applies the mutations of one segment.
struct Applier<'s> {
    log: &'s ShardLog,
    tables: &'s Tables,
    destinations: &'s HashMap<TableId, Destination>,
    /// For each table whose columns the segment lists, what the column ids in the segment's mutations mean.
    mappings: HashMap<TableId, ColumnMapping>,
    recorded_ends: &'s mut Vec<(u64, u32)>,
    stats: &'s mut ReplayStats,
}

impl RecordSink for Applier<'_> {
    fn column_list(&mut self, list: &ColumnList) {
        if let Some(destination) = self.destinations.get(&list.table) {
            self.mappings.insert(list.table, ColumnMapping::new(list, &destination.table));
        }
    }

    fn wants(&self, table: TableId) -> bool {
        self.destinations.contains_key(&table)
    }

    fn mutation(&mut self, body: &[u8], position: LogPosition) -> Result<(), &'static str> {
        let partitioner = self.tables.shard_map.partitioner;
        let mutation = MutationView::decode(partitioner, body).map_err(|_| "malformed mutation")?;
        let mut applied = false;
        for update in mutation.updates() {
            let Some(destination) = self.destinations.get(&update.table) else { continue };
            let truncated = destination.truncation.as_ref().is_some_and(|truncation| truncation.covers(position));
            let token = mutation.token();
            let owner = destination.home.owner(self.tables.shard_map, token);
            let flushed = || destination.flushed.iter().any(|held| held.covers(position, token, destination.home));
            if truncated || owner != self.tables.shard || flushed() {
                continue;
            }
            applied = true;
            let mapping = self.mappings.get(&update.table);
            match mapping.and_then(|mapping| mapping.update(partitioner, mutation.key(), &update)) {
                None => destination.apply(mutation.token(), mutation.key(), &update),
                Some(moved) => {
                    for update in moved.updates() {
                        destination.apply(moved.token(), moved.key(), &update);
                    }
                }
            }
        }
        self.stats.applied += u64::from(applied);
        self.stats.skipped += u64::from(!applied);
        Ok(())
    }

    fn skipped(&mut self) {
        self.stats.skipped += 1;
    }

    fn ends(&mut self, ends: impl Iterator<Item = (u64, u32)>) {
        self.recorded_ends.extend(ends);
    }

    fn timestamp(&mut self, timestamp: i64) {
        self.log.clock.record(timestamp);
    }
}
