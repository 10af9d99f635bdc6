//! The guardrails `partition_size` and `partition_tombstones`, measured by flushes and compactions while they write.
//! Rows are handed on to the guardrails of collections.
//!
//! As in Cassandra, tombstones are deletions of partitions, rows, collections and cells, and both ends of range
//! deletions.

use crate::guards::collection_guard;
use crate::guards::logged_thresholds::{self, LoggedThresholds, Warning};
use model::fragment::Fragment;
use model::key::components;
use model::mutation::Clustering;
use model::row::{CellContent, Deletion, RowView};
use model::{Table, text};
use sstable::{Component, Descriptor};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a partition from which on it counts as large: 80% of the 20 GB that the managed services allow.
pub const LARGE_PARTITION_BYTES: u64 = 16_000_000_000;
/// A sub-partition counts as large from this part of the size on at which its key grows by itself.
const LARGE_SHARE: u64 = 8;

/// Who is told of large partitions: their table, key and bytes in Data.db before compression.
pub type LargePartitions = Rc<dyn Fn(&Table, &[u8], u64)>;

/// From how many bytes on a partition of a table counts as large; `None` if nobody wants to know.
pub(crate) fn large_from(table: &Table) -> Option<u64> {
    let of_limits = table.options.capacity.as_ref().map(|_| LARGE_PARTITION_BYTES);
    let growth = table.write_sharding().and_then(|sharding| sharding.growth);
    // Smaller ones say little about whether a key is large.
    let of_growth = growth.filter(|growth| growth.size_max > 0).map(|growth| growth.size_max / LARGE_SHARE);
    of_limits.into_iter().chain(of_growth).min()
}

/// Measures the partitions of one SSTable.
pub(crate) struct PartitionGuard {
    thresholds: LoggedThresholds,
    /// From how many bytes on a partition is large, and who is told.
    large: Option<(u64, LargePartitions)>,
    table: Arc<Table>,
    file: PathBuf,
    key: Vec<u8>,
    /// Where the partition begins in Data.db, before compression.
    start: u64,
    tombstones: u64,
    open: Deletion,
    /// Whether collections have to be checked.
    has_collections: bool,
}

impl PartitionGuard {
    /// A guard for an SSTable that is being written; `None` if there are no thresholds, and nobody is told of large
    /// partitions.
    pub(crate) fn new(
        thresholds: LoggedThresholds,
        large: Option<(u64, LargePartitions)>,
        table: &Arc<Table>,
        directory: &Path,
        descriptor: &Descriptor,
    ) -> Option<PartitionGuard> {
        let is_needed = thresholds != LoggedThresholds::default() || large.is_some();
        is_needed.then(|| PartitionGuard {
            thresholds,
            large,
            table: table.clone(),
            file: directory.join(descriptor.file_name(Component::Data)),
            key: Vec::new(),
            start: 0,
            tombstones: 0,
            open: Deletion::LIVE,
            has_collections: (thresholds.collection_size, thresholds.items_per_collection) != Default::default()
                && !table.is_system()
                && table.data_columns().iter().any(|column| column.cql_type.is_multicell()),
        })
    }

    /// Counts a fragment. `len` is the length of Data.db behind it, before compression.
    pub(crate) fn fragment(&mut self, fragment: &Fragment<'_>, len: u64) {
        match *fragment {
            Fragment::PartitionStart { key, deletion, .. } => {
                self.key.clear();
                self.key.extend_from_slice(key);
                (self.open, self.tombstones) = (Deletion::LIVE, is_some(deletion));
            }
            Fragment::StaticRow { row } => self.row(Clustering::default(), row),
            Fragment::Row { clustering, row, .. } => self.row(clustering, row),
            Fragment::RangeMarker { deletion, .. } => {
                if deletion != self.open {
                    self.tombstones += is_some(self.open) + is_some(deletion);
                    self.open = deletion;
                }
            }
            Fragment::PartitionEnd => {
                let bytes = len - self.start;
                self.told(bytes).for_each(logged_thresholds::log);
                if let Some((_, told)) = self.large.as_ref().filter(|(from, _)| bytes >= *from) {
                    told(&self.table, &self.key, bytes);
                }
                self.start = len;
            }
        }
    }

