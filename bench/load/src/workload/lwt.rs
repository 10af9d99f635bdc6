//! Lightweight transactions: inserts rows that do not exist, and updates those that have the expected value.

use super::{Check, Kind, Operation, Workload, single};
use crate::reply::Rows;
use crate::statement::Body;
use crate::values;
use wire::Opcode;

pub(super) struct Lwt {
    pub(super) value_bytes: usize,
}

const KINDS: [Kind; 3] = [
    Kind { name: "insert", writes: true, weight: 0.0 },
    Kind { name: "update", writes: true, weight: 1.0 },
    Kind { name: "read", writes: false, weight: 1.0 },
];
const INSERT: usize = 0;
const UPDATE: usize = 1;

impl Workload for Lwt {
    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn table(&self) -> (String, String) {
        (format!("lwt_{}", self.value_bytes), "(key bigint PRIMARY KEY, value blob)".to_string())
    }

    fn statements(&self, table: &str) -> Vec<String> {
        vec![
            format!("INSERT INTO {table} (key, value) VALUES (?, ?) IF NOT EXISTS"),
            format!("UPDATE {table} SET value = ? WHERE key = ? IF value = ?"),
            format!("SELECT key, value FROM {table} WHERE key = ?"),
        ]
    }

    fn encode(&self, operation: &Operation, body: &mut Body<'_>) -> Opcode {
        let Operation { kind, key, .. } = *operation;
        let seed = values::seed(key, 0, 0);
        body.execute(kind, |values| {
            if kind == UPDATE {
                values.derived(seed, self.value_bytes);
            }
            values.bigint(key);
            if kind == INSERT || kind == UPDATE {
                values.derived(seed, self.value_bytes);
            }
        })
    }

    fn check(&self, operation: &Operation, mut rows: Rows<'_>) -> Check {
        let Operation { kind, key, .. } = *operation;
        let own = |cell: &[u8]| values::matches(cell, values::seed(key, 0, 0), self.value_bytes);
        if kind != INSERT && kind != UPDATE {
            return single(rows, |rows| Some(rows.number()?? == key && own(rows.cell()??)));
        }
        let columns = rows.columns();
        let applied = rows.cell();
        match (kind, applied) {
            (_, Some(Some([1]))) => Check::Fine,
            // If the row does not exist, the answer holds only [applied].
            (UPDATE, Some(Some([0]))) if columns == 1 => Check::Missing,
            (UPDATE, Some(Some([0]))) => match rows.cell() {
                Some(None) => Check::Missing,
                _ => Check::Wrong,
            },
            // If the row exists, the answer holds [applied], key, value.
            (INSERT, Some(Some([0]))) => match (rows.number(), rows.cell()) {
                (Some(Some(number)), Some(Some(value))) if number == key && own(value) => Check::NotApplied,
                _ => Check::Wrong,
            },
            _ => Check::Wrong,
        }
    }
}
