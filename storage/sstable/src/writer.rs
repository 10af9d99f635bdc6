//! Sorted partitions to all components of an SSTable, as they come.
//!
//! 1. A partition's head and its static row, empty if the file has static columns and the partition none; rows and markers;
//!    its end. Each is encoded, counted for Statistics.db, and told to the index.
//! 2. Data.db is cut into chunks, which are compressed. Between two calls [`Builder::drain`] takes what is finished of
//!    Data.db and of the indexes, so that a chunk, the filter and a few bytes per chunk are all that stays in memory.
//! 3. [`Builder::finish`] gives the rest of those and the other components, TOC.txt last.
//!
//! Rows that hold nothing, or nothing of the header's columns, and partitions without anything are left out, as readers of
//! the format expect. An SSTable without partitions is for who calls not to finish.
//!
//! Invariants: partitions ascend by token and key, rows and markers by clustering; the bytes are Cassandra's wherever its own
//! do not depend on the moment, compressed ones included; a component's bytes come in the order of the file.

mod big;
mod bti;
mod data;
mod index;
mod options;
mod out;
mod partition;

pub use big::SUMMARY_BYTES_MAX;
pub use options::{COLUMN_INDEX_BYTES, Options, ROW_INDEX_GRANULARITY};
pub(crate) use out::Out;

use crate::Error;
use crate::descriptor::{Component, Descriptor, write_toc};
use crate::filter::{Filter, KeyHash};
use crate::input::{Fault, Problem};
use crate::row_codec::{BoundKind, END_OF_PARTITION, Encoder, push_deletion};
use crate::sidecar::{PageChecksums, Sidecar};
use crate::statistics::{Collector, Metadata};
use data::{Data, WrittenData};
use index::Index;
use model::Token;
use model::comparable::{self, BoundSide};
use model::fragment::Fragment;
use model::key::KEY_BYTES_MAX;
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder, RowView};
use model::schema::Table;
use partition::{Item, Partition};
use std::sync::Arc;

/// What an SSTable consists of once everything is written.
#[derive(Debug)]
pub struct FinishedSstable {
    /// Components in the order in which they are to be written, TOC.txt last. Of those that [`Builder::drain`] gives it is
    /// the rest, to be appended; of the others everything.
    pub components: Vec<(Component, Vec<u8>)>,
    /// Bytes of each whole component.
    pub lens: Vec<(Component, u64)>,
    /// What Statistics.db says.
    pub metadata: Metadata,
    /// Uncompressed bytes of Data.db.
    pub data_len: u64,
    /// Partitions.
    pub partitions: u64,
}

/// A marker that waits for the next one at its place.
#[derive(Default, Debug)]
struct Held {
    is_some: bool,
    clustering: Vec<u8>,
    comparable: Vec<u8>,
    deletion: Option<Deletion>,
}

/// See the module.
#[derive(Debug)]
pub struct Builder {
    descriptor: Descriptor,
    table: Arc<Table>,
    options: Options,
    encoder: Encoder,
    collector: Collector,
    data: Data,
    index: Index,
    filter: Option<Filter>,
    partition: Option<Partition>,
    held: Held,
    /// The comparable form of what is being written, of a call that does not bring it.
    form: Vec<u8>,
    first_key: Option<Box<[u8]>>,
    last_key: Option<(Token, Vec<u8>)>,
    /// Room for the next key.
    key: Vec<u8>,
    partitions: u64,
    /// Why Data.db cannot be written.
    failed: Option<Problem>,
}

impl Builder {
    /// A builder of an SSTable of a table.
    pub fn new(descriptor: Descriptor, table: Arc<Table>, options: Options) -> Builder {
        let version = descriptor.version;
        Builder {
            encoder: Encoder::new(version, &options.header, &table),
            collector: Collector::new(version),
            data: Data::new(options.compression.as_ref()),
            index: Index::new(version, &options),
            filter: Filter::new(options.expected_partitions, options.filter_chance),
            descriptor,
            table,
            options,
            partition: None,
            held: Held::default(),
            form: Vec::new(),
            first_key: None,
            last_key: None,
            key: Vec::new(),
            partitions: 0,
            failed: None,
        }
    }