    fn row(&mut self, clustering: Clustering<'_>, row: RowView<'_>) {
        self.tombstones += tombstones(row);
        if self.has_collections {
            let now = runtime::wall_micros() / 1_000_000;
            let told = collection_guard::told(&self.thresholds, &self.table, (&self.key, clustering), row, now);
            told.into_iter().for_each(logged_thresholds::log);
        }
    }

    /// The warnings about the current partition, which has `bytes` bytes.
    fn told(&self, bytes: u64) -> impl Iterator<Item = Warning> {
        let size = self
            .thresholds
            .partition_size
            .told("partition_size", bytes, || format!("{} has size {bytes}", self.partition()));
        let size =
            size.map(|(is_error, text)| (is_error, text + " Too large partitions can cause performance problems."));
        let count = self.tombstones;
        let tombstones = self
            .thresholds
            .partition_tombstones
            .told("partition_tombstones", count, || format!("{} has {count} tombstones", self.partition()));
        let tombstones = tombstones.map(|(is_error, text)| {
            (is_error, text + " Partitions with too many tombstones can cause performance problems.")
        });
        size.into_iter().chain(tombstones)
    }

    fn partition(&self) -> String {
        let types = self.table.stored_key_types();
        let values = components(&self.key, self.table.stored_key_len());
        let shown: Vec<String> = types
            .zip(values)
            .map(|(cql_type, value)| {
                let literal = text::to_literal(cql_type, value);
                match literal.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
                    Some(quoted) => quoted.replace("''", "'"),
                    None => literal,
                }
            })
            .collect();
        format!("Partition {}:{} on sstable {}", self.table.full_name(), shown.join(":"), self.file.display())
    }
}

fn is_some(deletion: Deletion) -> u64 {
    u64::from(!deletion.is_live())
}

