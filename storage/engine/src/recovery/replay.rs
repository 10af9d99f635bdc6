//! From segments found at start back to memtables, and when those segments may go.
//!
//! 1. Under an unchanged shard map a shard reads its own segments only; otherwise all of them, and takes what it owns
//!    now. A table that lives on one shard belongs to shard 0 whole.
//! 2. Per segment, column lists say what the column ids of its mutations mean; if they differ from the table's now, rows
//!    are rewritten ([`crate::commitlog::column_mapping`]).
//! 3. Where segments end must agree with what later segments recorded of them.
//! 4. [`settle`] makes the replayed tail durable before anything is served from it.
//!
//! Invariants: a segment is deleted only when each of its tables is dropped, or truncated behind its last record there.
//! A segment without mutations belongs to its shard, which writes over it.

use crate::Error;
use crate::commitlog::column_mapping::Renumbering;
use crate::commitlog::position::{LogPosition, Truncation};
use crate::commitlog::record::{self, ColumnList, Record, records};
use crate::commitlog::replay::{self, Found, SegmentReader, Windows};
use crate::commitlog::segment::{HEADER_BYTES, Header, shard_of};
use crate::index::IndexState;
use crate::memtable::Memtable;
use crate::recovery::load::Flushed;
use crate::store::{Inner, ReplayStats};
use model::mutation::{MutationView, TableUpdate, tables_of};
use model::{Table, TableId, Token};
use runtime::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Records between two questions whether to yield.
const RECORDS_PER_YIELD: usize = 128;

/// An offset beyond every segment's, that SSTables can name.
const OFFSET_END: u32 = i32::MAX as u32;

/// The segments of earlier runs.
#[derive(Default)]
pub(crate) struct OldSegments {
    segments: Vec<OldSegment>,
    temporary: Vec<u64>,
    /// Tables whose records an earlier call of [`replay`] applied.
    replayed: HashSet<TableId>,
    truncations: HashMap<TableId, Truncation>,
    /// Tables whose records in old segments are no longer needed.
    released: HashSet<TableId>,
    /// Whether shards write over their segments without mutations: set by [`settle`].
    reused: bool,
}

struct OldSegment {
    header: Header,
    scanned: Option<Rc<Scanned>>,
}

/// What is in a segment.
#[derive(Default)]
struct Scanned {
    end: u32,
    torn: bool,
    /// The last group with records of a table.
    tables: BTreeMap<TableId, u32>,
}

impl OldSegments {
    pub(crate) fn new(found: Found) -> OldSegments {
        let segments = found.segments.into_iter().map(|header| OldSegment { header, scanned: None }).collect();
        OldSegments { segments, temporary: found.temporary, ..OldSegments::default() }
    }

    /// All of their records, as parts of the log.
    pub(crate) fn intervals(&self) -> Vec<(LogPosition, LogPosition)> {
        let whole = |id| (LogPosition { segment: id, offset: 0 }, LogPosition { segment: id, offset: OFFSET_END });
        self.segments.iter().map(|segment| whole(segment.header.id)).collect()
    }

    /// Whether a segment of the shard of `position` begins before it.
    pub(crate) fn is_anything_before(&self, position: LogPosition) -> bool {
        let before = |id: u64| shard_of(id) == shard_of(position.segment) && id <= position.segment;
        self.segments.iter().any(|segment| before(segment.header.id))
    }

    fn headers(&self) -> Vec<Header> {
        self.segments.iter().map(|segment| segment.header).collect()
    }

    fn set_scanned(&mut self, id: u64, scanned: &Rc<Scanned>) {
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.header.id == id) {
            segment.scanned = Some(scanned.clone());
        }
    }
}

/// A table whose records are to be applied.
struct Destination {
    table: Arc<Table>,
    local: bool,
    memtable: Rc<Memtable>,
    /// Its indexes with their memtables.
    indexes: Vec<(Rc<IndexState>, Rc<Memtable>)>,
    truncation: Option<Truncation>,
    /// What SSTables hold already.
    flushed: Vec<Flushed>,
}

