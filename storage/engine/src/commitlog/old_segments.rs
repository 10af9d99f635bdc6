//! The segments that earlier runs left: what they hold, and when their files may be deleted or recycled.
//!
//! 1. Before the log starts, [`ShardLog::settle`] makes their tails durable and finds those that can be recycled.
//! 2. Once the records of a table are no longer needed, shard 0 releases the table ([`ShardLog::release_old`]) and
//!    deletes the segments that no table needs.
//!
//! Invariants: a segment is deleted only when each of its tables is dropped, released, or truncated behind its last
//! record there. A segment without mutations belongs to the shard that wrote it, which recycles it.

use super::position::{LogPosition, Truncation};
use super::record::ColumnList;
use super::segment::{HEADER_BYTES, Header, shard_of};
use super::segment_reader::{self, LogFiles, Windows};
use super::segment_scan::{RecordSink, SegmentContents, scan};
use super::shard_log::ShardLog;
use crate::error::Error;
use model::TableId;
use runtime::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An offset behind every record of a segment; the largest that the statistics of an SSTable can hold.
const OFFSET_END: u32 = i32::MAX as u32;

/// The segments of earlier runs, of all shards.
#[derive(Default)]
pub(crate) struct OldSegments {
    segments: Vec<OldSegment>,
    /// Ids of files that never became segments.
    temporary: Vec<u64>,
    /// Tables whose records a replay has applied.
    replayed: HashSet<TableId>,
    truncations: HashMap<TableId, Truncation>,
    /// Tables whose records are no longer needed.
    released: HashSet<TableId>,
    /// Whether shards recycle their segments without mutations: set by [`ShardLog::settle`].
    reused: bool,
}

struct OldSegment {
    header: Header,
    /// What a scan found in it; `None` before it was scanned.
    contents: Option<Rc<SegmentContents>>,
}

impl OldSegments {
    pub(super) fn new(found: LogFiles) -> OldSegments {
        let segments = found.segments.into_iter().map(|header| OldSegment { header, contents: None }).collect();
        OldSegments { segments, temporary: found.temporary, ..OldSegments::default() }
    }

    /// Intervals of the log that include every record of these segments.
    pub(crate) fn intervals(&self) -> Vec<(LogPosition, LogPosition)> {
        let whole = |id| (LogPosition { segment: id, offset: 0 }, LogPosition { segment: id, offset: OFFSET_END });
        self.segments.iter().map(|segment| whole(segment.header.id)).collect()
    }

    /// Whether an old segment of the shard of `position` begins before `position`.
    pub(crate) fn is_anything_before(&self, position: LogPosition) -> bool {
        let before = |id: u64| shard_of(id) == shard_of(position.segment) && id <= position.segment;
        self.segments.iter().any(|segment| before(segment.header.id))
    }

    /// The segments' headers, by id.
    pub(crate) fn headers(&self) -> Vec<Header> {
        self.segments.iter().map(|segment| segment.header).collect()
    }

    pub(crate) fn set_contents(&mut self, id: u64, contents: &Rc<SegmentContents>) {
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.header.id == id) {
            segment.contents = Some(contents.clone());
        }
    }

    /// Adds truncations of tables; replay leaves out the records that they cover.
    pub(crate) fn add_truncations(&mut self, truncations: &[(TableId, Truncation)]) {
        self.truncations.extend(truncations.iter().cloned());
    }

    pub(crate) fn truncation(&self, table: TableId) -> Option<&Truncation> {
        self.truncations.get(&table)
    }

    /// Whether a replay has applied a table's records.
    pub(crate) fn is_replayed(&self, table: TableId) -> bool {
        self.replayed.contains(&table)
    }

    pub(crate) fn set_replayed(&mut self, tables: impl Iterator<Item = TableId>) {
        self.replayed.extend(tables);
    }

    /// Whether a table's records up to `position` are still needed, provided that the table exists.
    fn needs(&self, table: TableId, position: LogPosition) -> bool {
        let truncated = self.truncations.get(&table).is_some_and(|truncation| truncation.covers(position));
        !truncated && !self.released.contains(&table)
    }
}

/// Segments that the log recycles, and those whose ends it records, when it starts.
pub(crate) struct Settled {
    /// Ids of this shard's segments without mutations, to be recycled.
    pub(crate) recyclable: Vec<u64>,
    /// The ids of the other segments that this shard is responsible for, and where their records end.
    pub(crate) ends: Vec<(u64, u32)>,
}

