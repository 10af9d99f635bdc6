//! How busy the tablets are of which this core serves a part: what it reads and writes as a replica, priced as
//! `docs/partitioning.md` says for one replica.
//!
//! Invariants: a request of a table without tablets looks at a word and a bit of its table's id, unless another table
//! with the same bit has tablets; what a coordinator does is not counted, nor streams and
//! compactions.

use cluster::placement::Placement;
use cluster::tablets::load::{LoadReport, TableLoad};
use cluster::units::price::{read_at_replica, write_at_replica};
use model::{IdMap, TableId, Token};
use std::cell::{Cell, RefCell};
use uuid::Uuid;

/// A core keeps tokens of a tablet that has this part of the throughput at which it is split, on that core.
const BUSY_SHARE: f64 = 1.0 / 64.0;

/// The loads of one core.
#[derive(Default)]
pub(crate) struct TabletLoads {
    /// The bits of the tables that have tablets.
    counted: Cell<u64>,
    tables: RefCell<IdMap<TableId, TableLoad>>,
}

/// The bit of a table: of the part of its id that differs most between tables.
#[inline]
fn bit(table: TableId) -> u64 {
    1 << (table.0[3] & 63)
}

impl TabletLoads {
    /// Whether a table may have tablets.
    #[inline]
    pub(crate) fn counts(&self, table: TableId) -> bool {
        self.counted.get() & bit(table) != 0
    }

    /// Notes a read of so many rows and tombstones that returned so many bytes.
    pub(crate) fn note_read(&self, table: TableId, token: Token, (rows, bytes): (u64, u64)) {
        self.note(table, token, read_at_replica(rows, bytes));
    }

    /// Notes a mutation of so many bytes.
    pub(crate) fn note_write(&self, table: TableId, token: Token, bytes: u64) {
        self.note(table, token, write_at_replica(bytes));
    }

    fn note(&self, table: TableId, token: Token, hundredths: u64) {
        if let Some(load) = self.tables.borrow_mut().get_mut(&table) {
            load.note(token.0, hundredths, micros());
        }
    }

    /// Counts for the tablets of a placement, of which the node `own` has some. `throughput`: the units a second above
    /// which one is split.
    pub(crate) fn adopt(&self, placement: &Placement, own: Uuid, throughput: f64) {
        let mut tables = self.tables.borrow_mut();
        let mut before = std::mem::take(&mut *tables);
        for (id, map) in placement.all_tablets() {
            let load = match before.remove(&id) {
                Some(mut load) => {
                    load.adopt(map, own, micros());
                    load
                }
                None => TableLoad::new(map, own, throughput * BUSY_SHARE, micros()),
            };
            tables.insert(id, load);
        }
        self.counted.set(tables.keys().fold(0, |bits, id| bits | bit(*id)));
    }

    /// The load of all tablets that this node has and that are not idle, by table.
    pub(crate) fn report(&self) -> Vec<(TableId, Vec<LoadReport>)> {
        let mut tables = self.tables.borrow_mut();
        tables.iter_mut().map(|(id, load)| (*id, load.report(micros()))).collect()
    }
}

/// The time as loads count it.
fn micros() -> u64 {
    runtime::now().0 / 1_000
}
