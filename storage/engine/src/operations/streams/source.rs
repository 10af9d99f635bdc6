//! The sending side: a view of a table's SSTables, and the files of each as far as they lie in some ranges.
//!
//! 1. [`crate::Store::open_stream`] flushes the table, so that whatever was acknowledged before is in SSTables, and
//!    holds those that overlap the ranges.
//! 2. [`StreamView::ready`] gives the files of one of them. An SSTable whose partitions all lie in one of the ranges is
//!    given as it is. Of any other the ranges are extracted: read in one pass and written as a new SSTable, in a
//!    directory that only this stream uses. Nothing is purged; timestamps and the time of repair stay.
//! 3. [`ReadySstable::read`] reads pieces of the files.
//!
//! Invariants: the files exist as long as the view has them, whatever compactions do; a shard gives only partitions
//! that it owns.

use crate::error::Error;
use crate::faults::Faults;
use crate::sstables::directory::components;
use crate::sstables::open_sstable::OpenSstable;
use crate::sstables::retained_columns::RetainedColumns;
use crate::sstables::sstable_files::SstableFiles;
use crate::sstables::sstable_scan::SstableScan;
use crate::sstables::sstable_writer::SstableWriter;
use crate::tables::Tables;
use crate::tables::size_estimates::part_within;
use model::fragment::{Fragment, FragmentStep};
use model::merge::Merge;
use model::query::Partitions;
use model::token::RingPosition;
use model::{Table, TableId, TokenRange};
use runtime::buffer::ALIGNMENT;
use runtime::file::{OpenOptions, create_dir_all};
use runtime::gate::Gate;
use runtime::{AlignedBuf, File};
use sstable::statistics::EncodingStats;
use sstable::{Component, Descriptor};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Rows written between two calls of `yield_if_needed`, each of which also looks whether the store closes.
const ROWS_PER_YIELD: usize = 128;

/// SSTables of a table that overlap some ranges, held until this is dropped.
pub struct StreamView {
    table: Arc<Table>,
    ranges: Vec<TokenRange>,
    files: Rc<SstableFiles>,
    faults: Rc<Faults>,
    gate: Gate,
    items: Vec<Item>,
}

struct Item {
    /// `None` once it was let go.
    sstable: RefCell<Option<Rc<OpenSstable>>>,
    origin: Descriptor,
    is_whole: bool,
    bytes: u64,
}

/// What one SSTable of a view gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamItem {
    /// The name of the SSTable.
    pub origin: Descriptor,
    /// Whether its files are given as they are.
    pub is_whole: bool,
    /// Bytes of the files; an estimate if they are still to be extracted.
    pub bytes: u64,
}

/// The SSTables of a table that a stream is about: those that overlap `ranges`, and how much of each is in them.
struct Overlapping {
    sstable: Rc<OpenSstable>,
    is_whole: bool,
    bytes: u64,
}

