//! Writes sorted partitions as the components of an SSTable.
//!
//! 1. A partition's head, static row, rows, markers and end are encoded one after another, counted for Statistics.db,
//!    and passed to the index. A partition without a static row gets an empty one if the file has static columns.
//! 2. Data.db is cut into chunks, which are compressed. [`Builder::drain`] takes the finished bytes of Data.db and of
//!    the indexes, so that only the current chunk, the filter and a few bytes per chunk stay in memory.
//! 3. [`Builder::finish`] returns the rest of those components, and all others, TOC.txt last.
//!
//! Rows that hold nothing in the header's columns, and partitions that hold nothing, are left out, as readers of the
//! format expect. If no partition is left, the caller must not finish the SSTable.
//!
//! Invariants: partitions ascend by token and key, rows and markers by clustering; the bytes are those that Cassandra
//! writes for the same rows and options, before compression; the bytes of a component come in the order of the file.

mod big;
mod bti;
mod data;
mod index;
mod options;
mod partition;

pub use big::SUMMARY_BYTES_MAX;
pub use options::{COLUMN_INDEX_BYTES, Options, ROW_INDEX_GRANULARITY};

use crate::descriptor::{Component, Descriptor};
use crate::error::{Error, Fault, Problem};
use crate::filter::{Filter, KeyHash};
use crate::row_codec::{BoundKind, END_OF_PARTITION, Encoder, push_deletion};
use crate::sidecar::{PageChecksums, Sidecar};
use crate::statistics::{Collector, LogPosition, Metadata, Statistics};
use crate::toc::write_toc;
use crate::version::Version;
use data::{DataWriter, WrittenData};
use index::IndexWriter;
use model::Token;
use model::comparable::{self, BoundSide};
use model::fragment::Fragment;
use model::key::KEY_BYTES_MAX;
use model::mutation::Clustering;
use model::row::{Deletion, RowBuilder, RowView};
use model::schema::Table;
use partition::{OpenPartition, WrittenItem};
use std::sync::Arc;

/// A finished SSTable.
#[derive(Debug)]
pub struct FinishedSstable {
    /// The components in the order in which they are to be written, TOC.txt last. Components that [`Builder::drain`]
    /// takes bytes of have the remaining bytes here, to be appended; the others have all.
    pub components: Vec<(Component, Vec<u8>)>,
    /// The length of each whole component, in bytes.
    pub lens: Vec<(Component, u64)>,
    /// The contents of Statistics.db.
    pub metadata: Metadata,
    /// Uncompressed bytes of Data.db.
    pub data_len: u64,
    /// How many partitions there are.
    pub partitions: u64,
}

/// The last marker, which is replaced if another one comes at the same position.
#[derive(Default, Debug)]
struct PendingMarker {
    /// Whether there is one; its buffers are kept without.
    is_some: bool,
    clustering: Vec<u8>,
    comparable: Vec<u8>,
    /// The range tombstone that it opens; live if it only closes one.
    deletion: Option<Deletion>,
}

/// Builds one SSTable from sorted partitions.
#[derive(Debug)]
pub struct Builder {
    descriptor: Descriptor,
    table: Arc<Table>,
    options: Options,
    encoder: Encoder,
    collector: Collector,
    data: DataWriter,
    index: IndexWriter,
    filter: Option<Filter>,
    partition: Option<OpenPartition>,
    pending_marker: PendingMarker,
    /// The comparable form of a row or marker that came without it.
    comparable: Vec<u8>,
    first_key: Option<Box<[u8]>>,
    last_key: Option<(Token, Vec<u8>)>,
    /// A buffer for the next key.
    key: Vec<u8>,
    partitions: u64,
    /// Why Data.db cannot be written.
    failed: Option<Problem>,
}

impl Builder {
    /// Returns a builder of an SSTable of a table.
    pub fn new(descriptor: Descriptor, table: Arc<Table>, options: Options) -> Builder {
        let version = descriptor.version;
        assert!(version.is_written(), "{version:?} is only read");
        Builder {
            encoder: Encoder::new(version, &options.header, &table),
            collector: Collector::new(version),
            data: DataWriter::new(options.compression.as_ref()),
            index: IndexWriter::new(version, &options),
            filter: Filter::new(options.expected_partitions, options.filter_chance),
            descriptor,
            table,
            options,
            partition: None,
            pending_marker: PendingMarker::default(),
            comparable: Vec::new(),
            first_key: None,
            last_key: None,
            key: Vec::new(),
            partitions: 0,
            failed: None,
        }
    }

    /// Writes the next fragment of a forward read of whole partitions.
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

    /// Begins a partition. Panics if its key is longer than [`KEY_BYTES_MAX`] or not above the previous one, or if the
    /// previous partition has not been ended.
    pub fn start_partition(&mut self, key: &[u8], deletion: Deletion) {
        self.start(self.options.partitioner.token(key), key, deletion);
    }

