//! The guardrails of partitions, `partition_size` and `partition_tombstones`: flushes and compactions measure what they
//! write and tell the log of partitions beyond. Nothing is refused. Names and texts are Cassandra's.
//!
//! Tombstones are deletions of partitions, rows, collections and cells, and both ends of ranges, as Cassandra counts them.

use model::fragment::Fragment;
use model::key::components;
use model::row::{CellContent, Deletion, RowView};
use model::{Table, text};
use sstable::{Component, Descriptor};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More than `warn` is told as a warning, more than `fail` as an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "told above")]
pub struct PartitionThreshold {
    pub warn: Option<u64>,
    pub fail: Option<u64>,
}

impl PartitionThreshold {
    /// The threshold that a figure is beyond: its kind and the threshold.
    fn exceeded(self, figure: u64) -> Option<(&'static str, u64)> {
        let beyond = |limit: &u64| figure > *limit;
        let failed = self.fail.filter(beyond).map(|limit| ("failure", limit));
        failed.or_else(|| self.warn.filter(beyond).map(|limit| ("warning", limit)))
    }
}

/// `partition_size_*_threshold`, bytes of Data.db before compression, and `partition_tombstones_*_threshold`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "told above")]
pub struct PartitionThresholds {
    pub size: PartitionThreshold,
    pub tombstones: PartitionThreshold,
}

/// Measures the partitions of one SSTable.
pub(crate) struct PartitionGuard {
    thresholds: PartitionThresholds,
    table: Arc<Table>,
    file: PathBuf,
    key: Vec<u8>,
    /// Where the partition begins in Data.db.
    start: u64,
    tombstones: u64,
    open: Deletion,
}

impl PartitionGuard {
    /// Of an SSTable that is being written; `None` if nothing is limited.
    pub(crate) fn new(
        thresholds: PartitionThresholds,
        table: &Arc<Table>,
        directory: &Path,
        descriptor: &Descriptor,
    ) -> Option<PartitionGuard> {
        (thresholds != PartitionThresholds::default()).then(|| PartitionGuard {
            thresholds,
            table: table.clone(),
            file: directory.join(descriptor.file_name(Component::Data)),
            key: Vec::new(),
            start: 0,
            tombstones: 0,
            open: Deletion::LIVE,
        })
    }

    /// Takes note of a fragment, after which Data.db has `len` bytes.
    pub(crate) fn fragment(&mut self, fragment: &Fragment<'_>, len: u64) {
        match *fragment {
            Fragment::PartitionStart { key, deletion, .. } => {
                self.key.clear();
                self.key.extend_from_slice(key);
                (self.open, self.tombstones) = (Deletion::LIVE, is_some(deletion));
            }
            Fragment::StaticRow { row } | Fragment::Row { row, .. } => self.tombstones += tombstones(row),
            Fragment::RangeMarker { deletion, .. } => {
                if deletion != self.open {
                    self.tombstones += is_some(self.open) + is_some(deletion);
                    self.open = deletion;
                }
            }
            Fragment::PartitionEnd => {
                for told in self.told(len - self.start) {
                    match told {
                        ("failure", text) => tracing::error!("{text}"),
                        (_, text) => tracing::warn!("{text}"),
                    }
                }
                self.start = len;
            }
        }
    }

    /// What there is to tell of the partition, of so many bytes.
    fn told(&self, bytes: u64) -> impl Iterator<Item = (&'static str, String)> {
        let exceeds = |kind, limit| format!("this exceeds the {kind} threshold of {limit}.");
        let size = self.thresholds.size.exceeded(bytes).map(|(kind, limit)| {
            let (partition, exceeds) = (self.partition(), exceeds(kind, limit));
            let text = format!(
                "Guardrail partition_size violated: {partition} has size {bytes}, {exceeds} Too large partitions can \
                 cause performance problems."
            );
            (kind, text)
        });
        let count = self.tombstones;
        let tombstones = self.thresholds.tombstones.exceeded(count).map(|(kind, limit)| {
            let (partition, exceeds) = (self.partition(), exceeds(kind, limit));
            let text = format!(
                "Guardrail partition_tombstones violated: {partition} has {count} tombstones, {exceeds} Partitions with \
                 too many tombstones can cause performance problems."
            );
            (kind, text)
        });
        size.into_iter().chain(tombstones)
    }