impl Destination {
    fn apply(&self, token: Token, key: &[u8], update: &TableUpdate<'_>) {
        self.memtable.apply(token, key, update);
        self.indexes.iter().for_each(|(index, memtable)| index.note(memtable, token, key, update));
    }
}

/// See [`crate::Store::replay`].
pub(crate) async fn replay(inner: &Inner, truncations: &[(TableId, Truncation)]) -> Result<ReplayStats, Error> {
    let mut stats = ReplayStats::default();
    inner.old.borrow_mut().truncations.extend(truncations.iter().cloned());
    let destinations: HashMap<TableId, Destination> = {
        let old = inner.old.borrow();
        let tables = inner.tables.borrow();
        let fresh = tables.iter().filter(|(id, _)| !old.replayed.contains(id));
        let indexes = |state: &crate::tables::table_state::TableState| {
            let with_memtable =
                |index: &Rc<IndexState>| Some((index.clone(), tables.get(&index.id())?.memtable.clone()));
            state.indexes.iter().filter_map(with_memtable).collect()
        };
        let destination = |id: &TableId, state: &crate::tables::table_state::TableState| Destination {
            table: state.table.clone(),
            local: state.local,
            memtable: state.memtable.clone(),
            indexes: indexes(state),
            truncation: old.truncations.get(id).cloned(),
            flushed: state.covered.clone(),
        };
        fresh.map(|(id, state)| (*id, destination(id, state))).collect()
    };
    let headers = inner.old.borrow().headers();
    let map = inner.options.shard_map;
    let mut ends = BTreeMap::new();
    let mut recorded_ends = Vec::new();
    let windows = Windows::default();
    for header in headers.iter().filter(|header| replay::may_concern(header, inner.shard, map)) {
        let mut scan = Scan {
            inner,
            destinations: &destinations,
            header: *header,
            lists: HashMap::default(),
            tables: BTreeMap::new(),
            last: None,
            windows: &windows,
            recorded_ends: &mut recorded_ends,
            stats: &mut stats,
        };
        let scanned = Rc::new(scan.run().await?);
        stats.segments += 1;
        stats.torn_tails += u64::from(scanned.torn);
        ends.insert(header.id, scanned.end);
        inner.old.borrow_mut().set_scanned(header.id, &scanned);
    }
    for (id, recorded) in recorded_ends {
        if let Some(end) = ends.get(&id)
            && *end != recorded
        {
            let path = crate::commitlog::segment::path_of(&inner.directory, id);
            return Err(Error::Corrupt { path, offset: u64::from(*end), what: "segment lost groups it once had" });
        }
    }
    inner.old.borrow_mut().replayed.extend(destinations.keys().copied());
    for (id, destination) in &destinations {
        if let Some(state) = inner.tables.borrow_mut().get_mut(id) {
            state.holds_replayed = !destination.memtable.read().partitions.is_empty();
            state.covered = Vec::new();
        }
    }
    Ok(stats)
}

/// One segment being read.
struct Scan<'s> {
    inner: &'s Inner,
    destinations: &'s HashMap<TableId, Destination>,
    header: Header,
    /// What the segment says of its tables.
    lists: HashMap<TableId, Renumbering>,
    tables: BTreeMap<TableId, u32>,
    /// What was put there last.
    last: Option<(TableId, u32)>,
    windows: &'s Windows,
    recorded_ends: &'s mut Vec<(u64, u32)>,
    stats: &'s mut ReplayStats,
}

