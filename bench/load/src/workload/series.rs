//! Time series: samples of a series by time, newest first; reads take the newest.

use super::{Check, Kind, Operation, Workload};
use crate::reply::Rows;
use crate::statement::Body;
use crate::values;
use wire::Opcode;

pub(super) struct Series {
    pub(super) value_bytes: usize,
    pub(super) slice_rows: u64,
}

const KINDS: [Kind; 2] =
    [Kind { name: "write", writes: true, weight: 1.0 }, Kind { name: "read", writes: false, weight: 1.0 }];
const WRITE: usize = 0;

impl Workload for Series {
    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn table(&self) -> (String, String) {
        let columns =
            "(series bigint, at bigint, value blob, PRIMARY KEY (series, at)) WITH CLUSTERING ORDER BY (at DESC)";
        (format!("series_{}", self.value_bytes), columns.to_string())
    }

    fn statements(&self, table: &str) -> Vec<String> {
        vec![
            format!("INSERT INTO {table} (series, at, value) VALUES (?, ?, ?)"),
            format!("SELECT at, value FROM {table} WHERE series = ? LIMIT {}", self.slice_rows),
        ]
    }

    fn operation(&self, kind: usize, key: u64, number: u64) -> Operation {
        Operation { kind, key, row: number }
    }

    fn encode(&self, operation: &Operation, body: &mut Body<'_>) -> Opcode {
        let Operation { kind, key, row } = *operation;
        body.execute(kind, |values| {
            values.bigint(key);
            if kind == WRITE {
                values.bigint(row);
                values.derived(values::seed(key, row, 0), self.value_bytes);
            }
        })
    }

    fn check(&self, operation: &Operation, mut rows: Rows<'_>) -> Check {
        if operation.kind == WRITE {
            return Check::Fine;
        }
        let mut previous = u64::MAX;
        for _ in 0..rows.count() {
            let (Some(Some(at)), Some(Some(value))) = (rows.number(), rows.cell()) else { return Check::Wrong };
            let fits = at < previous && values::matches(value, values::seed(operation.key, at, 0), self.value_bytes);
            if !fits {
                return Check::Wrong;
            }
            previous = at;
        }
        match rows.count() {
            0 => Check::Missing,
            count if count as u64 > self.slice_rows => Check::Wrong,
            _ => Check::Fine,
        }
    }
}