    fn partition(&self) -> String {
        let columns = self.table.partition_key().iter();
        let values = components(&self.key, self.table.partition_key_len);
        let shown: Vec<String> = columns
            .zip(values)
            .map(|(column, value)| {
                let literal = text::to_literal(&column.cql_type, value);
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
    use model::key::{Token, push_composite};
    use model::mutation::Clustering;
    use model::row::{Cell, RowBuilder};
    use model::schema::{Column, Layout, TableOptions};
    use model::{ColumnId, ColumnKind, CqlType, TableId};
    use sstable::Version;

    fn table() -> Arc<Table> {
        let columns = [
            ("k", ColumnKind::PartitionKey, 0, CqlType::Int),
            ("k2", ColumnKind::PartitionKey, 1, CqlType::Text),
            ("c", ColumnKind::Clustering, 0, CqlType::Int),
            ("v", ColumnKind::Regular, 0, CqlType::Text),
        ];
        let column = |(id, (name, kind, position, cql_type)): (usize, (&str, _, _, _))| Column {
            id: ColumnId(id as u16),
            name: name.into(),
            kind,
            position,
            cql_type,
            descending: false,
        };
        Arc::new(Table {
            id: TableId([1; 16]),
            keyspace: "g".into(),
            name: "t".into(),
            columns: columns.into_iter().enumerate().map(column).collect(),
            partition_key_len: 2,
            clustering_len: 1,
            static_len: 0,
            layout: Layout::Plain,
            dropped: Vec::new(),
            indexes: Vec::new(),
            options: TableOptions::default(),
        })
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
        let threshold = PartitionThreshold { warn: Some(2), fail: Some(5) };
        let thresholds = PartitionThresholds { size: PartitionThreshold::default(), tombstones: threshold };
        let descriptor = Descriptor { version: Version::Oa, id: "1".parse().expect("an id") };
        let mut guard = PartitionGuard::new(thresholds, &table(), Path::new("/d"), &descriptor).expect("limited");
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
        let told: Vec<(&str, String)> = guard.told(100).collect();
        let text = "Guardrail partition_tombstones violated: Partition g.t:3:b on sstable /d/oa-1-big-Data.db has 6 \
                    tombstones, this exceeds the failure threshold of 5. Partitions with too many tombstones can cause \
                    performance problems.";
        assert_eq!(told, [("failure", text.to_owned())]);
        guard.thresholds = PartitionThresholds { size: threshold, tombstones: PartitionThreshold::default() };
        let text = "Guardrail partition_size violated: Partition g.t:3:b on sstable /d/oa-1-big-Data.db has size 4, this \
                    exceeds the warning threshold of 2. Too large partitions can cause performance problems.";
        assert_eq!(guard.told(4).collect::<Vec<_>>(), [("warning", text.to_owned())]);
        guard.fragment(&Fragment::PartitionEnd, 100);
        guard.fragment(&Fragment::PartitionStart { token: Token(1), key: &key, deletion: Deletion::LIVE }, 100);
        assert_eq!((guard.start, guard.tombstones), (100, 0));
        assert!(PartitionGuard::new(PartitionThresholds::default(), &table(), Path::new("/d"), &descriptor).is_none());
    }

    #[test]
    fn a_threshold_is_the_most_that_is_fine() {
        let threshold = PartitionThreshold { warn: Some(2), fail: Some(5) };
        assert_eq!(
            [2, 3, 5, 6].map(|figure| threshold.exceeded(figure)),
            [None, Some(("warning", 2)), Some(("warning", 2)), Some(("failure", 5))]
        );
        assert_eq!(PartitionThreshold::default().exceeded(u64::MAX), None);
    }
}