/// Puts ranges in order and joins those that meet or overlap.
pub fn joined(ranges: &[TokenRange]) -> Vec<TokenRange> {
    let order = |a: &RingPosition, b: &RingPosition| a.token.cmp(&b.token).then(a.is_after.cmp(&b.is_after));
    // At the start `None` comes before all positions, at the end after all.
    let start_order = |a: &Option<RingPosition>, b: &Option<RingPosition>| match (a, b) {
        (Some(a), Some(b)) => order(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    let mut sorted = ranges.to_vec();
    sorted.sort_by(|a, b| start_order(&a.start, &b.start));
    let mut joined: Vec<TokenRange> = Vec::new();
    for range in sorted {
        let Some(last) = joined.last_mut() else {
            joined.push(range);
            continue;
        };
        let meets = match (&last.end, &range.start) {
            (Some(end), Some(start)) => order(start, end) != Ordering::Greater,
            _ => true,
        };
        if !meets {
            joined.push(range);
            continue;
        }
        last.end = match (last.end.take(), range.end) {
            (Some(a), Some(b)) => Some(if order(&a, &b) == Ordering::Less { b } else { a }),
            _ => None,
        };
    }
    joined.retain(|range| match (&range.start, &range.end) {
        (Some(start), Some(end)) => order(start, end) == Ordering::Less,
        _ => true,
    });
    joined
}

/// Finds the SSTables of a table that overlap `ranges`, which are joined.
fn overlapping(tables: &Tables, table: TableId, ranges: &[TokenRange], whole: bool) -> Result<Vec<Overlapping>, Error> {
    let states = tables.borrow();
    let state = states.get(&table).ok_or(Error::UnknownTable(table))?;
    let mut found = Vec::new();
    for range in ranges {
        state.view.check_opened(&Partitions::Range(range.clone()))?;
    }
    for sstable in &state.view.sstables {
        let (first, last) = sstable.tokens();
        let part: f64 = ranges.iter().map(|range| part_within(range, first, last)).sum();
        if !ranges.iter().any(|range| range.may_overlap(first, last)) {
            continue;
        }
        let is_within = sstable.reader.key_bounds().is_some_and(|(first_key, last_key)| {
            ranges.iter().any(|range| range.contains(first, first_key) && range.contains(last, last_key))
        });
        let is_complete = sstable.sidecar().is_some_and(|sidecar| sidecar.components.len() + 1 == sstable.files);
        let is_whole = whole && is_within && is_complete && !sstable.foreign;
        // Every shard gives its own partitions of a foreign one.
        let shares = if sstable.foreign { f64::from(tables.shard_map.shards) } else { 1.0 };
        let bytes = match is_whole {
            true => sstable.disk_bytes,
            false => (sstable.disk_bytes as f64 * part.min(1.0) / shares) as u64,
        };
        found.push(Overlapping { sstable: sstable.clone(), is_whole, bytes });
    }
    Ok(found)
}

/// How many SSTables of a table overlap some ranges, and about how many bytes of them, memtables included.
pub(crate) fn measure(tables: &Tables, table: TableId, ranges: &[TokenRange]) -> Result<(u64, u64), Error> {
    let ranges = joined(ranges);
    let found = overlapping(tables, table, &ranges, true)?;
    let in_memory = tables.memtable(table)?.bytes() as u64;
    let bytes: u64 = found.iter().map(|found| found.bytes).sum();
    Ok((found.len() as u64, bytes.saturating_add(in_memory)))
}

impl StreamView {
    /// The SSTables of a table that overlap `ranges`; those that lie within them are given as they are if `whole`.
    pub(crate) fn new(
        tables: &Tables,
        files: &Rc<SstableFiles>,
        faults: &Rc<Faults>,
        gate: &Gate,
        table: TableId,
        ranges: &[TokenRange],
        whole: bool,
    ) -> Result<StreamView, Error> {
        let ranges = joined(ranges);
        let found = overlapping(tables, table, &ranges, whole)?;
        let items = found.into_iter().map(|Overlapping { sstable, is_whole, bytes }| Item {
            origin: sstable.reader.descriptor().clone(),
            sstable: RefCell::new(Some(sstable)),
            is_whole,
            bytes,
        });
        Ok(StreamView {
            table: tables.description(table)?,
            ranges,
            files: files.clone(),
            faults: faults.clone(),
            gate: gate.clone(),
            items: items.collect(),
        })
    }

    /// What the view gives, one of each SSTable.
    pub fn items(&self) -> Vec<StreamItem> {
        let item = |item: &Item| StreamItem { origin: item.origin.clone(), is_whole: item.is_whole, bytes: item.bytes };
        self.items.iter().map(item).collect()
    }

    /// Lets one SSTable go, whose files are not needed any more.
    pub fn release(&self, item: usize) {
        if let Some(item) = self.items.get(item) {
            item.sstable.borrow_mut().take();
        }
    }

    /// The files of an item, the first being 0. What is extracted goes to `directory`, which is made. `None` if no
    /// partition lies in the ranges, or the item was let go.
    ///
    /// # Errors
    /// The disk's, bytes that cannot be used, a closing store.
    pub async fn ready(&self, item: usize, directory: &Path) -> Result<Option<ReadySstable>, Error> {
        let Some(item) = self.items.get(item) else { return Ok(None) };
        let Some(sstable) = item.sstable.borrow().clone() else { return Ok(None) };
        if item.is_whole {
            let directory = sstable.directory.clone();
            return ReadySstable::open(directory, item.origin.clone(), Some(sstable)).await.map(Some);
        }
        create_dir_all(directory).await.map_err(Error::Io)?;
        let extracted = self.extract(sstable, directory).await;
        match self.faults.noted(extracted)? {
            Some(name) => ReadySstable::open(directory.to_owned(), name, None).await.map(Some),
            None => Ok(None),
        }
    }

    /// Writes what an SSTable has in the ranges as a new one in `directory`; `None` if it has nothing there.
    async fn extract(&self, sstable: Rc<OpenSstable>, directory: &Path) -> Result<Option<Descriptor>, Error> {
        let metadata = sstable.reader.metadata();
        let mut stats = EncodingStats::default();
        stats.add_header(&metadata.header);
        let mut kept = RetainedColumns::of(&self.table);
        kept.sstable(metadata);
        let mut options = self.files.compaction_options(&self.table, stats)?;
        kept.keep(&mut options.header);
        let (first, last) = sstable.tokens();
        let part: f64 = self.ranges.iter().map(|range| part_within(range, first, last)).sum();
        options.expected_partitions = ((sstable.partitions() as f64 * part.min(1.0)) as u64).max(1);
        options.repaired_at = metadata.statistics.repaired_at;
        let map = self.files.shard_map;
        let own_only = sstable.foreign.then_some(self.files.shard);
        let bad = |error| Error::BadSstable { directory: sstable.directory.clone(), error };
        let name = self.files.new_descriptor();
        let mut writer = SstableWriter::new(&self.files, directory, name.clone(), &self.table, options);
        let mut rows = 0;
        for range in self.ranges.iter().filter(|range| range.may_overlap(first, last)) {
            let scan = SstableScan::of_range(sstable.clone(), range.clone());
            let mut merge = Merge::new(map.partitioner, vec![scan], false);
            loop {
                match merge.advance().map_err(bad)? {
                    FragmentStep::End => break,
                    FragmentStep::Need(_) => {
                        for need in merge.needs().to_vec() {
                            if let Some(input) = merge.source_mut(need.source) {
                                input.bring(need).await?;
                            }
                        }
                        continue;
                    }
                    FragmentStep::Fragment => {}
                }
                let Some(fragment) = merge.fragment() else { continue };
                if let Fragment::PartitionStart { token, .. } = fragment
                    && own_only.is_some_and(|own| map.owner(token) != own)
                {
                    merge.skip_partition();
                    continue;
                }
                if writer.fragment(&fragment) {
                    writer.take().await?;
                }
                rows += 1;
                if rows % ROWS_PER_YIELD == 0 {
                    runtime::yield_if_needed().await;
                    if self.gate.is_closed() {
                        return Err(Error::Closing);
                    }
                }
            }
        }
        Ok(writer.close().await?.map(|_| name))
    }
}

/// The files of one SSTable, open for reading.
pub struct ReadySstable {
    directory: PathBuf,
    descriptor: Descriptor,
    /// Components with their files and lengths, `Helenus.db` first.
    files: Vec<(Component, File, u64)>,
    /// Keeps the files of an SSTable of the table.
    held: Option<Rc<OpenSstable>>,
}

impl ReadySstable {
    async fn open(
        directory: PathBuf,
        descriptor: Descriptor,
        held: Option<Rc<OpenSstable>>,
    ) -> Result<ReadySstable, Error> {
        let mut names: Vec<Component> = components(&directory, &descriptor).await?.into_iter().collect();
        names.sort_unstable_by_key(|component| (*component != Component::Helenus, *component));
        let mut files = Vec::new();
        for component in names {
            let path = directory.join(descriptor.file_name(component));
            let file = File::open(&path, OpenOptions::default()).await.map_err(Error::Io)?;
            let len = file.len().await.map_err(Error::Io)?;
            files.push((component, file, len));
        }
        Ok(ReadySstable { directory, descriptor, files, held })
    }

    /// The name that the files have here.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The path of its Data.db, for operators.
    pub fn data_path(&self) -> String {
        self.directory.join(self.descriptor.file_name(Component::Data)).display().to_string()
    }

    /// Its components with their lengths in bytes, `Helenus.db` first.
    pub fn components(&self) -> Vec<(Component, u64)> {
        self.files.iter().map(|(component, _, len)| (*component, *len)).collect()
    }

    /// Whether the files were extracted, and are not the sender's own.
    pub fn is_extracted(&self) -> bool {
        self.held.is_none()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(.., len)| len).sum()
    }

    /// Up to `len` bytes of a component from `offset` on, which is a multiple of [`ALIGNMENT`]; fewer at its end.
    /// `None` if there is no such component.
    ///
    /// # Errors
    /// The disk's.
    pub async fn read(&self, component: Component, offset: u64, len: usize) -> Result<Option<AlignedBuf>, Error> {
        let Some((_, file, end)) = self.files.iter().find(|(known, ..)| *known == component) else { return Ok(None) };
        let wanted = (len as u64).min(end.saturating_sub(offset)) as usize;
        let buffer = AlignedBuf::zeroed(wanted.max(1).next_multiple_of(ALIGNMENT));
        let (read, mut buffer) = file.read_at(buffer, offset).await;
        buffer.set_len(read.map_err(Error::Io)?.min(wanted));
        Ok(Some(buffer))
    }

    /// Removes the files if they were extracted.
    ///
    /// # Errors
    /// The disk's.
    pub async fn finish(self) -> Result<(), Error> {
        match self.held {
            Some(_) => Ok(()),
            None => super::directories::remove_all(&self.directory).await,
        }
    }
}