    fn start(&mut self, token: Token, key: &[u8], deletion: Deletion) {
        assert!(self.partition.is_none(), "a partition ends before the next one");
        assert!(key.len() <= KEY_BYTES_MAX, "a partition key of {} bytes", key.len());
        let start = self.data.len();
        let last = self.last_key.as_ref().map(|(token, key)| (*token, &key[..]));
        let ascends = |last| self.options.partitioner.compare(last, (token, key)).is_lt();
        assert!(last.is_none_or(ascends), "partitions ascend");
        let mut own = std::mem::take(&mut self.key);
        own.clear();
        own.extend_from_slice(key);
        let open = Deletion::LIVE;
        let (begun, has_static) = (false, false);
        self.partition = Some(OpenPartition { token, key: own, start, deletion, begun, has_static, previous: 0, open });
        if !deletion.is_live() {
            self.begin_partition();
        }
    }

    /// Writes the partition's head, unless that has been done.
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

    /// Writes the static row, which comes before all rows.
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

    /// Writes the partition's head and static row, unless that has been done.
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
        let mut form = std::mem::take(&mut self.comparable);
        form.clear();
        comparable::clustering(&self.table, clustering.components(), &mut form);
        self.push_row(clustering, &form, row);
        self.comparable = form;
    }

    /// Writes a marker: the range tombstone `deletion` is open from its bound on; [`Deletion::LIVE`] for none. If
    /// several markers come at one bound the last one counts.
    pub fn marker(&mut self, prefix: Clustering<'_>, side: BoundSide, deletion: Deletion) {
        let mut form = std::mem::take(&mut self.comparable);
        form.clear();
        comparable::bound(&self.table, prefix.components(), side, &mut form);
        self.push_marker(prefix, &form, deletion);
        self.comparable = form;
    }

    fn push_row(&mut self, clustering: Clustering<'_>, comparable: &[u8], row: RowView<'_>) {
        self.flush_marker();
        if !self.encoder.holds(false, row) {
            return;
        }
        self.begin_rows();
        let Some((start, before, open)) = self.begin_item() else { return };
        self.encoder.push_row(Some(clustering), row, before, self.data.tail(), &mut self.collector);
        self.end_item(clustering, None, comparable, start, open);
    }

    fn push_marker(&mut self, clustering: Clustering<'_>, comparable: &[u8], deletion: Deletion) {
        if self.pending_marker.comparable != comparable {
            self.flush_marker();
        }
        self.pending_marker.is_some = true;
        self.pending_marker.deletion = Some(deletion);
        self.pending_marker.clustering.clear();
        self.pending_marker.clustering.extend_from_slice(clustering.0);
        self.pending_marker.comparable.clear();
        self.pending_marker.comparable.extend_from_slice(comparable);
    }

    /// Writes the pending marker, if it changes what is open.
    fn flush_marker(&mut self) {
        if !self.pending_marker.is_some {
            return;
        }
        let marker = std::mem::take(&mut self.pending_marker);
        if let Some(after) = marker.deletion {
            self.write_marker(Clustering(&marker.clustering), &marker.comparable, after);
        }
        self.pending_marker = PendingMarker { is_some: false, ..marker };
    }

    fn write_marker(&mut self, clustering: Clustering<'_>, comparable: &[u8], after: Deletion) {
        let open = self.partition.as_ref().map_or(Deletion::LIVE, |partition| partition.open);
        if open == after {
            return;
        }
        let side = comparable::side(comparable).unwrap_or(BoundSide::After);
        let Some(kind) = BoundKind::of(side, !open.is_live(), !after.is_live()) else { return };
        let deletions: &[Deletion] = match (kind.is_boundary(), kind.is_start()) {
            (true, _) => &[open, after],
            (_, true) => &[after],
            _ => &[open],
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

    /// Begins a row or marker. Returns its offset in the partition, the length of what precedes it, and the range
    /// tombstone that is open.
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
        self.collector.clustering(kind, clustering, comparable);
        let open_after = partition.open;
        self.index.item(&WrittenItem { clustering, kind, comparable, start, end, open_before, open_after });
        self.cut();
    }

    fn cut(&mut self) {
        if let Err(problem) = self.data.cut() {
            self.failed = self.failed.or(Some(problem));
        }
    }

    /// Ends the partition. It leaves no trace if nothing of it was written.
    pub fn end_partition(&mut self) {
        self.flush_marker();
        self.pending_marker.comparable.clear();
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

    /// Returns the length of Data.db's finished chunks so far, in bytes.
    pub fn bytes_written(&self) -> u64 {
        self.data.file_len()
    }

    /// Returns the uncompressed length of Data.db so far, in bytes.
    pub fn data_len(&self) -> u64 {
        self.data.len()
    }

    /// Returns how many partitions have been written. If there are none the SSTable must not be finished.
    pub fn partitions(&self) -> u64 {
        self.partitions
    }

    /// Returns how many bytes [`Builder::drain`] would take.
    pub fn pending_bytes(&mut self) -> usize {
        self.data.pending_bytes() + self.index.outputs().map(|(_, out)| out.pending_bytes()).sum::<usize>()
    }

    /// Returns the components that [`Builder::drain`] would take bytes of.
    pub fn pending_components(&mut self) -> impl Iterator<Item = Component> + use<> {
        let data = (self.data.pending_bytes() > 0).then_some(Component::Data);
        let indexes = self.index.outputs().filter(|(_, out)| out.pending_bytes() > 0).map(|(component, _)| component);
        Vec::from_iter(data.into_iter().chain(indexes)).into_iter()
    }

    /// Passes all finished bytes to `give`, which has to append each piece to its component.
    pub fn drain(&mut self, mut give: impl FnMut(Component, &[u8])) {
        self.data.drain(|bytes| give(Component::Data, bytes));
        self.index.outputs().for_each(|(component, out)| out.drain(|bytes| give(component, bytes)));
    }

    /// Ends the SSTable. Panics if the last partition has not been ended.
    ///
    /// # Errors
    /// A chunk could not be compressed, or rows did not come in clustering order.
    pub fn finish(self) -> Result<FinishedSstable, Error> {
        assert!(self.partition.is_none(), "the last partition ends before the file");
        let fault = |problem| Fault { offset: 0, problem }.in_file(&self.descriptor, Component::Data);
        if let Some(problem) = self.failed {
            return Err(fault(problem));
        }
        if !self.index.is_ordered() {
            return Err(fault(Problem::Invalid("in clustering order")));
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
        let metadata = metadata(self.collector, version, &self.options, ratio, (first, last));
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

/// Returns the contents of Statistics.db: what was counted, and what the options say about the SSTable's origin.
fn metadata(
    collector: Collector,
    version: Version,
    options: &Options,
    compression_ratio: Option<f64>,
    key_bounds: (Vec<u8>, Vec<u8>),
) -> Metadata {
    let (counted, cardinality) = collector.finish(version, &options.header);
    let intervals = &options.log_intervals;
    let statistics = Statistics {
        log_lower: intervals.first().map_or(LogPosition::NONE, |first| first.0),
        log_upper: intervals.last().map_or(LogPosition::NONE, |last| last.1),
        log_intervals: intervals.clone(),
        compression_ratio: compression_ratio.unwrap_or(counted.compression_ratio),
        level: options.level,
        repaired_at: options.repaired_at,
        pending_repair: options.pending_repair,
        transient: options.transient,
        host_id: options.host_id,
        key_bounds,
        token_space_coverage: options.token_space_coverage,
        ..counted
    };
    let (partitioner, filter_chance) = (options.partitioner.class_name().to_owned(), options.filter_chance);
    Metadata { partitioner, filter_chance, cardinality, statistics, header: options.header.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{EncodingStats, FieldType, Header};
    use model::row::Liveness;

    fn table() -> Table {
        let field = |class: &str| FieldType::parse(&format!("org.apache.cassandra.db.marshal.{class}")).unwrap();
        let key_class = field("BytesType").class;
        let clustering = vec![field("BytesType")];
        let (statics, regulars) = (Vec::new(), Vec::new());
        let header = Header {
            min_timestamp: 0,
            min_local_deletion_time: 0,
            min_ttl: 0,
            key_class,
            clustering,
            statics,
            regulars,
        };
        header.table().unwrap()
    }

    #[test]
    fn rows_out_of_order_are_refused() {
        for version in [Version::Da, Version::Oa, Version::Nb] {
            let table = Arc::new(table());
            let mut options = Options::of(&table, EncodingStats::default()).unwrap();
            options.row_index_bytes = Some(1);
            let mut builder = Builder::new(Descriptor { version, id: "1".into() }, table, options);
            builder.start_partition(b"key", Deletion::LIVE);
            for value in [b"b", b"c", b"a"] {
                let (mut clustering, mut row) = (Vec::new(), Vec::new());
                model::mutation::push_clustering(&mut clustering, value);
                RowBuilder::new(&mut row, Some(Liveness { timestamp: 1, expiry: None }), Deletion::LIVE);
                builder.row(Clustering(&clustering), RowView::trusted(&row));
            }
            builder.end_partition();
            let problem = builder.finish().err().map(|error| error.problem);
            assert_eq!(problem, Some(Problem::Invalid("in clustering order")), "{version:?}");
        }
    }
}
