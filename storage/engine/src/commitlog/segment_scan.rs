//! Reads the records of one segment in order, at a start, and hands them to a [`RecordSink`].
//!
//! Invariants: in a segment whose column ids are those of its run, a mutation is handed on only after the column lists
//! of all of its tables; a malformed record ends the scan with [`Error::Corrupt`].

use super::position::LogPosition;
use super::record::{self, ColumnList, Record, records};
use super::segment::{ColumnIds, Header};
use super::segment_reader::{SegmentReader, Windows};
use crate::error::Error;
use model::TableId;
use model::mutation::tables_of;
use runtime::HashSet;
use std::collections::BTreeMap;
use std::path::Path;

/// Records read between two calls of `yield_if_needed`.
const RECORDS_PER_YIELD: usize = 128;

/// What a segment holds.
#[derive(Default)]
pub(crate) struct SegmentContents {
    /// Offset at which the next group would begin.
    pub(crate) end: u32,
    /// Whether the segment ends in a group that was not written whole.
    pub(crate) torn: bool,
    /// Each table's last group: its offset.
    pub(crate) tables: BTreeMap<TableId, u32>,
}

/// Takes what a scan reads.
pub(crate) trait RecordSink {
    /// The columns of a table, for the mutations that follow in a segment of [`ColumnIds::OfRun`].
    fn column_list(&mut self, list: &ColumnList);

    /// Whether mutations of a table are of any interest; those of others are not decoded.
    fn wants(&self, table: TableId) -> bool;

    /// An encoded mutation of at least one wanted table.
    ///
    /// # Errors
    /// What is wrong with its bytes.
    fn mutation(&mut self, body: &[u8], position: LogPosition) -> Result<(), &'static str>;

    /// A mutation of unwanted tables alone.
    fn skipped(&mut self);

    /// Where other segments ended when this one was written: ids and offsets.
    fn ends(&mut self, ends: impl Iterator<Item = (u64, u32)>);

    /// A time, microseconds since 1970, that write timestamps had reached.
    fn timestamp(&mut self, timestamp: i64);
}

/// Reads a segment from its first group to its end.
pub(crate) async fn scan(
    directory: &Path,
    header: Header,
    windows: &Windows,
    sink: &mut impl RecordSink,
) -> Result<SegmentContents, Error> {
    let mut scan = Scan { header, listed: HashSet::default(), tables: BTreeMap::new(), last: None };
    let mut reader = SegmentReader::open(directory, header, windows).await?;
    let mut since_yield = 0;
    let mut whole = Vec::new();
    loop {
        let group = match reader.next_group().await? {
            Ok(group) => group,
            Err(end) => return Ok(SegmentContents { end: end.offset, torn: end.torn, tables: scan.tables }),
        };
        let corrupt = |what| reader.corrupt(group.offset, what);
        let mut tables: &[_] = &[];
        // Column lists and table ids may follow the mutations of their group.
        for record in records(reader.payload(group)) {
            match record.map_err(corrupt)? {
                Record::ColumnList(..) if header.column_ids == ColumnIds::OfSchema => {
                    return Err(corrupt("column list in a segment without such"));
                }
                Record::ColumnList(body, format) => {
                    let list = ColumnList::decode(body, format).ok_or_else(|| corrupt("malformed column list"))?;
                    scan.listed.insert(list.table);
                    sink.column_list(&list);
                }
                Record::Ends(body) => sink.ends(record::ends(body).map_err(corrupt)?),
                Record::Timestamp(timestamp) => sink.timestamp(timestamp),
                Record::Tables(ids) => tables = ids,
                Record::Mutation(_) | Record::CutMutation(..) | Record::Row(..) => {}
            }
        }
        for record in records(reader.payload(group)) {
            let mutation = record.and_then(|record| record.mutation(tables, &mut whole));
            let Some(body) = mutation.map_err(corrupt)? else { continue };
            scan.mutation(body, group.offset, sink).map_err(corrupt)?;
            since_yield += 1;
            if since_yield == RECORDS_PER_YIELD {
                since_yield = 0;
                runtime::yield_if_needed().await;
            }
        }
    }
}

/// A scan under way.
struct Scan {
    header: Header,
    /// The tables whose columns a segment of [`ColumnIds::OfRun`] has listed so far.
    listed: HashSet<TableId>,
    tables: BTreeMap<TableId, u32>,
    /// The entry of `tables` that was written last.
    last: Option<(TableId, u32)>,
}

impl Scan {
    fn mutation(&mut self, body: &[u8], offset: u32, sink: &mut impl RecordSink) -> Result<(), &'static str> {
        let mut wanted = false;
        for table in tables_of(body) {
            if self.header.column_ids == ColumnIds::OfRun && !self.listed.contains(&table) {
                return Err("mutation of a table whose columns are not listed");
            }
            if self.last != Some((table, offset)) {
                self.last = Some((table, offset));
                self.tables.insert(table, offset);
            }
            wanted |= sink.wants(table);
        }
        if !wanted {
            sink.skipped();
            return Ok(());
        }
        sink.mutation(body, LogPosition { segment: self.header.id, offset })
    }
}
