//! Wide partitions: each key is a row, and `partition_rows` of them form a partition. Reads take single rows or slices.

use super::{Check, Kind, Operation, Workload, single};
use crate::reply::Rows;
use crate::statement::Body;
use crate::values;
use wire::Opcode;

pub(super) struct Wide {
    pub(super) value_bytes: usize,
    pub(super) partition_rows: u64,
    pub(super) slice_rows: u64,
}

const KINDS: [Kind; 3] = [
    Kind { name: "write", writes: true, weight: 1.0 },
    Kind { name: "read", writes: false, weight: 1.0 },
    Kind { name: "slice", writes: false, weight: 1.0 },
];
const WRITE: usize = 0;
const READ: usize = 1;

impl Workload for Wide {
    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn table(&self) -> (String, String) {
        let columns = "(partition bigint, row bigint, value blob, PRIMARY KEY (partition, row))";
        (format!("wide_{}_{}", self.partition_rows, self.value_bytes), columns.to_string())
    }

    fn statements(&self, table: &str) -> Vec<String> {
        vec![
            format!("INSERT INTO {table} (partition, row, value) VALUES (?, ?, ?)"),
            format!("SELECT row, value FROM {table} WHERE partition = ? AND row = ?"),
            format!("SELECT row, value FROM {table} WHERE partition = ? AND row >= ? LIMIT {}", self.slice_rows),
        ]
    }

    fn operation(&self, kind: usize, key: u64, _: u64) -> Operation {
        Operation { kind, key: key / self.partition_rows, row: key % self.partition_rows }
    }

    fn encode(&self, operation: &Operation, body: &mut Body<'_>) -> Opcode {
        let Operation { kind, key, row } = *operation;
        body.execute(kind, |values| {
            values.bigint(key);
            values.bigint(row);
            if kind == WRITE {
                values.derived(values::seed(key, row, 0), self.value_bytes);
            }
        })
    }

    fn check(&self, operation: &Operation, mut rows: Rows<'_>) -> Check {
        let Operation { kind, key, row } = *operation;
        let fits = |rows: &mut Rows<'_>, from: u64| {
            let at = rows.number()??;
            let value = rows.cell()??;
            let fits = at >= from && values::matches(value, values::seed(key, at, 0), self.value_bytes);
            Some(fits.then_some(at))
        };
        match kind {
            WRITE => Check::Fine,
            READ => single(rows, |rows| Some(fits(rows, row)? == Some(row))),
            _ if rows.count() == 0 => Check::Missing,
            _ if rows.count() as u64 > self.slice_rows => Check::Wrong,
            _ => {
                let mut from = row;
                for _ in 0..rows.count() {
                    let Some(Some(at)) = fits(&mut rows, from) else { return Check::Wrong };
                    from = at + 1;
                }
                Check::Fine
            }
        }
    }
}