impl Scan<'_> {
    async fn run(&mut self) -> Result<Scanned, Error> {
        let mut reader = SegmentReader::open(&self.inner.directory, self.header, self.windows).await?;
        let mut since_yield = 0;
        let mut whole = Vec::new();
        loop {
            let group = match reader.next_group().await? {
                Ok(group) => group,
                Err(end) => {
                    let tables = std::mem::take(&mut self.tables);
                    return Ok(Scanned { end: end.offset, torn: end.torn, tables });
                }
            };
            let corrupt = |what| reader.corrupt(group.offset, what);
            let mut tables: &[_] = &[];
            for record in records(reader.payload(group)) {
                match record.map_err(corrupt)? {
                    Record::ColumnList(body, format) => {
                        let list = ColumnList::decode(body, format).ok_or_else(|| corrupt("malformed column list"))?;
                        self.add_list(&list);
                    }
                    Record::Ends(body) => self.recorded_ends.extend(record::ends(body).map_err(corrupt)?),
                    Record::Timestamp(timestamp) => {
                        let recorded = &self.inner.clock.recorded;
                        recorded.set(recorded.get().max(timestamp));
                    }
                    Record::Tables(ids) => tables = ids,
                    Record::Mutation(_) | Record::CutMutation(..) | Record::Row(..) => {}
                }
            }
            for record in records(reader.payload(group)) {
                let mutation = record.and_then(|record| record.mutation(tables, &mut whole));
                let Some(body) = mutation.map_err(corrupt)? else { continue };
                let applied = self.apply(body, group.offset).map_err(corrupt)?;
                self.stats.applied += u64::from(applied);
                self.stats.skipped += u64::from(!applied);
                since_yield += 1;
                if since_yield == RECORDS_PER_YIELD {
                    since_yield = 0;
                    runtime::yield_if_needed().await;
                }
            }
        }
    }

    fn add_list(&mut self, list: &ColumnList) {
        let columns = match self.destinations.get(&list.table) {
            Some(destination) => Renumbering::new(list, &destination.table),
            None => Renumbering::Same,
        };
        self.lists.insert(list.table, columns);
    }

    /// Applies what of a mutation belongs here; whether that was anything.
    fn apply(&mut self, body: &[u8], offset: u32) -> Result<bool, &'static str> {
        let mut concerned = false;
        for table in tables_of(body) {
            if !self.lists.contains_key(&table) {
                return Err("mutation of a table whose columns are not listed");
            }
            if self.last != Some((table, offset)) {
                self.last = Some((table, offset));
                self.tables.insert(table, offset);
            }
            concerned |= self.destinations.contains_key(&table);
        }
        // What belongs to tables that are not known yet, or no longer, is not looked at.
        if !concerned {
            return Ok(false);
        }
        let mutation = MutationView::decode(body).map_err(|_| "malformed mutation")?;
        let position = LogPosition { segment: self.header.id, offset };
        let owner = self.inner.options.shard_map.owner(mutation.token());
        let mut applied = false;
        for update in mutation.updates() {
            let Some(destination) = self.destinations.get(&update.table) else { continue };
            let Some(columns) = self.lists.get(&update.table) else { continue };
            let truncated = destination.truncation.as_ref().is_some_and(|truncation| truncation.covers(position));
            let owner = if destination.local { 0 } else { owner };
            let token = mutation.token();
            let flushed = || destination.flushed.iter().any(|held| held.covers(position, token, destination.local));
            if truncated || owner != self.inner.shard || flushed() {
                continue;
            }
            applied = true;
            match columns.update(mutation.key(), &update) {
                None => destination.apply(mutation.token(), mutation.key(), &update),
                Some(moved) => {
                    for update in moved.updates() {
                        destination.apply(moved.token(), moved.key(), &update);
                    }
                }
            }
        }
        Ok(applied)
    }
}