    /// Writes the next fragment of partitions that are read whole and forward.
    pub fn fragment(&mut self, fragment: &Fragment<'_>) {
        match *fragment {
            Fragment::PartitionStart { token, key, deletion } => self.start(token, key, deletion),
            Fragment::StaticRow { row } => self.static_row(row),
            Fragment::Row { clustering, comparable, row } => self.push_row(clustering, comparable, row),
            Fragment::RangeMarker { clustering, comparable, deletion } => {
                self.push_marker(clustering, comparable, deletion);
            }
            Fragment::PartitionEnd => self.end_partition(),
        }
    }

    /// Begins a partition. Panics if its key is longer than [`KEY_BYTES_MAX`], not above the one before, or if that one was
    /// not ended.
    pub fn start_partition(&mut self, key: &[u8], deletion: Deletion) {
        self.start(Token::of(key), key, deletion);
    }

    fn start(&mut self, token: Token, key: &[u8], deletion: Deletion) {
        assert!(self.partition.is_none(), "a partition ends before the next one");
        assert!(key.len() <= KEY_BYTES_MAX, "a partition key of {} bytes", key.len());
        let start = self.data.len();
        let last = self.last_key.as_ref().map(|(token, key)| (*token, &key[..]));
        assert!(last.is_none_or(|last| last < (token, key)), "partitions ascend");
        let mut own = std::mem::take(&mut self.key);
        own.clear();
        own.extend_from_slice(key);
        let open = Deletion::LIVE;
        let (begun, has_static) = (false, false);
        self.partition = Some(Partition { token, key: own, start, deletion, begun, has_static, previous: 0, open });
        if !deletion.is_live() {
            self.begin_partition();
        }
    }

    /// Writes the partition's head, if that was not done.
    fn begin_partition(&mut self) {
        let Some(partition) = self.partition.as_mut().filter(|partition| !partition.begun) else { return };
        partition.begun = true;
        let (key, deletion) = (&partition.key, partition.deletion);
        let out = self.data.tail();
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(key);
        push_deletion(self.descriptor.version, deletion, out);
        self.collector.partition_deletion(deletion);
    }

    /// Writes the static row, before all rows.
    pub fn static_row(&mut self, row: RowView<'_>) {
        if self.encoder.holds(true, row) {
            self.begin_partition();
            self.push_static(row);
        }
    }

    fn push_static(&mut self, row: RowView<'_>) {
        if let Some(partition) = self.partition.as_mut().filter(|partition| !partition.has_static) {
            partition.has_static = true;
            if self.encoder.has_statics() {
                self.encoder.push_row(None, row, 0, self.data.tail(), &mut self.collector);
            }
        }
    }

    /// Head and static row, if they were not written.
    fn begin_rows(&mut self) {
        self.begin_partition();
        if self.partition.as_ref().is_some_and(|partition| !partition.has_static) {
            let mut empty = Vec::new();
            RowBuilder::new(&mut empty, None, Deletion::LIVE);
            self.push_static(RowView::trusted(&empty));
        }
    }

    /// Writes a row.
    pub fn row(&mut self, clustering: Clustering<'_>, row: RowView<'_>) {
        let mut form = std::mem::take(&mut self.form);
        form.clear();
        comparable::clustering(&self.table, clustering.components(), &mut form);
        self.push_row(clustering, &form, row);
        self.form = form;
    }

    /// Writes a marker: from its bound on, `deletion` is in force, [`Deletion::LIVE`] for none. Of several at one bound the
    /// last one counts.
    pub fn marker(&mut self, prefix: Clustering<'_>, side: BoundSide, deletion: Deletion) {
        let mut form = std::mem::take(&mut self.form);
        form.clear();
        comparable::bound(&self.table, prefix.components(), side, &mut form);
        self.push_marker(prefix, &form, deletion);
        self.form = form;
    }

