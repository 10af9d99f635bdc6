//! Batches: every key is a partition whose rows are written by one batch and read by one slice.

use super::{Check, Kind, Operation, Workload};
use crate::reply::Rows;
use crate::statement::Body;
use crate::values;
use wire::Opcode;

pub(super) struct Batch {
    pub(super) value_bytes: usize,
    pub(super) rows: u64,
    pub(super) logged: bool,
}

const KINDS: [Kind; 2] =
    [Kind { name: "write", writes: true, weight: 1.0 }, Kind { name: "read", writes: false, weight: 1.0 }];
const WRITE: usize = 0;

impl Workload for Batch {
    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn table(&self) -> (String, String) {
        let columns = "(partition bigint, row bigint, value blob, PRIMARY KEY (partition, row))";
        (format!("batch_{}_{}", self.rows, self.value_bytes), columns.to_string())
    }

    fn statements(&self, table: &str) -> Vec<String> {
        vec![
            format!("INSERT INTO {table} (partition, row, value) VALUES (?, ?, ?)"),
            format!("SELECT row, value FROM {table} WHERE partition = ?"),
        ]
    }

    fn encode(&self, operation: &Operation, body: &mut Body<'_>) -> Opcode {
        let Operation { kind, key, .. } = *operation;
        if kind != WRITE {
            return body.execute(kind, |values| values.bigint(key));
        }
        body.batch(self.logged, WRITE, self.rows, |row, values| {
            values.bigint(key);
            values.bigint(row);
            values.derived(values::seed(key, row, 0), self.value_bytes);
        })
    }

    fn check(&self, operation: &Operation, mut rows: Rows<'_>) -> Check {
        match operation.kind {
            WRITE => return Check::Fine,
            _ if rows.count() == 0 => return Check::Missing,
            // A batch on one partition is applied atomically, so a slice sees all of its rows or none.
            _ if rows.count() as u64 != self.rows => return Check::Wrong,
            _ => {}
        }
        for row in 0..self.rows {
            let (Some(Some(at)), Some(Some(value))) = (rows.number(), rows.cell()) else { return Check::Wrong };
            if at != row || !values::matches(value, values::seed(operation.key, row, 0), self.value_bytes) {
                return Check::Wrong;
            }
        }
        Check::Fine
    }
}
