//! Random tables, writes and commands.

use model::arbitrary::{self, pick};
use model::comparable::{self, BoundSide};
use model::merge::{EqualKeys, filter_row};
use model::mutation::{Clustering, ClusteringBound, cut_out_table, put_back_table};
use model::query::{Partitions, ReadCommand, Slice};
use model::row::{Deletion, RowBuilder, RowView};
use model::schema::DroppedColumn;
use model::{
    ColumnId, ColumnKind, DecoratedKey, Mutation, MutationBuilder, Partitioner, RingToken, Table, TableId, Token,
    TokenRange,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The last second of anything written; reads are up to this many later.
const SECONDS: u64 = 8;

/// A table, and the keys and clusterings that are written and read.
pub(crate) struct World {
    pub(crate) table: Table,
    keys: Vec<Vec<u8>>,
    clusterings: Vec<Vec<u8>>,
    /// Most changes of one write.
    changes_max: u64,
    /// Whether later deletions have larger timestamps, as clocks make them.
    pub(crate) orderly: bool,
}

impl World {
    pub(crate) fn new(below: &mut impl FnMut(u64) -> u64) -> World {
        let mut table = arbitrary::table("ks", "t", below);
        table.options.compaction.insert("enabled".into(), "false".into());
        table.options.gc_grace_seconds = below(SECONDS) as i32;
        let first = table.primary_key_len();
        if table.clustering_len > 0 {
            let statics = below(1 + (table.columns.len() - first) as u64) as usize;
            table.static_len = statics;
            table.columns[first..first + statics].iter_mut().for_each(|column| column.kind = ColumnKind::Static);
        }
        if table.columns.len() > first && below(3) == 0 {
            let at = first + below((table.columns.len() - first) as u64) as usize;
            let column = table.columns[at].clone();
            let (id, name, kind, cql_type) = (column.id, column.name, column.kind, column.cql_type);
            table.dropped.push(DroppedColumn { id, name, kind, cql_type, dropped_at: below(SECONDS) as i64 });
        }
        let keys = (0..1 + below(4)).map(|_| arbitrary::key(&table, below)).collect();
        // Of clusterings that are equal with different bytes, rows keep the one that was written first.
        let mut clusterings = BTreeMap::new();
        for _ in 0..1 + below(8) {
            let found = arbitrary::clustering(&table, table.clustering_len, below);
            let mut place = Vec::new();
            comparable::clustering(&table, Clustering(&found).components(), &mut place);
            clusterings.entry(place).or_insert(found);
        }
        World { table, keys, clusterings: clusterings.into_values().collect(), changes_max: 3, orderly: false }
    }

    /// A world of few partitions with hundreds of rows and range deletions.
    pub(crate) fn of_long_partitions(below: &mut impl FnMut(u64) -> u64) -> World {
        let mut table = (*super::table_of("ks", 1, &["a", "b"])).clone();
        table.options.compaction.insert("enabled".into(), "false".into());
        table.options.gc_grace_seconds = below(SECONDS) as i32;
        let clusterings = (0..300).map(|row| super::clustering(&[row / 3, row % 3])).collect();
        World { table, keys: vec![b"p".to_vec(), b"q".to_vec()], clusterings, changes_max: 60, orderly: false }
    }

    /// The table with another id, which a store keeps apart.
    pub(crate) fn table_of(&self, number: u8) -> Arc<Table> {
        let (id, name) = (TableId([number; 16]), format!("t{number}"));
        Arc::new(Table { id, name, ..self.table.clone() })
    }

    /// Whether keys of its collections can be equal with different bytes.
    pub(crate) fn has_equal_keys(&self) -> bool {
        !EqualKeys::of(&self.table).is_empty()
    }

    /// A write of one partition.
    pub(crate) fn write(&self, below: &mut impl FnMut(u64) -> u64) -> Mutation {
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, self.key(below));
        builder.table(self.table.id);
        for _ in 0..1 + below(self.changes_max) {
            match below(12) {
                0 if below(self.changes_max) < 3 => {
                    builder.delete_partition(self.dated(arbitrary::deletion(below)));
                }
                1 | 2 => {
                    let [(start, from), (end, until)] = [self.prefix(below), self.prefix(below)];
                    builder.delete_range(
                        ClusteringBound { prefix: Clustering(&start), inclusive: from },
                        ClusteringBound { prefix: Clustering(&end), inclusive: until },
                        self.dated(arbitrary::deletion(below)),
                    );
                }
                3 if self.table.static_len > 0 => {
                    let mut row = Vec::new();
                    arbitrary::row(&self.statics_as_regular(), below, &mut row);
                    let mut cells = Vec::new();
                    let mut only_cells = RowBuilder::new(&mut cells, None, Deletion::LIVE);
                    RowView::trusted(&row).cells().for_each(|cell| only_cells.cell(&cell));
                    builder.static_row(|out| {
                        if !filter_row(RowView::trusted(&cells), Deletion::LIVE, out) {
                            RowBuilder::new(out, None, Deletion::LIVE);
                        }
                    });
                }
                _ => {
                    let clustering = self.clustering(below);
                    let mut row = Vec::new();
                    arbitrary::row(&self.table, below, &mut row);
                    let (row, mut dated) = (RowView::trusted(&row), Vec::new());
                    let mut copy = RowBuilder::new(&mut dated, row.liveness(), self.dated(row.deletion()));
                    row.cells().for_each(|cell| copy.cell(&cell));
                    // Statements make no row with cells that it deletes itself.
                    builder.row(Clustering(clustering), |out| {
                        if !filter_row(RowView::trusted(&dated), Deletion::LIVE, out) {
                            RowBuilder::new(out, None, Deletion::LIVE);
                        }
                    });
                }
            }
        }
        builder.finish()
    }

    fn dated(&self, deletion: Deletion) -> Deletion {
        match self.orderly && !deletion.is_live() {
            true => Deletion { local_deletion_time: deletion.timestamp, ..deletion },
            false => deletion,
        }
    }

    fn key(&self, below: &mut impl FnMut(u64) -> u64) -> &[u8] {
        pick::<Vec<u8>>(&self.keys, below)
    }

    fn clustering(&self, below: &mut impl FnMut(u64) -> u64) -> &[u8] {
        pick::<Vec<u8>>(&self.clusterings, below)
    }

    fn statics_as_regular(&self) -> Table {
        let mut table = Table { static_len: 0, ..self.table.clone() };
        table.columns.truncate(self.table.primary_key_len() + self.table.static_len);
        table
    }

    /// A prefix of a clustering, and whether a bound includes it.
    fn prefix(&self, below: &mut impl FnMut(u64) -> u64) -> (Vec<u8>, bool) {
        let len = below(1 + self.table.clustering_len as u64) as usize;
        let values: Vec<&[u8]> = Clustering(self.clustering(below)).components().take(len).collect();
        let mut prefix = Vec::new();
        values.iter().for_each(|value| model::mutation::push_clustering(&mut prefix, value));
        (prefix, below(2) == 0)
    }

    fn bound(&self, below: &mut impl FnMut(u64) -> u64) -> Box<[u8]> {
        let (prefix, is_before) = self.prefix(below);
        let mut out = Vec::new();
        let side = if is_before { BoundSide::Before } else { BoundSide::After };
        comparable::bound(&self.table, Clustering(&prefix).components(), side, &mut out);
        out.into()
    }

    /// A command without limits that reads the table.
    pub(crate) fn command(&self, below: &mut impl FnMut(u64) -> u64) -> ReadCommand {
        let [one, other] = [self.key(below), self.key(below)].map(|key| DecoratedKey::new(Partitioner::Murmur3, key));
        let partitions = match below(5) {
            0 => Partitions::Range(TokenRange::FULL),
            1 => {
                let until = if below(4) == 0 { Token::MIN } else { one.token.max(other.token) };
                Partitions::Range(TokenRange::between(
                    RingToken::Murmur3(one.token.min(other.token).0),
                    RingToken::Murmur3(until.0),
                ))
            }
            _ => Partitions::Key(one),
        };
        let mut command = ReadCommand::all(self.table.id, 1 + below(2 * SECONDS) as i64, partitions);
        match below(4) {
            0 => {
                command.slices = [self.row_slice(below)].into();
                if matches!(command.partitions, Partitions::Key(_)) && below(3) > 0 {
                    let is_asked = self.table.regular().iter().filter(|column| !column.cql_type.is_multicell());
                    let ids: Vec<ColumnId> = is_asked.filter(|_| below(2) == 0).map(|column| column.id).collect();
                    command.row_columns = Some(ids.into());
                }
            }
            1 | 2 => {
                let mut places: Vec<_> = (0..2 * below(4)).map(|_| self.bound(below)).collect();
                places.sort();
                let slices = places.chunks_exact(2).filter(|pair| pair[0] < pair[1]);
                let slices: Vec<_> =
                    slices.map(|pair| Slice { start: pair[0].clone(), end: pair[1].clone() }).collect();
                if !slices.is_empty() {
                    command.slices = slices.into();
                }
            }
            _ => {}
        }
        command.reversed = below(5) < 2;
        command.wants_static = self.table.static_len > 0 && command.row_columns.is_none() && below(3) > 0;
        command.static_only = command.wants_static && below(2) == 0;
        command
    }

    fn row_slice(&self, below: &mut impl FnMut(u64) -> u64) -> Slice {
        if self.table.clustering_len == 0 {
            return Slice::all();
        }
        let clustering = Clustering(self.clustering(below));
        let [start, end] = [BoundSide::Before, BoundSide::After].map(|side| {
            let mut out = Vec::new();
            comparable::row_bound(&self.table, clustering.components(), side, &mut out);
            out.into()
        });
        Slice { start, end }
    }
}

/// A write of another table.
pub(crate) fn retargeted(mutation: &Mutation, table: TableId) -> Mutation {
    let (head, _, body) = cut_out_table(mutation.bytes()).expect("a mutation of one table");
    let mut bytes = Vec::new();
    put_back_table(&[head, body].concat(), table, &mut bytes).expect("a key");
    Mutation::decode(Partitioner::Murmur3, bytes).expect("a mutation")
}