    fn push_row(&mut self, clustering: Clustering<'_>, comparable: &[u8], row: RowView<'_>) {
        self.release_marker();
        if !self.encoder.holds(false, row) {
            return;
        }
        self.begin_rows();
        let Some((start, before, open)) = self.begin_item() else { return };
        self.encoder.push_row(Some(clustering), row, before, self.data.tail(), &mut self.collector);
        self.end_item(clustering, None, comparable, start, open);
    }

    fn push_marker(&mut self, clustering: Clustering<'_>, comparable: &[u8], deletion: Deletion) {
        if self.held.comparable != comparable {
            self.release_marker();
        }
        self.held.is_some = true;
        self.held.deletion = Some(deletion);
        self.held.clustering.clear();
        self.held.clustering.extend_from_slice(clustering.0);
        self.held.comparable.clear();
        self.held.comparable.extend_from_slice(comparable);
    }

    /// Writes the marker that waits, if it changes anything.
    fn release_marker(&mut self) {
        if !self.held.is_some {
            return;
        }
        let held = std::mem::take(&mut self.held);
        if let Some(after) = held.deletion {
            self.write_marker(Clustering(&held.clustering), &held.comparable, after);
        }
        self.held = Held { is_some: false, ..held };
    }

    fn write_marker(&mut self, clustering: Clustering<'_>, comparable: &[u8], after: Deletion) {
        let open = self.partition.as_ref().map_or(Deletion::LIVE, |partition| partition.open);
        if open == after {
            return;
        }
        let side = comparable::side(comparable).unwrap_or(BoundSide::After);
        let Some(kind) = BoundKind::of(side, !open.is_live(), !after.is_live()) else { return };
        let deletions = [open, after];
        let deletions = match (kind.is_boundary(), kind.is_start()) {
            (true, _) => &deletions[..],
            (_, true) => &deletions[1..],
            _ => &deletions[..1],
        };
        self.begin_rows();
        let Some((start, before, _)) = self.begin_item() else { return };
        self.encoder.push_marker(kind, clustering, deletions, before, self.data.tail());
        deletions.iter().for_each(|deletion| self.collector.deletion(*deletion));
        if let Some(partition) = &mut self.partition {
            partition.open = after;
        }
        self.end_item(clustering, Some(kind), comparable, start, open);
    }

    /// Where a row or marker begins, the length of what is before it, and what is open.
    fn begin_item(&mut self) -> Option<(u64, u64, Deletion)> {
        let partition = self.partition.as_mut()?;
        let start = self.data.len() - partition.start;
        let before = start - partition.previous;
        partition.previous = start;
        Some((start, before, partition.open))
    }

    fn end_item(
        &mut self,
        clustering: Clustering<'_>,
        kind: Option<BoundKind>,
        comparable: &[u8],
        start: u64,
        open_before: Deletion,
    ) {
        let Some(partition) = &self.partition else { return };
        let end = self.data.len() - partition.start;
        self.collector.place(kind, clustering, comparable);
        let open_after = partition.open;
        self.index.item(&Item { clustering, kind, comparable, start, end, open_before, open_after });
        self.cut();
    }

    fn cut(&mut self) {
        if let Err(problem) = self.data.cut() {
            self.failed = self.failed.or(Some(problem));
        }
    }

    /// Ends the partition.
    pub fn end_partition(&mut self) {
        self.release_marker();
        self.held.comparable.clear();
        if self.partition.as_ref().is_some_and(|partition| partition.begun) {
            self.begin_rows();
        }
        let Some(partition) = self.partition.take() else { return };
        if !partition.begun {
            self.key = partition.key;
            return;
        }
        let end = self.data.len() - partition.start;
        self.data.tail().push(END_OF_PARTITION);
        let hash = KeyHash::of(&partition.key);
        self.index.partition(&partition, end, hash);
        if let Some(filter) = &mut self.filter {
            filter.add(hash);
        }
        self.collector.partition(&partition.key, end + 1);
        self.first_key.get_or_insert_with(|| partition.key[..].into());
        let last = self.last_key.replace((partition.token, partition.key));
        self.key = last.map_or(Vec::new(), |(_, key)| key);
        self.partitions += 1;
        self.cut();
    }