impl ShardLog {
    /// Makes the tails of the segments that this shard is responsible for durable, and removes files that never
    /// became segments. Called before the log starts.
    pub(super) async fn settle(&self) -> Result<Settled, Error> {
        // Shard 0 is responsible for the segments of shards that no longer exist.
        let answers_for =
            |id: u64| shard_of(id) == self.shard || (self.shard == 0 && shard_of(id) >= self.shard_map.shards);
        let temporary = std::mem::take(&mut self.old.borrow_mut().temporary);
        for id in temporary.into_iter().filter(|id| answers_for(*id)) {
            segment_reader::delete_temporary(&self.directory, id).await.map_err(Error::Io)?;
        }
        let same_map = self.old.borrow().segments.iter().all(|old| old.header.shard_map == self.shard_map);
        self.old.borrow_mut().reused = same_map;
        let mut settled = Settled { recyclable: Vec::new(), ends: Vec::new() };
        let mut newest: BTreeMap<u16, u64> = BTreeMap::new();
        self.old.borrow_mut().segments.retain(|old| {
            let (id, Some(contents)) = (old.header.id, &old.contents) else { return true };
            if !answers_for(id) {
                return true;
            }
            if contents.end > HEADER_BYTES {
                newest.insert(shard_of(id), id);
            }
            let free = shard_of(id) == self.shard && self.is_reused(same_map, &old.header, contents);
            if free {
                settled.recyclable.push(id);
            } else {
                settled.ends.push((id, contents.end));
            }
            !free
        });
        for id in newest.into_values().filter(|id| !settled.recyclable.contains(id)) {
            segment_reader::make_durable(&self.directory, id).await.map_err(Error::Io)?;
        }
        Ok(settled)
    }

    /// Declares, on shard 0, that the records of `tables` in old segments are no longer needed. Deletes the segments
    /// that no table needs for which `exists` is true.
    pub(crate) async fn release_old(
        &self,
        tables: impl IntoIterator<Item = TableId>,
        exists: impl Fn(TableId) -> bool,
    ) -> Result<(), Error> {
        self.old.borrow_mut().released.extend(tables);
        let headers = self.old.borrow().headers();
        for header in headers {
            let known = {
                let old = self.old.borrow();
                let segment = old.segments.iter().find(|segment| segment.header.id == header.id);
                segment.map(|segment| segment.contents.clone())
            };
            let contents = match known {
                // A concurrent release has removed it.
                None => continue,
                Some(Some(contents)) => contents,
                Some(None) => match scan(&self.directory, header, &Windows::default(), &mut NoSink(self)).await {
                    Ok(contents) => {
                        let contents = Rc::new(contents);
                        self.old.borrow_mut().set_contents(header.id, &contents);
                        contents
                    }
                    // The shard that wrote it is recycling it, so it has another name.
                    Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => Rc::default(),
                    Err(error) => return Err(error),
                },
            };
            let is_needed = |table: TableId, offset: u32| {
                exists(table) && self.old.borrow().needs(table, LogPosition { segment: header.id, offset })
            };
            if contents.tables.iter().any(|(table, offset)| is_needed(*table, *offset)) {
                continue;
            }
            self.old.borrow_mut().segments.retain(|segment| segment.header.id != header.id);
            let reused = self.old.borrow().reused;
            if shard_of(header.id) < self.shard_map.shards && self.is_reused(reused, &header, &contents) {
                continue;
            }
            segment_reader::delete(&self.directory, header.id).await.map_err(Error::Io)?;
        }
        Ok(())
    }

    /// Whether the shard that wrote a segment recycles the file, so that no other shard may delete it.
    fn is_reused(&self, same_map: bool, header: &Header, contents: &SegmentContents) -> bool {
        same_map && contents.tables.is_empty() && header.segment_bytes == self.segment_bytes
    }
}

/// A sink for scans that only ask which tables a segment holds.
struct NoSink<'l>(&'l ShardLog);

impl RecordSink for NoSink<'_> {
    fn column_list(&mut self, _: &ColumnList) {}

    fn wants(&self, _: TableId) -> bool {
        false
    }

    fn mutation(&mut self, _: &[u8], _: LogPosition) -> Result<(), &'static str> {
        Ok(())
    }

    fn skipped(&mut self) {}

    fn ends(&mut self, _: impl Iterator<Item = (u64, u32)>) {}

    fn timestamp(&mut self, timestamp: i64) {
        self.0.clock.record(timestamp);
    }
}