/// Before the log starts: makes the tails that this shard answers for durable, removes files that never became
/// segments, and gives the segments that hold no mutation (for reuse) and where the others end.
pub(crate) async fn settle(inner: &Inner) -> Result<(Vec<u64>, Vec<(u64, u32)>), Error> {
    let shards = inner.options.shard_map.shards;
    // Shard 0 answers for shards that are gone.
    let answers_for = |id: u64| shard_of(id) == inner.shard || (inner.shard == 0 && shard_of(id) >= shards);
    let temporary = std::mem::take(&mut inner.old.borrow_mut().temporary);
    for id in temporary.into_iter().filter(|id| answers_for(*id)) {
        replay::delete_temporary(&inner.directory, id).await.map_err(Error::Io)?;
    }
    let same_map = inner.old.borrow().segments.iter().all(|old| old.header.shard_map == inner.options.shard_map);
    inner.old.borrow_mut().reused = same_map;
    let mut recyclable = Vec::new();
    let mut ends = Vec::new();
    let mut newest: BTreeMap<u16, u64> = BTreeMap::new();
    inner.old.borrow_mut().segments.retain(|old| {
        let (id, Some(scanned)) = (old.header.id, &old.scanned) else { return true };
        if !answers_for(id) {
            return true;
        }
        if scanned.end > HEADER_BYTES {
            newest.insert(shard_of(id), id);
        }
        let free = shard_of(id) == inner.shard && is_reused(inner, same_map, &old.header, scanned);
        if free {
            recyclable.push(id);
        } else {
            ends.push((id, scanned.end));
        }
        !free
    });
    for id in newest.into_values().filter(|id| !recyclable.contains(id)) {
        replay::make_durable(&inner.directory, id).await.map_err(Error::Io)?;
    }
    Ok((recyclable, ends))
}

/// On shard 0: a table's records in old segments are no longer needed; removes the segments that nothing needs.
pub(crate) async fn release(inner: &Inner, table: TableId) -> Result<(), Error> {
    inner.old.borrow_mut().released.insert(table);
    let headers = inner.old.borrow().headers();
    for header in headers {
        let known = {
            let old = inner.old.borrow();
            old.segments.iter().find(|segment| segment.header.id == header.id).map(|segment| segment.scanned.clone())
        };
        let scanned = match known {
            // Another release was faster.
            None => continue,
            Some(Some(scanned)) => scanned,
            Some(None) => match scan_tables(inner, header).await {
                Ok(scanned) => {
                    let scanned = Rc::new(scanned);
                    inner.old.borrow_mut().set_scanned(header.id, &scanned);
                    scanned
                }
                // Its shard writes over it under another name.
                Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Rc::default(),
                Err(error) => return Err(error),
            },
        };
        if scanned.tables.iter().any(|(table, offset)| is_needed(inner, *table, header.id, *offset)) {
            continue;
        }
        inner.old.borrow_mut().segments.retain(|segment| segment.header.id != header.id);
        let reused = inner.old.borrow().reused;
        if shard_of(header.id) < inner.options.shard_map.shards && is_reused(inner, reused, &header, &scanned) {
            continue;
        }
        replay::delete(&inner.directory, header.id).await.map_err(Error::Io)?;
    }
    Ok(())
}

/// On shard 0: releases every table, once all shards have flushed what they replayed.
pub(crate) async fn release_all(inner: &Inner) -> Result<(), Error> {
    let tables: Vec<TableId> = inner.tables.borrow().keys().copied().collect();
    let Some((last, others)) = tables.split_last() else { return Ok(()) };
    inner.old.borrow_mut().released.extend(others.iter().copied());
    release(inner, *last).await
}

/// Whether the shard of a segment keeps the file to write over it: no other shard may delete it then.
fn is_reused(inner: &Inner, same_map: bool, header: &Header, scanned: &Scanned) -> bool {
    same_map && scanned.tables.is_empty() && header.segment_bytes == inner.options.segment_bytes
}

fn is_needed(inner: &Inner, table: TableId, segment: u64, offset: u32) -> bool {
    let old = inner.old.borrow();
    let position = LogPosition { segment, offset };
    let truncated = old.truncations.get(&table).is_some_and(|truncation| truncation.covers(position));
    inner.tables.borrow().contains_key(&table) && !truncated && !old.released.contains(&table)
}

/// The tables of a segment that this shard did not replay.
async fn scan_tables(inner: &Inner, header: Header) -> Result<Scanned, Error> {
    let destinations = HashMap::default();
    let mut scan = Scan {
        inner,
        destinations: &destinations,
        header,
        lists: HashMap::default(),
        tables: BTreeMap::new(),
        last: None,
        windows: &Windows::default(),
        recorded_ends: &mut Vec::new(),
        stats: &mut ReplayStats::default(),
    };
    scan.run().await
}