fn tombstones(row: RowView<'_>) -> u64 {
    let is_deletion = |content| matches!(content, CellContent::Deleted { .. } | CellContent::ColumnDeletion { .. });
    is_some(row.deletion()) + row.cells().filter(|cell| is_deletion(cell.content)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::logged_thresholds::LoggedThreshold;
    use crate::guards::test_table;
    use model::key::push_composite;
    use model::row::{Cell, RowBuilder};
    use model::{ColumnId, ColumnKind, CqlType, KeyGrowth, ShardedBy, Token, WriteSharding};
    use sstable::Version;

    fn table() -> Arc<Table> {
        Arc::new(test_table::table(&[
            ("k", ColumnKind::PartitionKey, CqlType::Int),
            ("k2", ColumnKind::PartitionKey, CqlType::Text),
            ("c", ColumnKind::Clustering, CqlType::Int),
            ("v", ColumnKind::Regular, CqlType::Text),
        ]))
    }

    fn row(deletion: Deletion, content: Option<CellContent<'_>>) -> Vec<u8> {
        let mut blob = Vec::new();
        let mut row = RowBuilder::new(&mut blob, None, deletion);
        if let Some(content) = content {
            row.cell(&Cell { column: ColumnId(3), timestamp: 1, content, path: None });
        }
        blob
    }

    #[test]
    fn tombstones_and_bytes_are_those_that_cassandra_counts() {
        let threshold = LoggedThreshold { warn: Some(2), fail: Some(5) };
        let thresholds = LoggedThresholds { partition_tombstones: threshold, ..LoggedThresholds::default() };
        let descriptor = Descriptor { version: Version::Oa, id: "1".parse().expect("an id") };
        let mut guard = PartitionGuard::new(thresholds, None, &table(), Path::new("/d"), &descriptor).expect("limited");
        let mut key = Vec::new();
        push_composite([&3i32.to_be_bytes()[..], b"b"].into_iter(), &mut key);
        let gone = Deletion { timestamp: 1, local_deletion_time: 1 };
        let (deleted, live) = (CellContent::Deleted { local_deletion_time: 1 }, CellContent::Live(b"x"));
        let rows =
            [row(gone, None), row(gone, None), row(Deletion::LIVE, Some(deleted)), row(Deletion::LIVE, Some(live))];
        guard.fragment(&Fragment::PartitionStart { token: Token(0), key: &key, deletion: gone }, 0);
        let clustering = Clustering(b"");
        for row in &rows {
            guard.fragment(&Fragment::Row { clustering, comparable: b"", row: RowView::trusted(row) }, 50);
        }
        for deletion in [gone, gone, Deletion::LIVE] {
            guard.fragment(&Fragment::RangeMarker { clustering, comparable: b"", deletion }, 90);
        }
        let told: Vec<Warning> = guard.told(100).collect();
        let text = "Guardrail partition_tombstones violated: Partition g.t:3:b on sstable /d/oa-1-big-Data.db has 6 \
                    tombstones, this exceeds the failure threshold of 5. Partitions with too many tombstones can cause \
                    performance problems.";
        assert_eq!(told, [(true, text.to_owned())]);
        guard.thresholds = LoggedThresholds { partition_size: threshold, ..LoggedThresholds::default() };
        let text = "Guardrail partition_size violated: Partition g.t:3:b on sstable /d/oa-1-big-Data.db has size 4, this \
                    exceeds the warning threshold of 2. Too large partitions can cause performance problems.";
        assert_eq!(guard.told(4).collect::<Vec<_>>(), [(false, text.to_owned())]);
        guard.fragment(&Fragment::PartitionEnd, 100);
        guard.fragment(&Fragment::PartitionStart { token: Token(1), key: &key, deletion: Deletion::LIVE }, 100);
        assert_eq!((guard.start, guard.tombstones), (100, 0));
        assert!(
            PartitionGuard::new(LoggedThresholds::default(), None, &table(), Path::new("/d"), &descriptor).is_none()
        );
    }

    #[test]
    fn large_partitions_are_told_of() {
        let told = Rc::new(std::cell::RefCell::new(Vec::new()));
        let kept = told.clone();
        let large: LargePartitions =
            Rc::new(move |table, key, bytes| kept.borrow_mut().push((table.name.clone(), key.to_vec(), bytes)));
        let descriptor = Descriptor { version: Version::Oa, id: "1".parse().expect("an id") };
        let none = LoggedThresholds::default();
        let large = Some((LARGE_PARTITION_BYTES, large));
        let mut guard = PartitionGuard::new(none, large, &table(), Path::new("/d"), &descriptor).expect("told");
        let mut end = 0;
        for (key, bytes) in [(b"a", LARGE_PARTITION_BYTES - 1), (b"b", LARGE_PARTITION_BYTES), (b"c", 5)] {
            guard.fragment(&Fragment::PartitionStart { token: Token(0), key, deletion: Deletion::LIVE }, end);
            end += bytes;
            guard.fragment(&Fragment::PartitionEnd, end);
        }
        assert_eq!(*told.borrow(), [("t".to_owned(), b"b".to_vec(), LARGE_PARTITION_BYTES)]);
    }

    #[test]
    fn what_is_large_is_what_somebody_wants_to_know() {
        let mut table = Table::clone(&table());
        assert_eq!(large_from(&table), None);
        let sharding = |size_max| WriteSharding {
            shards: 1,
            by: ShardedBy::Clustering(vec![0]),
            growth: Some(KeyGrowth { size_max, throughput_max: 5 }),
        };
        table.options.write_sharding = Some(Arc::new(sharding(0)));
        assert_eq!(large_from(&table), None, "size is no reason");
        table.options.write_sharding = Some(Arc::new(sharding(80_000)));
        assert_eq!(large_from(&table), Some(10_000));
        table.options.capacity = Some(Default::default());
        assert_eq!(large_from(&table), Some(10_000));
        table.options.write_sharding = None;
        assert_eq!(large_from(&table), Some(LARGE_PARTITION_BYTES));
    }
}