    /// Bytes of Data.db so far, as they are on disk.
    pub fn bytes_written(&self) -> u64 {
        self.data.file_len()
    }

    /// Uncompressed bytes of Data.db so far.
    pub fn data_len(&self) -> u64 {
        self.data.len()
    }

    /// Partitions so far that hold anything: with none there is nothing to finish.
    pub fn partitions(&self) -> u64 {
        self.partitions
    }

    /// Bytes in memory that [`Builder::drain`] would give.
    pub fn pending_bytes(&mut self) -> usize {
        self.data.pending_bytes() + self.index.outs().map(|(_, out)| out.pending_bytes()).sum::<usize>()
    }

    /// The components that [`Builder::drain`] would give bytes of.
    pub fn pending_components(&mut self) -> impl Iterator<Item = Component> + use<> {
        let data = (self.data.pending_bytes() > 0).then_some(Component::Data);
        let indexes = self.index.outs().filter(|(_, out)| out.pending_bytes() > 0).map(|(component, _)| component);
        Vec::from_iter(data.into_iter().chain(indexes)).into_iter()
    }

    /// Gives the bytes that are finished: each piece is to be appended to its component.
    pub fn drain(&mut self, mut give: impl FnMut(Component, &[u8])) {
        self.data.drain(|bytes| give(Component::Data, bytes));
        self.index.outs().for_each(|(component, out)| out.drain(|bytes| give(component, bytes)));
    }

    /// Ends the SSTable. Panics if the last partition was not ended.
    ///
    /// # Errors
    /// A chunk that could not be compressed.
    pub fn finish(self) -> Result<FinishedSstable, Error> {
        assert!(self.partition.is_none(), "the last partition ends before the file");
        let fault = |problem| Fault { offset: 0, problem }.in_file(&self.descriptor, Component::Data);
        if let Some(problem) = self.failed {
            return Err(fault(problem));
        }
        let version = self.descriptor.version;
        let data_len = self.data.len();
        let WrittenData { rest, pages, chunks, digest, ratio } = self.data.finish().map_err(fault)?;
        let first = self.first_key.map_or(Vec::new(), Vec::from);
        let last = self.last_key.map_or(Vec::new(), |(_, key)| key);
        let mut components = vec![(Component::Data, rest)];
        let mut sums = vec![pages];
        let (outs, summary) = self.index.finish(&first, &last);
        for (component, out) in outs {
            let (rest, pages) = out.finish(component);
            components.push((component, rest));
            sums.push(pages);
        }
        let metadata = self.collector.finish(version, &self.options, ratio, (first, last));
        let mut whole = Vec::from_iter(summary);
        whole.extend(self.filter.map(|filter| (Component::Filter, filter.write())));
        whole.push(chunks);
        whole.push((Component::Digest, digest));
        whole.push((Component::Statistics, metadata.write(version)));
        let mut names: Vec<Component> = components.iter().chain(&whole).map(|(component, _)| *component).collect();
        names.push(Component::Toc);
        names.extend(self.options.owner.map(|_| Component::Helenus));
        let toc = (Component::Toc, write_toc(&names));
        sums.extend(whole.iter().chain([&toc]).map(|(component, bytes)| PageChecksums::of(*component, bytes)));
        let mut lens: Vec<(Component, u64)> = sums.iter().map(|pages| (pages.component, pages.len)).collect();
        if let Some((shard, map)) = self.options.owner {
            let bytes = Sidecar { shard, map, components: sums }.write();
            lens.push((Component::Helenus, bytes.len() as u64));
            whole.push((Component::Helenus, bytes));
        }
        whole.push(toc);
        components.append(&mut whole);
        Ok(FinishedSstable { components, lens, metadata, data_len, partitions: self.partitions })
    }
}
