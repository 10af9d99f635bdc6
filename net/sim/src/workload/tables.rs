//! The workload's tables, their cells, and the CQL that creates them.
//!
//! * `plain (pk, a, b)`: one row per partition.
//! * `wide (pk, ck, a, b, st static, m map, s set, l list, u user type)`: shared by all clients.
//! * `own<n>`: used by client `n` alone, which also truncates and drops it, and drops and adds its column `c`;
//!   clustering is descending.

use crate::judges::history::{CellKey, History, MARKER, STATIC, WHOLE};

/// Partition keys in use: `0..PARTITIONS`.
pub const PARTITIONS: i64 = 6;
/// Clusterings in use: `0..ROWS`.
pub const ROWS: i64 = 5;
/// Keys of maps and elements of sets in use: `0..ELEMENTS`.
pub const ELEMENTS: i64 = 3;

/// `gc_grace_seconds`: longer than a write can be under way, and than a logged batch can wait for its replay.
const GC_GRACE_SECONDS: u32 = 20;

/// Compaction strategies, given to the tables in turn.
const STRATEGIES: [&str; 4] = [
    "'class': 'SizeTieredCompactionStrategy', 'min_threshold': 3",
    "'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 1",
    "'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1",
    "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T3'",
];

/// Kinds of memtables, each given to two tables in a row, so that each strategy occurs with both.
const MEMTABLES: [&str; 2] = ["default", "skiplist"];

/// The numbers of columns in [`CellKey`].
#[expect(missing_docs, reason = "the columns' names")]
pub mod column {
    pub const A: u8 = 1;
    pub const B: u8 = 2;
    pub const ST: u8 = 3;
    pub const M: u8 = 4;
    pub const S: u8 = 5;
    pub const L: u8 = 6;
    pub const U: u8 = 7;
    pub const C: u8 = 8;
}

use column::{A, B, C, L, M, S, ST, U};

/// The fields of the user type; a field's index is its element in [`CellKey`].
pub const FIELDS: [&str; 2] = ["x", "y"];

/// CREATE TYPE of the user type.
pub const CREATE_TYPE: &str = "CREATE TYPE IF NOT EXISTS s.pair (x bigint, y bigint)";

/// A table of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestTable {
    /// Its number in cell keys: 0 for `plain`, 1 for `wide`, 2 and above for the clients' own tables.
    pub index: u8,
}

impl TestTable {
    /// `plain`.
    pub const PLAIN: TestTable = TestTable { index: 0 };
    /// `wide`.
    pub const WIDE: TestTable = TestTable { index: 1 };

    /// The table of client `number`.
    pub fn own(number: u8) -> TestTable {
        TestTable { index: 2 + number }
    }

    /// Its name with the keyspace, for CQL.
    pub fn name(self) -> String {
        let (keyspace, name) = self.keyspace_and_name();
        format!("{keyspace}.{name}")
    }

    /// Its keyspace and its name.
    pub fn keyspace_and_name(self) -> (String, String) {
        let name = match self.index {
            0 => "plain".into(),
            1 => "wide".into(),
            n => format!("own{}", n - 2),
        };
        ("s".into(), name)
    }

    /// Its options. `gc_grace_seconds` is so short that tombstones are purged within a run.
    fn options(self) -> String {
        let strategy = STRATEGIES[usize::from(self.index) % STRATEGIES.len()];
        let memtable = MEMTABLES[usize::from(self.index) / 2 % MEMTABLES.len()];
        format!("compaction = {{{strategy}}} AND gc_grace_seconds = {GC_GRACE_SECONDS} AND memtable = '{memtable}'")
    }

    /// Whether partitions have several rows.
    pub fn is_wide(self) -> bool {
        self.index > 0
    }

    /// Whether only one client uses it.
    pub fn is_own(self) -> bool {
        self.index > 1
    }

    /// CREATE TABLE IF NOT EXISTS.
    pub fn create(self) -> String {
        let name = self.name();
        let options = self.options();
        if !self.is_wide() {
            return format!(
                "CREATE TABLE IF NOT EXISTS {name} (pk bigint PRIMARY KEY, a bigint, b bigint) WITH {options}"
            );
        }
        let own = if self.is_own() { ", c bigint" } else { "" };
        let order = if self.is_own() { "CLUSTERING ORDER BY (ck DESC) AND " } else { "" };
        format!(
            "CREATE TABLE IF NOT EXISTS {name} (pk bigint, ck bigint, a bigint, b bigint, st bigint static, \
             m map<bigint, bigint>, s set<bigint>, l list<bigint>, u pair{own}, PRIMARY KEY (pk, ck)) WITH {order}{options}"
        )
    }

    /// Every clustering in use.
    pub fn clusterings(self) -> Vec<i64> {
        if self.is_wide() { (0..ROWS).collect() } else { vec![0] }
    }

    /// The WHERE clause that selects a row.
    pub fn row_of(self, pk: i64, ck: i64) -> String {
        if self.is_wide() { format!("pk = {pk} AND ck = {ck}") } else { format!("pk = {pk}") }
    }

    /// A cell.
    pub fn cell(self, pk: i64, ck: i64, column: u8, element: i64) -> CellKey {
        CellKey { table: self.index, pk, ck, column, element }
    }

    /// The static cell of a partition.
    pub fn static_cell(self, pk: i64) -> CellKey {
        self.cell(pk, STATIC, ST, 0)
    }

    /// The cells that the deletion of a row writes to; a list counts as one cell, with the element [`WHOLE`].
    pub fn deleted_with_row(self, pk: i64, ck: i64) -> Vec<CellKey> {
        let mut cells: Vec<CellKey> = [MARKER, A, B].map(|column| self.cell(pk, ck, column, 0)).into();
        if self.is_wide() {
            cells.extend((0..ELEMENTS).map(|element| self.cell(pk, ck, M, element)));
            cells.extend((0..ELEMENTS).map(|element| self.cell(pk, ck, S, element)));
            cells.push(self.cell(pk, ck, L, WHOLE));
            cells.extend((0..FIELDS.len() as i64).map(|element| self.cell(pk, ck, U, element)));
        }
        if self.is_own() {
            cells.push(self.cell(pk, ck, C, 0));
        }
        cells
    }
}

/// The cells that make a row exist: the row exists if any of them has a value.
pub fn row_cells(history: &History, table: u8, pk: i64, ck: i64) -> Vec<CellKey> {
    let table = TestTable { index: table };
    let mut cells = table.deleted_with_row(pk, ck);
    cells.retain(|cell| cell.element != WHOLE);
    if table.is_wide() {
        let list = table.cell(pk, ck, L, 0);
        cells.extend(history.elements(list).into_iter().map(|element| CellKey { element, ..list }));
    }
    cells
}
